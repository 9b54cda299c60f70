"""Whole turns: from manifests and evidence to bound, ready, moved, gone and taken-over pods."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kvberth.bare.scheduler.commands import cordon, delete, delete_node, drain, register, scale
from kvberth.bare.scheduler.lifecycle import Evidence
from kvberth.bare.scheduler.messages import engine_want, pod_event
from kvberth.bare.scheduler.state import State
from kvberth.bare.scheduler.turn import REMEMBERED_AT_MOST, REMEMBERED_FOR, Limits, Seen, turn
from kvberth_schemas.events import (
    GateResult,
    LastEnd,
    NodeChangedV1,
    ProcessEndedV1,
    ProcessGoneV1,
    ProcessStartedV1,
    Resources,
)
from kvberth_schemas.requests import ObjectRequest, ScaleRequest
from kvberth_schemas.wants import Why

LIMITS = Limits(not_ready_after_s=3, eviction_after_s=300)


@pytest.fixture
def step(moment):
    """One turn; says that a second one with the same input changes nothing."""

    def run(state, *evidence, silence=None, **seen):
        view = Seen(tuple(evidence), silence or {}, **seen)
        after = turn(state, view, LIMITS, moment)
        assert turn(after.state, view, LIMITS, moment).state == after.state
        return after.state

    return run


@pytest.fixture
def running(make, build, step):
    """One engine on l20-a of two nodes (it has more GPUs)."""
    return step(build(make.node("l20-a", gpus=2), make.node("l20-b"), make.engine(), make.kvcache()))


def started(pod, *, ready=True, restarts=0, at=None, **fields):
    event = ProcessStartedV1(
        node=fields.pop("node", pod.node),
        namespace=pod.namespace,
        owner=pod.uid,
        name=pod.name,
        role=fields.pop("role", "engine"),
        pid=1,
        started=at or pod.created,
        ready=ready,
        restarts=restarts,
        **fields,
    )
    return Evidence(f"e-{pod.uid}", event)


def ended(pod, *, restarting=False, node=None, **fields):
    event = ProcessEndedV1(
        node=node or pod.node,
        namespace=pod.namespace,
        owner=pod.uid,
        name=pod.name,
        role="engine",
        restarting=restarting,
        **fields,
    )
    return Evidence(f"x-{pod.uid}", event)


def only(state):
    (pod,) = [pod for pod in state.pods.values() if pod.active]
    return pod


def test_an_applied_engine_is_bound_in_the_same_turn_with_its_owner(running):
    pod = only(running)
    assert pod.node == "l20-a"
    assert (pod.owner.kind, pod.owner.name, pod.owner.wanted) == ("Deployment", "llama", 1)
    assert pod.name.startswith("llama-")
    assert pod.shape.requests == Resources(cpu_millis=500, memory_bytes=8 * 2**30, gpus=1)
    assert pod.shape.env == {"AIBRIX_LLM_KV_CACHE_SOCKET": "/var/run/vineyard.sock"}
    assert pod.shape.grace_s == 7
    assert pod.shape.legacy


def test_an_engine_without_a_node_waits_with_a_sentence_and_is_bound_when_one_comes(make, build, step):
    state = step(build(make.engine()))
    assert only(state).waiting_for == "0/0 nodes: none is registered"
    state, _ = register(state, make.node("l20-a"))
    assert only(step(state)).node == "l20-a"
    assert only(step(state)).waiting_for == ""


def test_a_cordoned_nodes_deleted_pod_is_replaced_elsewhere_in_the_same_turn(running, step, make):
    old = only(running)
    state, _ = cordon(running, "l20-a", cordoned=True)
    state, _ = delete(state, ObjectRequest(kind="Pod", name=old.name), make.NOW)
    state = step(state)
    assert only(state).node == "l20-b"
    assert only(state).uid != old.uid
    assert state.pods[old.uid].deleting
    assert state.pods[old.uid].gone is None


def test_a_deleting_pod_is_gone_when_its_runner_says_so_and_not_before(running, step, make):
    old = only(running)
    state, _ = delete(running, ObjectRequest(kind="Pod", name=old.name), make.NOW)
    state = step(step(state), started(old))
    assert state.pods[old.uid].gone is None
    state = step(state, ended(old, restarting=True))
    assert state.pods[old.uid].gone is None
    state = step(state, ended(old, message="exit code 0"))
    assert state.pods[old.uid].gone == make.NOW
    assert state.pods[old.uid].ended
    assert state.pods[old.uid].owner.wanted == 1


def test_evidence_makes_a_pod_ready_and_counts_its_restarts(running, step):
    pod = only(running)
    assert not only(step(running, started(pod, ready=False))).ready
    state = step(running, started(pod))
    assert (only(state).ready, only(state).was_ready) == (True, True)
    state = step(state, ended(pod, restarting=True, restarts=1))
    assert (only(state).ready, only(state).was_ready, only(state).restarts) == (False, True, 1)
    state = step(state, started(pod, restarts=1))
    assert (only(state).ready, only(state).restarts) == (True, 1)


def test_a_pod_remembers_how_its_process_last_ended_and_where_its_log_is(running, step):
    pod = only(running)
    state = step(running, started(pod, log="/logs/engine.log"))
    assert (only(state).last_end, only(state).log) == (None, "/logs/engine.log")
    last = LastEnd(at=pod.created, exit_code=1)
    state = step(state, ended(pod, restarting=True, exit_code=1, last_end=last, log="/logs/engine.log"))
    assert only(state).last_end == last
    state = step(state, started(pod, restarts=1, last_end=last, log="/logs/engine.log"))
    assert (only(state).last_end, only(state).log) == (last, "/logs/engine.log")
    said = pod_event(only(state))
    assert (said.last_end, said.log) == (last, "/logs/engine.log")


def test_the_cause_of_a_change_is_the_event_that_said_it(running, moment):
    pod = only(running)
    assert turn(running, Seen((started(pod),)), LIMITS, moment).causes == {pod.uid: started(pod)}


def test_what_another_node_says_of_a_pod_does_not_count(running, step):
    pod = only(running)
    assert step(running, started(pod, node="l20-b")) == running
    assert step(running, ended(pod, node="l20-b")) == running


def test_absence_and_a_lost_record_never_make_a_pod_gone(running, step):
    pod = only(running)
    state = step(running, started(pod))
    assert only(step(state)).uid == pod.uid
    lost = Evidence("g", ProcessGoneV1(node=pod.node, namespace=pod.namespace, owner=pod.uid, role="engine"))
    assert only(step(state, lost)).ready is False


def test_an_engine_that_may_end_is_replaced_when_it_ended(make, build, step):
    text = make.engine().replace("terminationGracePeriodSeconds: 7", "restartPolicy: Never")
    state = step(build(make.node("l20-a"), text))
    old = only(state)
    state = step(state, ended(old, exit_code=0))
    assert only(state).uid != old.uid
    assert state.pods[old.uid].gone


def test_a_silent_node_gets_no_pods_and_loses_its_own_after_the_eviction_time(running, step):
    pod = only(running)
    state = step(running, silence={"l20-a": 299.0})
    assert only(state).uid == pod.uid
    state = step(running, silence={"l20-a": 300.0})
    assert only(state).node == "l20-b"
    assert state.pods[pod.uid].deleting
    assert state.pods[pod.uid].why is Why.MOVED
    assert state.pods[pod.uid].gone is None


def test_a_silent_node_is_no_place_for_a_waiting_pod(make, build, step):
    state = build(make.node("l20-a", gpus=2), make.node("l20-b"), make.engine())
    assert only(step(state, silence={"l20-a": 3.5})).node == "l20-b"
    waiting = only(step(state, silence={"l20-a": 3.5, "l20-b": 3.5}))
    assert waiting.waiting_for == "0/2 nodes: 2 not ready"


def test_a_drain_moves_a_deployment_at_once_and_a_stateful_set_when_its_pod_is_gone(make, build, step):
    state = step(build(make.node("l20-a", gpus=3), make.engine(name="q", kind="StatefulSet"), make.engine()))
    state, _ = register(state, make.node("l20-b", gpus=2))
    state = step(drain(state, "l20-a")[0])
    assert {(pod.owner.kind, pod.node) for pod in state.pods.values() if pod.active} == {("Deployment", "l20-b")}
    old = next(pod for pod in state.pods.values() if pod.name == "q-0")
    state = step(state, ended(old))
    (new,) = [pod for pod in state.pods.values() if pod.name == "q-0" and pod.active]
    assert (new.node, new.uid != old.uid) == ("l20-b", True)


def test_a_deleted_nodes_pods_are_replaced_and_its_late_runner_changes_nothing(running, step, make):
    old = only(running)
    state = step(delete_node(running, "l20-a", make.NOW)[0], started(old))
    assert only(state).node == "l20-b"
    assert state.pods[old.uid].gone == make.NOW
    assert not state.pods[old.uid].ended
    assert step(state, ended(old)).pods[old.uid].ended


def test_fewer_replicas_mark_the_surplus_and_tell_the_rest_what_is_wanted(make, build, step):
    state = step(build(make.node("l20-a", gpus=3), make.engine(replicas=3)))
    state = step(scale(state, ScaleRequest(name="llama", replicas=1))[0])
    assert only(state).owner.wanted == 1
    assert sorted(str(pod.why) for pod in state.pods.values() if pod.deleting) == ["scaled", "scaled"]


def test_a_deleted_pod_that_never_had_a_node_is_gone_at_once(make, build, step):
    state = step(build(make.engine()))
    pod = only(state)
    state = step(scale(state, ScaleRequest(name="llama", replicas=0))[0])
    assert state.pods[pod.uid].gone
    assert state.pods[pod.uid].ended


def test_running_caches_count_in_what_a_node_has_left(make, build, step):
    state = build(make.node("l20-a", memory=16 * make.GI), make.engine())
    cache = ProcessStartedV1(
        node="l20-a",
        namespace="default",
        owner="kv",
        name="kv",
        role="cache",
        pid=1,
        started=make.NOW,
        ready=True,
        memory_bytes=9 * make.GI,
    )
    state = step(state, Evidence("c", cache))
    assert only(state).waiting_for == "0/1 nodes: 1 without 8Gi of free memory"


def test_an_engine_that_the_directory_does_not_know_is_taken_over_and_counts(make, build, step, moment):
    known = step(build(make.node("l20-a", gpus=2), make.engine()))
    stranger = only(known)
    evidence = started(stranger, model="llama", workload="Deployment/llama", gpus=1)
    forgetful = build(make.node("l20-a", gpus=2), make.engine())
    after = turn(forgetful, Seen((evidence,)), LIMITS, moment)
    (pod,) = after.state.pods.values()
    assert (pod.uid, pod.node, pod.adopted, pod.ready) == (stranger.uid, "l20-a", True, True)
    assert pod.owner.wanted == 1
    assert "taken over" in after.notes[0]
    assert step(after.state) == after.state


def test_a_taken_over_engine_of_an_unknown_owner_runs_on_until_its_runner_says_that_it_ended(running, step):
    stranger = only(running)
    state = step(State(), started(stranger, model="llama", workload="Deployment/llama"))
    assert only(state).deleting is False
    assert step(state, ended(stranger)).pods[stranger.uid].gone


def test_a_node_of_an_earlier_life_is_taken_over_only_while_its_runner_lives(step):
    said = NodeChangedV1(
        name="l20-a",
        resource_version=1,
        ready=True,
        unschedulable=True,
        allocatable=Resources(gpus=1),
        requested=Resources(),
    )
    assert not step(State(), earlier_nodes=(said,)).nodes
    state = step(State(), earlier_nodes=(said,), living_nodes=frozenset({"l20-a"}))
    assert state.nodes["l20-a"].unschedulable


def test_what_is_long_gone_is_forgotten_unless_its_process_still_runs(running, step, make, moment):
    pod = only(running)
    state = step(delete_node(running, "l20-a", make.NOW)[0])
    state, _ = delete(state, ObjectRequest(kind="KVCache", name="llama-kv"), make.NOW)
    later = replace(moment, now=make.NOW + REMEMBERED_FOR + timedelta(seconds=1))
    kept = turn(state, Seen((started(pod),)), LIMITS, later).state
    assert pod.uid in kept.pods
    assert ("KVCache", "default", "llama-kv") not in kept.manifests
    assert pod.uid not in turn(state, Seen(), LIMITS, later).state.pods


def test_of_many_gone_pods_the_last_ones_are_remembered(running, step, make):
    gone = [
        only(running).model_copy(update={"uid": f"gone-{number}", "gone": make.NOW + timedelta(seconds=number)})
        for number in range(REMEMBERED_AT_MOST + 2)
    ]
    runs_on = started(gone[0])
    after = step(running.put(*gone), runs_on)
    assert (running.pods.keys() | {pod.uid for pod in gone}) - after.pods.keys() == {gone[1].uid}


def test_the_pods_of_a_stateful_set_come_in_order_unless_its_policy_says_parallel(make, build, step):
    text = make.engine(name="q", kind="StatefulSet", replicas=2)
    parallel = text.replace("spec:", "spec:\n  podManagementPolicy: Parallel", 1)
    state = step(build(make.node("l20-a", gpus=2), parallel))
    assert sorted(pod.name for pod in state.pods.values()) == ["q-0", "q-1"]

    state = step(build(make.node("l20-a", gpus=2), text))
    first = only(state)
    assert first.name == "q-0"
    assert only(step(state, started(first, ready=False))).name == "q-0"
    state = step(state, started(first))
    assert sorted(pod.name for pod in state.pods.values()) == ["q-0", "q-1"]


def test_what_runs_again_of_a_pod_that_is_gone_is_told_to_stop_and_may_end_again(running, step):
    old = only(running)
    state = step(delete(running, ObjectRequest(kind="Pod", name=old.name), None)[0], ended(old))
    assert state.pods[old.uid].ended
    revived = step(state, started(old))
    assert not revived.pods[old.uid].ended
    assert engine_want(revived.pods[old.uid], 1).state == "stop"
    assert step(revived, ended(old)).pods[old.uid].ended


def test_a_pod_says_what_its_gate_waits_for_and_then_how_it_ended(running, step):
    (pod,) = running.pods.values()
    waiting = step(running, started(pod, ready=False, at_gate=True, message="waits at its gate: SocketMissing"))
    assert waiting.pods[pod.uid].at_gate == "waits at its gate: SocketMissing"
    failed = step(waiting, ended(pod, restarting=True, at_gate=True, message="its gate ended: closed"))
    assert failed.pods[pod.uid].at_gate == "its gate ended: closed"
    opened = GateResult(outcome="timeout", reason="SocketMissing", waited_s=30.0)
    serving = step(failed, started(pod, gate=opened))
    assert (serving.pods[pod.uid].at_gate, serving.pods[pod.uid].gate) == ("", opened)
    said = pod_event(serving.pods[pod.uid])
    assert (said.gate, said.restarts) == (opened, 0)
