"""Deleting, scaling, cordoning, draining, registering, and the live read."""

import pytest

from kvberth.bare.scheduler.commands import cordon, delete, delete_node, drain, register, scale, workload
from kvberth.bare.scheduler.turn import Limits, Seen, turn
from kvberth_schemas.requests import ObjectRequest, ScaleRequest, WorkloadRequest
from kvberth_schemas.wants import Why


@pytest.fixture
def running(make, build, moment):
    """Two nodes, one engine of two replicas and a KVCache, bound."""
    state = build(make.node("l20-a"), make.node("l20-b"), make.engine(replicas=2), make.kvcache())
    return turn(state, Seen(), Limits(), moment).state


def outcome(results):
    return [(str(item.outcome), item.sentence) for item in results]


def test_deleting_a_workload_deletes_its_pods_and_wants_none(running, make):
    state, results = delete(running, ObjectRequest(kind="deploy", name="llama"), make.NOW)
    assert outcome(results) == [("accepted", "deleted with 2 pods")]
    assert all(pod.deleting and pod.why is Why.USER and pod.owner.wanted == 0 for pod in state.pods.values())
    assert state.manifest(("Deployment", "default", "llama")) is None


def test_deleting_a_kvcache_keeps_the_users_word(running, make):
    state, _ = delete(running, ObjectRequest(kind="kvcaches", name="llama-kv"), make.NOW)
    assert state.manifests["KVCache", "default", "llama-kv"].gone == make.NOW
    again, results = delete(state, ObjectRequest(kind="KVCache", name="llama-kv"), make.NOW)
    assert again is state
    assert str(results[0].outcome) == "refused"


def test_deleting_what_is_unknown_is_refused_with_a_sentence(running, make):
    for kind in ("Pod", "StatefulSet", "Service"):
        state, results = delete(running, ObjectRequest(kind=kind, name="nobody"), make.NOW)
        assert state is running
        assert str(results[0].outcome) == "refused"
        assert results[0].sentence


def test_deleting_a_pod_twice_says_so_and_keeps_the_first_reason(running, make):
    name = next(iter(running.pods.values())).name
    state, _ = delete(running, ObjectRequest(kind="pod", name=name), make.NOW)
    again, results = delete(state, ObjectRequest(kind="pod", name=name), make.NOW)
    assert again == state
    assert outcome(results) == [("accepted", "is being deleted already")]


def test_scaling_is_a_new_generation_and_the_same_number_is_none(running):
    state, results = scale(running, ScaleRequest(name="llama", replicas=5))
    assert outcome(results) == [("accepted", "scaled from 2 to 5")]
    assert state.manifests["Deployment", "default", "llama"].generation == 2
    assert scale(state, ScaleRequest(name="llama", replicas=5))[0] is state
    assert str(scale(state, ScaleRequest(name="nobody", replicas=1))[1][0].outcome) == "refused"
    assert str(scale(state, ScaleRequest(kind="KVCache", name="llama-kv", replicas=1))[1][0].outcome) == "refused"


def test_a_cordon_outlives_a_new_registration_and_an_uncordon_overrules_the_nodes_file(running, make):
    state, _ = cordon(running, "l20-a", cordoned=True)
    state, _ = register(state, make.node("l20-a"))
    assert state.nodes["l20-a"].unschedulable
    state, _ = register(state, make.node("l20-b", unschedulable=True))
    assert state.nodes["l20-b"].unschedulable
    state, _ = cordon(state, "l20-b", cordoned=False)
    state, _ = register(state, make.node("l20-b", unschedulable=True))
    assert not state.nodes["l20-b"].unschedulable


def test_commands_on_an_unknown_node_name_the_known_ones(running, make):
    for results in (
        cordon(running, "x", cordoned=True)[1],
        drain(running, "x")[1],
        delete_node(running, "x", make.NOW)[1],
    ):
        assert str(results[0].outcome) == "refused"
        assert "l20-a, l20-b" in results[0].sentence


def test_a_drain_cordons_and_deletes_what_is_on_the_node_only(running):
    state, results = drain(running, "l20-a")
    assert outcome(results) == [("accepted", "cordoned, 1 pod deleted")]
    assert state.nodes["l20-a"].unschedulable
    assert {pod.node: pod.deleting for pod in state.pods.values()} == {"l20-a": True, "l20-b": False}


def test_a_deleted_nodes_pods_are_gone_at_once(running, make):
    state, _ = delete_node(running, "l20-a", make.NOW)
    pod = next(pod for pod in state.pods.values() if pod.node == "l20-a")
    assert pod.gone == make.NOW
    assert "l20-a" in pod.gone_why
    assert "l20-a" not in state.nodes


def test_a_registration_carries_the_hostname_label_unless_the_node_has_one(running, make):
    assert running.nodes["l20-a"].labels["kubernetes.io/hostname"] == "l20-a"
    other = make.node("ip-10").model_copy(update={"labels": {"kubernetes.io/hostname": "other"}})
    assert register(running, other)[0].nodes["ip-10"].labels["kubernetes.io/hostname"] == "other"


def test_the_live_read_counts_bound_waiting_and_deleting_pods(running, make, moment):
    name = next(pod.name for pod in running.pods.values() if pod.node == "l20-a")
    state, _ = delete(running, ObjectRequest(kind="Pod", name=name), make.NOW)
    state = turn(state, Seen(), Limits(), moment).state
    reply = workload(state, WorkloadRequest(namespace="default", kind="Deployment", name="llama"))
    assert (reply.found, reply.wanted, reply.bound, reply.waiting, reply.deleting) == (True, 2, 1, 1, 1)
    nobody = workload(state, WorkloadRequest(namespace="default", kind="Deployment", name="nobody"))
    assert (nobody.found, nobody.wanted, nobody.bound) == (False, 0, 0)
