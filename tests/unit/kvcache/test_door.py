"""What is refused before anything is stored."""

import copy
from typing import Any

import pytest

from kvberth.kvcache import door_complaints, kind_of, node_complaints, normalise

ENGINE: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "engine"},
    "spec": {
        "selector": {"matchLabels": {"app": "e"}},
        "template": {
            "metadata": {"labels": {"app": "e"}},
            "spec": {"containers": [{"name": "vllm", "image": "vllm:1"}]},
        },
    },
}


def engine(path: str = "", value: object = None, *, drop: bool = False) -> dict[str, Any]:
    """Return the engine with one field replaced, or dropped."""
    raw = copy.deepcopy(ENGINE)
    holder: Any = raw
    *steps, last = path.split(".") if path else [""]
    for step in steps:
        holder = holder[int(step) if step.isdigit() else step]
    if drop:
        del holder[last]
    elif path:
        holder[last] = value
    return raw


def fields(raw: object) -> list[str]:
    return [complaint.field for complaint in door_complaints(raw)]


@pytest.mark.parametrize(
    ("version", "kind", "meant"),
    [
        ("orchestration.aibrix.ai/v1alpha1", "KVCahce", "KVCache"),
        ("orchestration.aibrix.ai/v1alpha1", "StormService", None),
        ("apps/v1", "Deploymnet", "Deployment"),
        ("apps/v1", "StatfulSets", "StatefulSet"),
        ("apps/v1", "DaemonSet", None),
        ("apps/v1", "ReplicaSet", None),
        ("example.org/v1", "Deploymnet", None),
        ("v1", "KVCach", None),
    ],
)
def test_a_slip_in_a_kind_is_told_where_the_kind_lives(version: str, kind: str, meant: str | None) -> None:
    raw = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}}
    assert kind_of(raw) == meant
    told = [(one.problem, one.remedy) for one in door_complaints(raw) if one.field == "kind"]
    assert told == ([(f"the text '{kind}' is no kind", f"write {meant}")] if meant else [])


def test_a_plain_engine_is_let_in() -> None:
    assert door_complaints(ENGINE) == []


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("apiVersion", "extensions/v1beta1", "apiVersion"),
        ("apiVersion", "v1", "apiVersion"),
        ("apiVersion", "apps/v1beta2", "apiVersion"),
        ("kind", "deployment", "kind"),
        ("kind", "Deployments", "kind"),
        ("metadata.name", "Engine", "metadata.name"),
        ("metadata.name", "a" * 254, "metadata.name"),
        ("metadata.namespace", "my.ns", "metadata.namespace"),
        ("metadata.labels", {"a b": "c"}, "metadata.labels[a b]"),
        ("metadata.labels", {"a": "c d"}, "metadata.labels[a]"),
        ("metadata.labels", {"a": True}, "metadata.labels[a]"),
        ("spec.replicas", -1, "spec.replicas"),
        ("spec.replicas", 2**31, "spec.replicas"),
        ("spec.replicas", True, "spec.replicas"),
        ("spec.selector", {}, "spec.selector"),
        ("spec.selector", {"matchLabels": {"app": "x"}}, "spec.selector"),
        (
            "spec.selector",
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["e"]}]},
            "spec.selector",
        ),
        ("spec.template.spec.containers", [], "spec.template.spec.containers"),
        ("spec.template.spec.containers", {"name": "vllm"}, "spec.template.spec.containers"),
        ("spec.template.spec.containers.0.name", "V_LLM", "spec.template.spec.containers[0].name"),
        (
            "spec.template.spec.containers.0.resources",
            {"limits": {"nvidia.com/gpu": "one"}},
            "spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]",
        ),
        (
            "spec.template.spec.containers.0.resources",
            {"requests": {"memory": "48GB"}},
            "spec.template.spec.containers[0].resources.requests.memory",
        ),
        (
            "spec.template.spec.containers.0.env",
            [{"name": "A", "value": 1}],
            "spec.template.spec.containers[0].env[0].value",
        ),
        (
            "spec.template.spec.containers.0.volumeMounts",
            [{"name": "kv", "mountPath": "/run/kv"}],
            "spec.template.spec.containers[0].volumeMounts[0].name",
        ),
        ("spec.template.spec.initContainers", [{"name": "vllm"}], "spec.template.spec.containers[0].name"),
        ("spec.template.spec.volumes", [{"name": "a"}, {"name": "a"}], "spec.template.spec.volumes[1].name"),
        ("spec.template.spec.volumes", [{"name": "a b"}], "spec.template.spec.volumes[0].name"),
        (
            "spec.template.spec.volumes",
            [{"name": "a", "hostPath": {"path": "var/run/vineyard-kubernetes/default/kv"}}],
            "spec.template.spec.volumes[0].hostPath.path",
        ),
        (
            "spec.template.spec.volumes",
            [{"name": "a", "hostPath": {"path": "/var/run/vineyard-kubernetes/default/../kv"}}],
            "spec.template.spec.volumes[0].hostPath.path",
        ),
        (
            "spec.template.spec.volumes",
            [{"name": "a", "hostPath": {"path": "/var/run/\0"}}],
            "spec.template.spec.volumes[0].hostPath.path",
        ),
        (
            "spec.template.spec.containers.0.volumeMounts",
            [{"name": "kv", "mountPath": "run/kv"}],
            "spec.template.spec.containers[0].volumeMounts[0].mountPath",
        ),
        (
            "spec.template.spec.containers.0.volumeMounts",
            [{"name": "kv", "mountPath": "/run/kv", "subPath": "../x"}],
            "spec.template.spec.containers[0].volumeMounts[0].subPath",
        ),
        *(
            (
                "spec.template.spec.containers.0.env",
                [{"name": name, "value": "x"}],
                "spec.template.spec.containers[0].env[0].name",
            )
            for name in ("", "A=B", "A\0B", "Ä", "A\n")
        ),
        (
            "spec.template.spec.containers.0.env",
            [{"name": "A", "value": "x\0y"}],
            "spec.template.spec.containers[0].env[0].value",
        ),
        ("spec.template.spec.containers.0.args", ["-c", "\0"], "spec.template.spec.containers[0].args[1]"),
        ("spec.template.spec.containers.0.image", "vllm\0", "spec.template.spec.containers[0].image"),
        ("metadata.annotations", {"team": "a\0b"}, "metadata.annotations[team]"),
        ("metadata.annotations", {"team": "a\ud800b"}, "metadata.annotations[team]"),
        ("metadata.labels", {"a": "b\0"}, "metadata.labels[a]"),
        (
            "spec.template.spec.containers.0.lifecycle",
            {"preStop": {"a\0": 1}},
            "spec.template.spec.containers[0].lifecycle.preStop",
        ),
        ("spec.template.spec.nodeSelector", {"gpu": 1}, "spec.template.spec.nodeSelector[gpu]"),
        (
            "spec.template.spec.tolerations",
            [{"key": "a", "effect": "NoSchedul"}],
            "spec.template.spec.tolerations[0].effect",
        ),
        ("spec.template.spec.securityContext", {"runAsUser": "2000"}, "spec.template.spec.securityContext.runAsUser"),
    ],
)
def test_what_an_api_server_refuses_is_refused_with_its_field(path: str, value: object, field: str) -> None:
    assert fields(engine(path, value)) == [field]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("apiVersion", "apiVersion"),
        ("metadata", "metadata"),
        ("metadata.name", "metadata.name"),
        ("spec", "spec"),
        ("spec.selector", "spec.selector"),
        ("spec.template", "spec.template"),
        ("spec.template.spec", "spec.template.spec"),
        ("spec.template.spec.containers", "spec.template.spec.containers"),
    ],
)
def test_what_is_missing_is_named(path: str, field: str) -> None:
    assert fields(engine(path, drop=True)) == [field]


def test_an_object_without_kind_is_refused() -> None:
    assert fields(engine("kind", drop=True)) == ["kind"]
    assert fields({}) == ["apiVersion", "kind"]
    assert fields({"apiVersion": "v1", "kind": 7}) == ["kind"]


@pytest.mark.parametrize("raw", [None, 7, "text", ["a"]])
def test_what_is_no_map_is_refused(raw: object) -> None:
    assert fields(raw) == ["document"]


def test_the_sentence_for_a_selector_names_both_sides() -> None:
    sentence = door_complaints(engine("spec.selector", {"matchLabels": {"app": "x"}}))[0].sentence()
    assert sentence == (
        "spec.selector: selects app=x, but the template's pods carry app=e; "
        "make the selector and spec.template.metadata.labels agree"
    )


def test_a_mount_may_name_a_claim_of_a_statefulset() -> None:
    raw = engine("spec.template.spec.containers.0.volumeMounts", [{"name": "weights", "mountPath": "/w"}])
    raw["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "weights"}, "spec": {}}]
    assert fields({**raw, "kind": "StatefulSet"}) == []


def test_nulls_count_as_left_out() -> None:
    raw = engine("spec.template.spec.containers.0.resources", None)
    raw["metadata"] |= {"labels": None, "annotations": None, "namespace": None}
    raw["spec"]["replicas"] = None
    assert fields(raw) == []


@pytest.mark.parametrize(
    ("version", "kind", "expected"),
    [
        ("orchestration.aibrix.ai/v1alpha1", "KVCache", "KVCache"),
        ("orchestration.aibrix.io/v1", "kvcaches", "KVCache"),
        (None, "KV-Cache", "KVCache"),
        ("apps/v1", "StatefulSet", "StatefulSet"),
        ("apps.example.com/v1", "Deployment", None),
        ("v1", "Service", None),
        ("v1", None, None),
    ],
)
def test_kinds_are_known_by_name_and_group(version: object, kind: object, expected: str | None) -> None:
    assert kind_of({"apiVersion": version, "kind": kind}) == expected


@pytest.mark.parametrize("name", ["Kv", "-kv", "kv.cache", "kv_cache", "k" * 64, "", "kv\n"])
def test_a_kvcache_has_a_dns_label_as_name(name: str, kvcache: Any) -> None:
    assert fields(kvcache(name)) == ["metadata.name"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"replicas": 2**31}, "spec.replicas"),
        ({"cacheSpec": {"memory": True}}, "spec.cacheSpec.memory"),
        ({"cacheSpec": {"sharedMemorySize": "much"}}, "spec.cacheSpec.sharedMemorySize"),
        ({"cache": {"resources": {"limits": {"memory": "72GB"}}}}, "spec.cache.resources.limits.memory"),
        ({"cache": {"env": [{"value": "x"}]}}, "spec.cache.env[0].name"),
        ({"cache": {"env": [{"name": "A=B"}]}}, "spec.cache.env[0].name"),
        ({"cacheSpec": {"env": [{"name": "A", "value": "\0"}]}}, "spec.cacheSpec.env[0].value"),
        ({"service": {"ports": [{"port": 0}]}}, "spec.service.ports[0].port"),
        ({"service": {"ports": [{"name": "rpc"}]}}, "spec.service.ports[0].port"),
        ({"metadata": {"mode": "Shared"}}, "spec.metadata.mode"),
        ({"metadata": []}, "spec.metadata"),
        ({"pools": [{"name": "A100"}]}, "spec.pools[0].name"),
        ({"pools": [{"gpuType": "A100"}]}, "spec.pools[0].name"),
        ({"placement": {"maxRemovalsPerMinute": -1}}, "spec.placement.maxRemovalsPerMinute"),
        ({"gate": {"policy": "never"}}, "spec.gate.policy"),
        ({"gate": {"timeoutSeconds": 10**9}}, "spec.gate.timeoutSeconds"),
        ({"memory": {"headroomFraction": 1}}, "spec.memory.headroomFraction"),
        ({"memory": {"headroomFraction": "a"}}, "spec.memory.headroomFraction"),
        ({"blockStore": {}}, "spec.blockStore.size"),
        ({"lingerSeconds": 1.5}, "spec.lingerSeconds"),
        ({"hungRestartSeconds": 0}, "spec.hungRestartSeconds"),
    ],
)
def test_a_kvcache_is_refused_for_types_enums_ranges_and_quantities(spec: Any, field: str, kvcache: Any) -> None:
    assert fields(kvcache(spec=spec)) == [field]


def test_the_sentence_for_a_name_that_no_variable_can_have_says_what_can() -> None:
    raw = engine("spec.template.spec.containers.0.env", [{"name": "A=B", "value": "x"}])
    assert door_complaints(raw)[0].sentence() == (
        "spec.template.spec.containers[0].env[0].name: 'A=B' can't name a variable; "
        "use printable ASCII without '=', such as MODEL_PATH"
    )


def test_a_kvcache_with_a_value_that_no_process_can_have_is_not_accepted(kvcache: Any) -> None:
    spec = normalise(kvcache(spec={"cacheSpec": {"env": [{"name": "A", "value": "x\0y"}], "memory": "2Gi"}}))
    assert [complaint.sentence() for complaint in spec.complaints] == [
        "spec.cacheSpec.env[0].value: holds a NUL (\\0), which no process, path or label can hold; remove it"
    ]


def test_a_number_that_should_be_a_text_is_told_in_quotes(kvcache: Any) -> None:
    complaint = door_complaints(kvcache(pod_anti_affinity=True))[0]
    assert complaint.sentence() == (
        "metadata.annotations[kvcache.orchestration.aibrix.ai/pod-anti-affinity]: "
        'must be a text, not the boolean true; write "true", in quotes'
    )


def test_a_number_without_measure_is_refused_and_not_written_out(kvcache: Any) -> None:
    for value in (10**5000, -(10**5000)):
        sentence = door_complaints(kvcache(spec={"replicas": value}))[0].sentence()
        assert "a number without measure" in sentence


def test_a_node_that_is_wrong_is_told_by_field() -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "status": {"allocatable": {"memory": "192GB"}},
    }
    assert [complaint.field for complaint in node_complaints(raw)] == ["status.allocatable.memory"]


@pytest.mark.parametrize("amount", ["1.5", "500m", "0.5"])
def test_a_part_of_a_gpu_is_refused(amount: str) -> None:
    raw = engine("spec.template.spec.containers.0.resources", {"limits": {"nvidia.com/gpu": amount}})
    assert fields(raw) == ["spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]"]


@pytest.mark.parametrize("amount", ["1", 2, "2000m"])
def test_whole_gpus_are_let_in(amount: object) -> None:
    raw = engine("spec.template.spec.containers.0.resources", {"limits": {"nvidia.com/gpu": amount}})
    assert fields(raw) == []


@pytest.mark.parametrize(
    ("replicas", "sentence"),
    [
        (2**31, "spec.replicas: the number 2147483648 is more than 2147483647; write 2147483647 or less"),
        ("1e3", "spec.replicas: must be a whole number, not the text '1e3'; write 1000"),
        ("1_000.0", "spec.replicas: must be a whole number, not the text '1_000.0'; write digits only, without quotes"),
        ("7", "spec.replicas: must be a whole number, not the text '7'; write 7, without quotes"),
    ],
)
def test_a_number_is_told_in_full_and_what_yaml_reads_as_a_text_as_the_number_that_was_meant(
    replicas: object, sentence: str
) -> None:
    assert [complaint.sentence() for complaint in door_complaints(engine("spec.replicas", replicas))] == [sentence]
