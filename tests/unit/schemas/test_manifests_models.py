"""The models of users' objects: what they read of the manifests of the cases."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from kvberth_schemas.manifests import Deployment, KVCacheManifest, LabelSelector, Node, StatefulSet, load_documents

MANIFESTS = Path(__file__).parents[2] / "manifests"


def raw(number: str, kind: str, name: str) -> dict[str, object]:
    path = next(MANIFESTS.glob(f"{number}-*"))
    found = load_documents(path.read_text(), path.name)
    return dict(next(item.raw for item in found if (item.kind, item.name) == (kind, name)))


def test_a_deployment_is_read_with_the_parts_that_bare_honours() -> None:
    deployment = Deployment.model_validate(raw("M01", "Deployment", "llama-3-8b-instruct"))
    spec = deployment.spec.template.spec
    term = spec.affinity.node_affinity.required.node_selector_terms[0]
    assert (deployment.replicas, spec.termination_grace_period_seconds) == (1, 60)
    assert (term.match_expressions[0].operator, term.match_expressions[0].values) == ("In", ("NVIDIA-L20",))
    assert [container.name for container in spec.init_containers] == ["init-model"]
    assert spec.init_containers[0].env[3].value_from == {
        "secretKeyRef": {"name": "tos-credential", "key": "TOS_ACCESS_KEY"}
    }
    assert spec.containers[0].resources.limits == {"cpu": "1", "nvidia.com/gpu": "1"}
    assert spec.containers[0].liveness_probe["failureThreshold"] == 3
    assert {volume.name: volume.host_path and volume.host_path.path for volume in spec.volumes} == {
        "model-hostpath": "/root/models",
        "dshm": None,
        "kvcache-socket": "/var/run/vineyard-kubernetes/default/aibrix-kvcache-llama-3-8b-instruct",
    }


def test_a_statefulset_and_its_tolerations_are_read() -> None:
    qwen = StatefulSet.model_validate(raw("M06", "StatefulSet", "qwen"))
    assert qwen.replicas == 2
    assert qwen.spec.template.labels["model.aibrix.ai/name"] == "qwen2-5-7b"
    assert qwen.spec.template.annotations == {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    assert [toleration.toleration_seconds for toleration in qwen.spec.template.spec.tolerations] == [None, 60]


def test_replicas_left_to_an_autoscaler_are_one() -> None:
    mistral = Deployment.model_validate(raw("M08", "Deployment", "mistral-7b"))
    assert (mistral.spec.replicas, mistral.replicas) == (None, 1)
    assert mistral.spec.template.spec.priority_class_name == "gpu-online"


def test_nodes_are_read_with_cordon_taints_and_readiness() -> None:
    path = next(MANIFESTS.glob("M18-*"))
    nodes = {item.name: Node.model_validate(item.raw) for item in load_documents(path.read_text(), path.name)}
    assert len(nodes) == 11
    assert [name for name, node in nodes.items() if node.unschedulable] == ["l20-d"]
    assert [name for name, node in nodes.items() if not node.ready] == ["aks-gpu-0"]
    assert [(taint.key, taint.effect) for taint in nodes["a100-a"].taints] == [("nvidia.com/gpu", "NoSchedule")]
    assert nodes["ip-10-0-3-17.ec2.internal"].allocatable["cpu"] == "7910m"
    assert nodes["bare-1"].labels == {"kubernetes.io/hostname": "bare-1"}


def test_a_node_without_conditions_counts_as_ready() -> None:
    assert Node.model_validate({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}).ready


def test_a_manifest_is_read_under_its_own_names_only() -> None:
    bare = {"apiVersion": "orchestration.aibrix.ai/v1alpha1", "kind": "KVCache", "metadata": {"name": "a"}}
    manifest = KVCacheManifest.model_validate({**bare, "spec": {"cache_spec": {}, "cacheSpec": {"cpu": 4}}})
    assert manifest.spec.model_extra == {"cache_spec": {}}
    assert manifest.spec.cache_spec.cpu == "4"


def test_models_are_frozen() -> None:
    node = Node.model_validate({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
    with pytest.raises(ValidationError):
        node.kind = "Other"


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
    ],
)
def test_selectors_match_labels_as_kubernetes_does(selector: object, labels: dict[str, str], matches: bool) -> None:
    assert LabelSelector.model_validate(selector).matches(labels) is matches
