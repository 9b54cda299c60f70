"""What a live pod says; the pods are those of seed 000 as an API server, its controllers and scheduler made them."""

import json

import pytest

from kvberth.kube import Unreadable
from kvberth.pod_watcher.pods import pod_event, pod_gone
from kvberth.pod_watcher.watches import POD
from kvberth_schemas.events import (
    Owner,
    PodGoneV1,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodWaitingV1,
    Resources,
    SocketMount,
)
from unit.pod_watcher.live import live, raw, read

OWNER = Owner(kind="Deployment", name="llama-3-8b-instruct", uid="u", wanted=1)
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def test_an_engine_without_a_node_says_why_in_the_schedulers_words():
    event = pod_event(live("pod-waiting"), OWNER, was_ready=False)
    assert isinstance(event, PodWaitingV1)
    assert event.why == "no nodes available to schedule pods"
    assert event.workload == OWNER


def test_an_engine_that_the_scheduler_has_not_seen_says_so():
    event = pod_event(live("pod-waiting", status={"conditions": None}), None, was_ready=False)
    assert isinstance(event, PodWaitingV1)
    assert event.why == "the scheduler has not looked at it yet"


def test_a_bound_engine_is_scheduled_with_all_that_placement_asks_of_it():
    event = pod_event(live("pod-bound"), OWNER, was_ready=False)
    assert isinstance(event, PodScheduledV1)
    assert event.node == "l20-a"
    assert event.role is PodRole.ENGINE
    assert event.model == "llama-3-8b-instruct"
    assert event.sockets == (
        SocketMount(
            host_path="/var/run/vineyard-kubernetes/default/aibrix-kvcache-llama-3-8b-instruct",
            mount_path="/var/run",
        ),
    )
    assert event.legacy
    assert event.requests.gpus == 1
    assert {one.key: one.toleration_seconds for one in event.tolerations}["node.kubernetes.io/not-ready"] == 300
    assert not event.ready
    assert not event.deleting


def test_an_engine_that_is_ready_or_was_is_told_as_ready():
    now = pod_event(live("pod-bound", status=READY), OWNER, was_ready=False)
    before = pod_event(live("pod-bound"), OWNER, was_ready=True)
    assert isinstance(now, PodReadyV1)
    assert now.ready
    assert isinstance(before, PodReadyV1)
    assert not before.ready


def test_restarts_of_all_containers_count_and_a_deletion_shows():
    statuses = [{"name": "a", "restartCount": 2}, {"name": "b", "restartCount": 1}]
    pod = live(
        "pod-bound", status={"containerStatuses": statuses}, metadata={"deletionTimestamp": "2026-11-30T09:00:00Z"}
    )
    event = pod_event(pod, OWNER, was_ready=False)
    assert (event.restarts, event.deleting) == (3, True)


def test_a_pod_whose_phase_is_final_has_ended_and_says_why():
    pod = live("pod-bound", status={"phase": "Failed", "reason": "Evicted", "message": "low on memory"})
    assert pod.finished == "its phase is Failed (Evicted: low on memory)"
    assert live("pod-bound", status={"phase": "Succeeded"}).finished == "its phase is Succeeded"
    assert live("pod-bound", status={"phase": "Running"}).finished == ""
    gone = pod_gone(pod, OWNER, pod.finished)
    assert isinstance(gone, PodGoneV1)
    assert (gone.node, gone.model, gone.workload) == ("l20-a", "llama-3-8b-instruct", OWNER)


def test_requests_are_counted_as_the_scheduler_counts_them():
    big = {"name": "init", "image": "i", "resources": {"requests": {"cpu": "64"}}}
    overhead = {"cpu": "250m", "memory": "120Mi"}
    plain = live("pod-bound").requests
    assert live("pod-bound", spec={"initContainers": [big]}).requests.cpu_millis == 64_000
    assert live("pod-bound", spec={"overhead": overhead}).requests == Resources(
        cpu_millis=plain.cpu_millis + 250, memory_bytes=plain.memory_bytes + 120 * 2**20, gpus=1
    )
    own = {"resources": {"requests": {"cpu": "100"}, "limits": {"cpu": "200"}}}
    assert live("pod-bound", spec=own).requests.cpu_millis == 100_000


def test_the_users_and_groups_are_those_that_the_engine_will_have():
    pod = raw("pod-bound", spec={"securityContext": {"runAsUser": 1000, "supplementalGroups": [7], "fsGroup": 9}})
    event = pod_event(read(pod).value, None, was_ready=False)
    assert (event.run_as_user, event.supplemental_groups) == (1000, (7, 9))
    mounting = next(
        one
        for one in pod["spec"]["containers"]
        if any(mount["mountPath"] == "/var/run" for mount in one["volumeMounts"])
    )
    mounting["securityContext"] = {"runAsUser": 2000}
    assert pod_event(read(pod).value, None, was_ready=False).run_as_user == 2000


def test_a_pod_with_our_label_is_a_cache_and_one_that_only_mounts_is_an_engine_without_a_model():
    cache = live("pod-bound", metadata={"labels": {"kvberth.dev/kvcache": "kv", "model.aibrix.ai/name": "llama"}})
    event = pod_event(cache, None, was_ready=False)
    assert (event.role, event.kvcache, event.legacy) == (PodRole.CACHE, "kv", False)
    mounts = pod_event(live("pod-bound", metadata={"labels": {"model.aibrix.ai/name": None}}), None, was_ready=False)
    assert (mounts.role, mounts.model) == (PodRole.ENGINE, None)


def test_a_pod_that_is_neither_counts_but_is_not_spoken_of():
    pod = live("pod-bound", metadata={"labels": None}, spec={"volumes": None})
    assert pod.subject is None
    assert pod.node == "l20-a"
    assert pod.requests.gpus == 1
    with pytest.raises(ValueError, match="neither an engine nor a cache"):
        pod_event(pod, None, was_ready=False)


def test_what_a_newer_kubernetes_may_say_is_read_all_the_same():
    pod = live(
        "pod-bound",
        spec={"restartPolicy": "Sometimes", "tolerations": [{"key": "k", "operator": "Near", "effect": "Later"}]},
        status={"phase": "Dreaming"},
    )
    event = pod_event(pod, None, was_ready=False)
    assert [one.operator for one in event.tolerations] == ["Near"]


def test_a_pod_that_cannot_be_read_is_unreadable_and_keeps_its_name():
    found = POD.read_bytes(json.dumps(raw("pod-bound", spec={"containers": []})).encode())
    assert isinstance(found, Unreadable)
    assert "spec.containers" in found.why
    assert found.uid == raw("pod-bound")["metadata"]["uid"]


def test_an_engine_as_a_kubelet_tells_of_it_is_ready_leaving_and_holds_its_node():
    pod = live("pod-leaving-by-kubelet")
    event = pod_event(pod, OWNER, was_ready=False)
    assert isinstance(event, PodReadyV1)
    assert (event.ready, event.deleting, event.restarts, event.node) == (True, True, 0, "l20-a")
    assert event.gate is None, "an init container that says nothing is no gate"
    assert pod.finished == ""
    assert pod.subject is not None
    assert pod.subject.controller is not None
    assert pod.subject.controller.kind == "ReplicaSet"


def test_a_cache_as_a_kubelet_tells_of_it_is_ready_and_names_its_kvcache():
    event = pod_event(live("cache-by-kubelet"), None, was_ready=False)
    assert isinstance(event, PodReadyV1)
    assert event.role is PodRole.CACHE
    assert event.kvcache == "aibrix-kvcache-llama-3-8b-instruct"
    assert (event.run_as_user, event.supplemental_groups) == (0, (10001,))
    assert event.requests.memory_bytes == 72 * 2**30


def test_a_pod_whose_gate_runs_says_so_until_it_has_ended():
    statuses = [
        {"name": "init-model", "state": {"terminated": {"exitCode": 0}}},
        {"name": "kvberth-gate", "state": {"running": {"startedAt": "2026-11-30T09:00:00Z"}}},
    ]
    waiting = pod_event(live("pod-bound", status={"initContainerStatuses": statuses}), OWNER, was_ready=False)
    assert "waits at its gate" in waiting.at_gate
    assert waiting.gate is None
    message = '{"kvberth": "gate", "outcome": "open", "reason": "SocketAnswered", "waited_s": 0.4}'
    statuses[1] = {"name": "kvberth-gate", "state": {"terminated": {"exitCode": 0, "message": message}}}
    opened = pod_event(live("pod-bound", status={"initContainerStatuses": statuses}), OWNER, was_ready=False)
    assert opened.at_gate == ""
    assert opened.gate is not None
    assert opened.gate.outcome == "open"
