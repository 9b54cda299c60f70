"""What live nodes and KVCaches say."""

import pytest

from kvberth.pod_watcher.nodes import node_event
from kvberth_schemas.events import Resources, Taint
from unit.pod_watcher.live import live, raw


def test_a_ready_node_says_what_it_has():
    node = node_event(live("node-ready"), Resources(gpus=1))
    assert (node.ready, node.why, node.unschedulable) == (True, "", False)
    assert node.allocatable == Resources(cpu_millis=31850, memory_bytes=190 * 2**30, gpus=2)
    assert node.requested == Resources(gpus=1)
    assert node.labels["machine.cluster.vke.volcengine.com/gpu-name"] == "NVIDIA-L20"


def test_a_lost_node_says_why_and_names_its_taints():
    node = live("node-lost")
    assert not node.ready
    assert node.why == "its condition Ready is Unknown: Kubelet stopped posting node status."
    assert node.unschedulable
    assert Taint(key="maintenance", value="soon", effect="NoExecute") in node.taints


def test_a_node_whose_kubelet_never_spoke_is_not_ready():
    node = live("node-ready", status={"conditions": None, "allocatable": None})
    assert not node.ready
    assert node.why == "its condition Ready is Unknown: its kubelet has said nothing yet"
    assert node.allocatable == Resources()


def test_allocatable_is_rounded_down_and_all_kinds_of_gpus_count():
    amounts = {"cpu": "1999500u", "memory": "1023m", "nvidia.com/gpu": "2", "amd.com/gpu": "1", "pods": "110"}
    node = live(
        "node-ready", status={"allocatable": {**dict.fromkeys(raw("node-ready")["status"]["allocatable"]), **amounts}}
    )
    assert node.allocatable == Resources(cpu_millis=1999, memory_bytes=1, gpus=3)


def test_a_kvcache_is_told_as_its_user_wrote_it():
    spec = live(
        "kvcache-first-generation", metadata={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}
    )
    written = raw("kvcache-first-generation")
    assert spec.manifest["spec"] == written["spec"]
    assert spec.manifest["apiVersion"] == "orchestration.aibrix.ai/v1alpha1"
    assert set(spec.manifest["metadata"]) == {"name", "namespace", "annotations"}
    assert "kubectl.kubernetes.io/last-applied-configuration" not in spec.manifest["metadata"]["annotations"]
    assert (spec.generation, spec.deleting, spec.paused) == (1, False, False)
    assert "status" not in spec.manifest


def test_unknown_fields_of_a_kvcache_are_kept_so_that_they_can_be_named():
    spec = live("kvcache-first-generation", spec={"cacheSize": "72Gi"}, extras={"a": 1})
    assert spec.manifest["spec"]["cacheSize"] == "72Gi"
    assert spec.manifest["extras"] == {"a": 1}


def test_a_kvcache_that_is_being_deleted_or_paused_says_so():
    spec = live(
        "kvcache-first-generation",
        metadata={"deletionTimestamp": "2026-11-30T09:00:00Z", "annotations": {"kvberth.dev/paused": "true"}},
    )
    assert (spec.deleting, spec.paused) == (True, True)


@pytest.mark.parametrize("spec", [None, [], "replicas: 1", {"replicas": "many", "cacheSpec": []}])
def test_a_kvcache_with_a_senseless_spec_is_told_all_the_same(spec):
    value = live("kvcache-first-generation", spec=spec)
    assert value.manifest["spec"] == spec or spec == {"replicas": "many", "cacheSpec": []}
    assert not value.paused


def test_a_node_as_a_kubelet_tells_of_it_is_ready_and_cordoned():
    node = live("node-by-kubelet")
    assert (node.ready, node.unschedulable) == (True, True)
    assert node.taints == (Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"),)
    assert node.allocatable == Resources(cpu_millis=60_000, memory_bytes=192 * 2**30, gpus=1)
