"""What is said on the bus about records."""

from kvberth.bare.scheduler.commands import delete, delete_node
from kvberth.bare.scheduler.messages import engine_want, gone_event, node_event, pod_event, spec_event
from kvberth.bare.scheduler.turn import Limits, Seen, turn
from kvberth_schemas.events import (
    KVCacheGoneV1,
    KVCacheSpecV1,
    NodeGoneV1,
    PodGoneV1,
    PodReadyV1,
    PodScheduledV1,
    PodWaitingV1,
    Resources,
)
from kvberth_schemas.requests import ObjectRequest


def one_pod(state):
    (pod,) = state.pods.values()
    return pod


def test_a_pods_event_follows_its_life(make, build, moment):
    waiting = one_pod(turn(build(make.engine()), Seen(), Limits(), moment).state)
    event = pod_event(waiting)
    assert isinstance(event, PodWaitingV1)
    assert event.why == "0/0 nodes: none is registered"
    bound = waiting.model_copy(update={"node": "l20-a"})
    event = pod_event(bound)
    assert isinstance(event, PodScheduledV1)
    assert (event.node, event.model, event.legacy, event.requests.gpus) == ("l20-a", "llama", True, 1)
    assert [mount.host_path for mount in event.sockets] == ["/var/run/vineyard-kubernetes/default/llama-kv"]
    unready = pod_event(bound.model_copy(update={"was_ready": True, "restarts": 2}))
    assert isinstance(unready, PodReadyV1)
    assert (unready.ready, unready.restarts) == (False, 2)
    gone = pod_event(bound.model_copy(update={"gone": make.NOW, "gone_why": "it ended"}))
    assert isinstance(gone, PodGoneV1)
    assert (gone.node, gone.why, gone.workload.wanted) == ("l20-a", "it ended", 1)


def test_an_engines_want_runs_stops_and_ends_with_it(make, build, moment):
    state = turn(build(make.node("l20-a"), make.engine()), Seen(), Limits(), moment).state
    pod = one_pod(state)
    want = engine_want(pod, 7)
    assert (want.state, str(want.why), want.term, want.grace_s) == ("run", "wanted", 7, 7)
    assert want.env == {"AIBRIX_LLM_KV_CACHE_SOCKET": "/var/run/vineyard.sock"}
    assert want.workload == "Deployment/llama"
    assert want.gate is True
    unmounted = pod.model_copy(update={"shape": pod.shape.model_copy(update={"sockets": ()})})
    assert engine_want(unmounted, 7).gate is False
    stop = engine_want(one_pod(delete(state, ObjectRequest(kind="Pod", name=pod.name), make.NOW)[0]), 7)
    assert (stop.state, str(stop.why)) == ("stop", "user")
    lost = one_pod(delete_node(state, "l20-a", make.NOW)[0])
    assert engine_want(lost, 7).state == "stop"
    assert engine_want(lost.model_copy(update={"ended": True}), 7) is None
    assert engine_want(pod.model_copy(update={"node": None}), 7) is None


def test_nothing_is_asked_for_an_engine_that_was_taken_over_until_it_is_deleted(make, build, moment):
    adopted = one_pod(turn(build(make.node("l20-a"), make.engine()), Seen(), Limits(), moment).state).model_copy(
        update={"adopted": True}
    )
    assert engine_want(adopted, 7) is None
    assert engine_want(adopted.model_copy(update={"deleting": True}), 7).state == "stop"


def test_a_kvcaches_end_is_the_users_word_only_when_he_said_it(make, build):
    state = build(make.kvcache().replace("namespace: default}", 'annotations: {kvberth.dev/paused: "true"}}'))
    (record,) = state.manifests.values()
    spec = spec_event(record)
    assert isinstance(spec, KVCacheSpecV1)
    assert (spec.generation, spec.paused, spec.manifest) == (1, True, record.document)
    deleted, _ = delete(state, ObjectRequest(kind="KVCache", name="llama-kv"), make.NOW)
    (record,) = deleted.manifests.values()
    assert spec_event(record).by_user is True
    assert gone_event(spec).by_user is False


def test_a_node_that_is_not_ready_says_why(make, build):
    (node,) = build(make.node("l20-a")).nodes.values()
    fine, lost = node_event(node, Resources(gpus=1), None, 9), node_event(node, Resources(), 3, 10)
    assert (fine.ready, fine.why, fine.requested.gpus, fine.resource_version) == (True, "", 1, 9)
    assert (lost.ready, lost.why) == (False, "its runner has given no sign of life for more than 3 s")


def test_what_is_found_and_not_known_gets_an_end_and_an_end_gets_none(make, build, moment):
    state = turn(build(make.node("l20-a"), make.engine(), make.kvcache()), Seen(), Limits(), moment).state
    pod = pod_event(one_pod(state))
    node = node_event(state.nodes["l20-a"], Resources(), None, 1)
    spec = spec_event(state.manifests["KVCache", "default", "llama-kv"])
    for found, end in ((pod, PodGoneV1), (node, NodeGoneV1), (spec, KVCacheGoneV1)):
        said = gone_event(found)
        assert isinstance(said, end)
        assert gone_event(said) is None
