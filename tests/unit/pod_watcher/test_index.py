"""What there is to say about the cluster, whatever order things are told in."""

from typing import Any

from kvberth.kube import Key
from kvberth.pod_watcher.index import Index
from kvberth.pod_watcher.owned import OwnerKey
from kvberth.pod_watcher.speaker import only_version_differs
from kvberth_schemas import subjects
from kvberth_schemas.events import (
    KVCacheGoneV1,
    KVCacheSpecV1,
    NodeGoneV1,
    Owner,
    PodGoneV1,
    PodReadyV1,
    PodScheduledV1,
    PodWaitingV1,
    Resources,
)
from unit.pod_watcher.live import live, raw, read

DEPLOYMENT = Owner(kind="Deployment", name="llama-3-8b-instruct", uid="d", wanted=1)
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def see(index: Index, value: dict[str, Any]) -> subjects.EventSubject:
    entry = read(value)
    index.see_pod(entry.key, entry.uid, entry.value)
    return subjects.pod(entry.key.namespace, entry.uid)


def key_of(value: dict[str, Any]) -> Key:
    return Key(value["metadata"]["namespace"], value["metadata"]["name"])


def controller(value: dict[str, Any]) -> OwnerKey:
    (owner,) = value["metadata"]["ownerReferences"]
    return OwnerKey(value["metadata"]["namespace"], owner["kind"], owner["name"], owner["uid"])


def engine(index: Index, name: str = "pod-bound", **changes: Any) -> tuple[dict[str, Any], subjects.EventSubject]:
    """An engine whose owner is known."""
    value = raw(name, **changes)
    subject = see(index, value)
    index.answer(controller(value), DEPLOYMENT)
    return value, subject


def test_a_pod_is_held_back_until_its_owner_is_known_and_that_is_not_whole():
    index = Index()
    value = raw("pod-bound")
    subject = see(index, value)
    assert index.event(subject) is None
    assert index.is_there(subject)
    assert index.owned.take_questions() == {controller(value)}
    index.take_touched()
    assert not index.whole
    index.answer(controller(value), DEPLOYMENT)
    assert index.take_touched() == [subject]
    assert index.whole
    event = index.event(subject)
    assert isinstance(event, PodScheduledV1)
    assert event.workload == DEPLOYMENT


def test_a_pod_whose_owner_did_not_answer_is_told_without_one_until_it_does():
    index = Index()
    value = raw("pod-bound")
    subject = see(index, value)
    index.answer(controller(value), None)
    event = index.event(subject)
    assert isinstance(event, PodScheduledV1)
    assert event.workload is None
    index.answer(controller(value), DEPLOYMENT)
    index.answer(controller(value), None)
    event = index.event(subject)
    assert isinstance(event, PodScheduledV1)
    assert event.workload == DEPLOYMENT, "an owner that was known stays known when it can't be read"


def test_another_kind_of_owner_is_named_and_never_asked_for():
    index = Index()
    owner = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "l", "uid": "w"}
    subject = see(index, raw("pod-bound", metadata={"ownerReferences": [{**owner, "controller": True}]}))
    event = index.event(subject)
    assert isinstance(event, PodScheduledV1)
    assert event.workload == Owner(kind="LeaderWorkerSet", name="l", uid="w")
    assert index.owned.take_questions() == set()


def test_how_many_are_wanted_is_asked_again_when_pods_come_leave_or_go_and_not_when_they_only_change():
    index = Index()
    value, _ = engine(index)
    index.owned.take_questions()
    see(index, raw("pod-bound", status=READY))
    assert index.owned.take_questions() == set()
    see(index, raw("pod-bound", metadata={"deletionTimestamp": "2026-11-30T09:00:00Z"}))
    assert index.owned.take_questions() == {controller(value)}
    other = raw("pod-bound", metadata={"name": "other", "uid": "other"})
    see(index, other)
    assert index.owned.take_questions() == {controller(value)}
    index.lose_pod(key_of(value))
    assert index.owned.take_questions() == {controller(value)}
    index.lose_pod(key_of(other))
    assert index.owned.take_questions() == set()
    assert not index.owned.unanswered


def test_what_was_ready_stays_so_and_an_earlier_life_is_believed_about_it():
    index = Index()
    _, subject = engine(index, status=READY)
    see(index, raw("pod-bound"))
    assert isinstance(index.event(subject), PodReadyV1)

    other = Index()
    _, subject = engine(other)
    assert isinstance(other.event(subject), PodScheduledV1)
    said = index.event(subject)
    assert said is not None
    other.remember(subject, said)
    assert isinstance(other.event(subject), PodReadyV1)


def test_a_deleted_pod_is_gone_and_another_of_its_name_is_another():
    index = Index()
    value, first = engine(index)
    index.lose_pod(key_of(value))
    _, second = engine(index, "pod-waiting", metadata={"name": value["metadata"]["name"], "uid": "second"})
    gone = index.event(first)
    assert isinstance(gone, PodGoneV1)
    assert (gone.why, gone.workload) == ("it was deleted", DEPLOYMENT)
    assert isinstance(index.event(second), PodWaitingV1)
    assert not index.is_there(first)


def test_a_pod_that_finished_keeps_its_reason_when_its_object_goes():
    index = Index()
    value, subject = engine(index, status={"phase": "Failed", "reason": "Evicted"})
    first = index.event(subject)
    index.lose_pod(key_of(value))
    assert isinstance(first, PodGoneV1)
    assert index.event(subject) == first


def test_an_end_is_not_said_again_when_the_object_goes_in_a_newer_version():
    index = Index()
    value, subject = engine(index, status={"phase": "Succeeded"})
    first = index.event(subject)
    see(index, {**value, "metadata": {**value["metadata"], "resourceVersion": "999999"}})
    index.lose_pod(key_of(value))
    last = index.event(subject)
    assert (type(first), first == last, only_version_differs(first, last)) == (PodGoneV1, False, True)
    assert not only_version_differs(first, last.model_copy(update={"why": "it was deleted"}))


def test_a_pod_that_loses_label_and_directory_ends():
    index = Index()
    _, subject = engine(index)
    see(index, raw("pod-bound", metadata={"labels": None}, spec={"volumes": None}))
    gone = index.event(subject)
    assert isinstance(gone, PodGoneV1)
    assert "neither the label" in gone.why
    assert index.owned.take_questions() == set()


def test_a_node_sums_up_what_its_pods_request_whoever_comes_first():
    index = Index()
    node = live("node-ready")
    plain = raw("pod-bound", metadata={"labels": None, "uid": "p", "name": "p"}, spec={"volumes": None})
    see(index, plain)
    index.see_node(node)
    value, _ = engine(index)
    one = live("pod-bound").requests
    index.take_touched()

    def requested() -> Resources:
        event = index.event(subjects.node("l20-a"))
        return getattr(event, "requested", Resources())

    assert requested().gpus == 2
    see(
        index,
        raw("pod-bound", metadata={"labels": None, "uid": "p", "name": "p"}, spec={"volumes": None}, status=READY),
    )
    assert subjects.node("l20-a") not in index.take_touched(), "only what is requested matters to a node"
    see(index, raw("pod-bound", status={"phase": "Succeeded"}))
    assert subjects.node("l20-a") in index.take_touched()
    assert requested() == one
    index.lose_pod(key_of(value))
    index.lose_pod(key_of(plain))
    assert requested() == Resources()
    index.lose_node("l20-a")
    assert isinstance(index.event(subjects.node("l20-a")), NodeGoneV1)


def test_the_deletion_of_a_live_kvcache_is_the_users_word_and_not_finding_one_is_not():
    index = Index()
    spec = live("kvcache-first-generation")
    subject = subjects.spec(spec.namespace, spec.name)
    index.see_kvcache(spec)
    assert index.event(subject) == spec
    index.lose_kvcache(Key(spec.namespace, spec.name))
    gone = index.event(subject)
    assert isinstance(gone, KVCacheGoneV1)
    assert gone.by_user
    assert index.gone(subject, spec) == gone, "whoever led: it was seen"

    not_found = Index().gone(subject, spec)
    assert isinstance(not_found, KVCacheGoneV1)
    assert not not_found.by_user


def test_what_cannot_be_read_stays_as_it_was_said_until_it_is_deleted():
    index = Index()
    value, subject = engine(index)
    said = index.event(subject)
    assert said is not None
    index.cannot_read(key_of(value), subject)
    assert index.event(subject) == said
    new = Index()
    new.cannot_read(key_of(value), subject)
    assert new.gone(subject, said) is None
    new.lose_pod(key_of(value))
    assert isinstance(new.gone(subject, said), PodGoneV1)


def test_nothing_is_gone_that_is_there_or_in_a_namespace_that_is_not_watched():
    index = Index(lambda namespace: namespace != "other")
    _, subject = engine(index)
    said = index.event(subject)
    assert said is not None
    assert index.gone(subject, said) is None
    assert index.gone(subjects.pod("other", "u"), said) is None
    assert isinstance(index.gone(subjects.pod("default", "u"), said), PodGoneV1)


def test_a_new_leader_says_all_that_is_there_and_nothing_that_ended():
    index = Index()
    value, gone = engine(index)
    index.lose_pod(key_of(value))
    _, stays = engine(index, metadata={"name": "b", "uid": "b"})
    spec: KVCacheSpecV1 = live("kvcache-first-generation")
    index.see_kvcache(spec)
    index.see_node(live("node-ready"))
    index.take_touched()
    index.touch_all()
    touched = index.take_touched()
    assert set(touched) == {stays, subjects.spec(spec.namespace, spec.name), subjects.node("l20-a")}
    assert gone not in touched


def test_only_so_many_ended_things_are_remembered():
    index = Index(most_ended=2)
    ended = []
    for name in "abc":
        value, subject = engine(index, metadata={"name": name, "uid": name})
        index.lose_pod(key_of(value))
        ended.append(subject)
    assert index.event(ended[0]) is None
    assert ended[0] in index.take_touched(), "it is no longer put"
    assert isinstance(index.event(ended[2]), PodGoneV1)
