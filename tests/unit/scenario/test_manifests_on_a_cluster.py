"""What is changed of a scenario's manifests before a cluster gets them."""

from pathlib import Path

import yaml

from kvberth.scenario.backend.kubernetes import adapt
from kvberth.scenario.durations import Timing

M01 = Path(__file__).parents[2] / "manifests" / "M01-seed000-llama-l20-engine-and-kvcache.yaml"


def deployment() -> dict:
    """Give the engine of the first report."""
    return next(yaml.safe_load_all(M01.read_text()))


def test_engines_are_ready_without_the_time_that_a_model_takes() -> None:
    found = adapt.adapted(deployment(), Timing())
    probes = [one["readinessProbe"] for one in found["spec"]["template"]["spec"]["containers"]]
    assert {(probe["initialDelaySeconds"], probe["periodSeconds"]) for probe in probes} == {(0, 1)}
    assert found["metadata"]["labels"][adapt.MARK] == "yes"


def test_nothing_else_is_changed() -> None:
    former, found = deployment(), adapt.adapted(deployment(), Timing())
    del found["metadata"]["labels"][adapt.MARK]
    for item in (former, found):
        for container in item["spec"]["template"]["spec"]["containers"]:
            del container["readinessProbe"]
    assert found == former


def test_no_image_is_pulled_over_one_that_the_nodes_have() -> None:
    containers = [{"name": "a", "imagePullPolicy": "Always"}, {"name": "b", "imagePullPolicy": "Never"}, {"name": "c"}]
    spec = {"containers": containers, "initContainers": [{"name": "d", "imagePullPolicy": "Always"}]}
    found = adapt.adapted({"kind": "Deployment", "spec": {"template": {"spec": spec}}}, Timing())
    pod = found["spec"]["template"]["spec"]
    policies = [one.get("imagePullPolicy") for one in (*pod["containers"], *pod["initContainers"])]
    assert policies == ["IfNotPresent", "Never", None, "IfNotPresent"]


def test_a_lost_node_and_a_slow_end_are_told_by_the_pods() -> None:
    found = adapt.adapted(deployment(), Timing({"node_lost": 300, "engine_drain": 2}, 0.02))
    spec = found["spec"]["template"]["spec"]
    assert [one["tolerationSeconds"] for one in spec["tolerations"]] == [6, 6]
    assert all({"name": "KVBERTH_ENGINE_DRAIN_S", "value": "2"} in one["env"] for one in spec["containers"])


def test_a_volume_that_would_bind_a_pod_to_its_first_node_is_empty_instead() -> None:
    spec = {"containers": [{"name": "vllm"}], "volumes": [{"name": "kv"}]}
    claims = [{"metadata": {"name": "weights"}, "spec": {}}]
    raw = {"kind": "StatefulSet", "metadata": {"name": "x"}, "spec": {"template": {"spec": spec}}}
    found = adapt.adapted({**raw, "spec": {**raw["spec"], "volumeClaimTemplates": claims}}, Timing())
    assert "volumeClaimTemplates" not in found["spec"]
    assert found["spec"]["template"]["spec"]["volumes"] == [{"name": "kv"}, {"name": "weights", "emptyDir": {}}]


def test_secrets_that_nobody_brings_are_made() -> None:
    named = list(adapt.secrets_named(deployment()))
    assert named == [("tos-credential", "TOS_ACCESS_KEY"), ("tos-credential", "TOS_SECRET_KEY")]
    assert set(adapt.secret("default", "tos-credential", ["a", "b"])["stringData"]) == {"a", "b"}


def test_what_is_no_workload_only_gets_the_mark() -> None:
    assert adapt.adapted({"kind": "KVCache", "metadata": {"name": "x"}, "spec": {"replicas": 1}}, Timing()) == {
        "kind": "KVCache",
        "metadata": {"name": "x", "labels": {adapt.MARK: "yes"}},
        "spec": {"replicas": 1},
    }


def test_a_manifest_without_sense_is_left_to_the_api_server() -> None:
    raw = {"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"template": {"spec": {"containers": ["no"]}}}}
    assert adapt.adapted(raw, Timing())["spec"]["template"]["spec"]["containers"] == ["no"]
    assert list(adapt.secrets_named(raw)) == []
