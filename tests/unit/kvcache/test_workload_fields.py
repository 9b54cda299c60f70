"""A slip in a field of a workload is named with the field that was meant; what Kubernetes has is let through."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_asyncio import client as kubernetes

from kvberth.kvcache import workload_strays
from kvberth.kvcache.workload_fields import SPECS, UNREAD
from kvberth_schemas.manifests import workloads

ROOT = Path(__file__).parents[3]
OTHER_NAMES = {
    "TemplateMeta": "V1ObjectMeta",
    "SelectorRequirement": "V1LabelSelectorRequirement",
    "ClaimTemplate": "V1PersistentVolumeClaim",
    "HostPath": "V1HostPathVolumeSource",
    "Requirement": "V1NodeSelectorRequirement",
}
POD = "spec.template.spec"
MOUNTS = f"{POD}.containers[0].volumeMounts"


def workload(kind: str = "Deployment") -> dict[str, Any]:
    engine = {"name": "e", "image": "i", "volumeMounts": [{"name": "s", "mountPath": "/var/run"}], "ports": []}
    volume = {"name": "s", "hostPath": {"path": "/var/run/vineyard-kubernetes/default/kv"}}
    template = {
        "metadata": {"labels": {"model.aibrix.ai/name": "m"}},
        "spec": {"containers": [engine], "volumes": [volume], "runtimeClassName": "nvidia"},
    }
    spec = {"selector": {"matchLabels": {"model.aibrix.ai/name": "m"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "e", "uid": "u"}, "spec": spec}


@pytest.mark.parametrize(
    ("path", "name", "right"),
    [
        ("spec.template.spec.containers.0", "volumeMount", MOUNTS),
        ("spec.template.spec.containers.0", "imagePullpolicy", f"{POD}.containers[0].imagePullPolicy"),
        ("spec.template.spec.containers.0", "envfrom", f"{POD}.containers[0].envFrom"),
        ("spec.template.spec.containers.0.volumeMounts.0", "mountpath", f"{MOUNTS}[0].mountPath"),
        ("spec.template.spec", "nodeSelectors", f"{POD}.nodeSelector"),
        ("spec.template.spec", "host_network", f"{POD}.hostNetwork"),
        ("spec.template.spec.volumes.0", "hostpath", f"{POD}.volumes[0].hostPath"),
        ("spec.template.metadata", "label", "spec.template.metadata.labels"),
        ("spec", "replica", "spec.replicas"),
        ("spec", "updateStrategy", "spec.strategy"),
        ("", "specs", "spec"),
        ("spec.template.spec", "xyzzy", None),
    ],
)
def test_a_slip_is_named_with_what_was_meant(path: str, name: str, right: str | None) -> None:
    raw: Any = workload()
    part = raw
    for step in filter(None, path.split(".")):
        part = part[int(step) if step.isdigit() else step]
    part[name] = {}
    (found,) = workload_strays(raw, "Deployment")
    assert found.field.rpartition(".")[2] == name
    assert found.remedy == (f"write {right}" if right else "remove it")


def test_a_slip_with_dashes_or_dots_is_named_with_its_place() -> None:
    raw = workload()
    pod = raw["spec"]["template"]["spec"]
    pod["node-selector"] = {}
    pod["containers"][0] |= {"image-pull-policy": "Always", "env.from": []}
    assert {found.field: found.remedy for found in workload_strays(raw, "Deployment")} == {
        f"{POD}[node-selector]": f"write {POD}.nodeSelector",
        f"{POD}.containers[0][image-pull-policy]": f"write {POD}.containers[0].imagePullPolicy",
        f"{POD}.containers[0][env.from]": f"write {POD}.containers[0].envFrom",
    }


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_fields_of_kubernetes_are_let_through(kind: Any) -> None:
    assert list(workload_strays(workload(kind), kind)) == []


def test_no_manifest_of_the_cases_or_examples_has_a_field_that_there_is_not() -> None:
    files = [*(ROOT / "tests/manifests").glob("*.yaml"), *(ROOT / "examples").rglob("*.yaml")]
    documents = [found for file in files for found in yaml.safe_load_all(file.read_text())]
    mine = [one for one in documents if isinstance(one, dict) and one.get("kind") in SPECS]
    assert len(mine) > 10
    assert [list(workload_strays(one, one["kind"])) for one in mine] == [[] for _ in mine]


def test_the_fields_are_those_of_kubernetes() -> None:
    for model, unread in UNREAD.items():
        theirs = getattr(kubernetes, OTHER_NAMES.get(model.__name__, f"V1{model.__name__}"))
        read = {field.alias or name for name, field in model.model_fields.items()}
        assert read | set(unread.split()) == set(theirs.attribute_map.values()), model
    read = {field.alias or name for name, field in workloads.WorkloadSpec.model_fields.items()}
    for kind, unread in SPECS.items():
        theirs = getattr(kubernetes, f"V1{kind}Spec")
        assert {*read, *unread.split()} >= set(theirs.attribute_map.values()), kind
        assert set(unread.split()) <= set(theirs.attribute_map.values()), kind
