"""The KVCache's definition on a real API server: what it lets in, what it refuses with which words, what it keeps."""

import asyncio
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.rig import create, delete, get, merge, watching
from kvberth.kube.applier import Applier, Target
from kvberth.kube.client import Call, Client
from kvberth.kube.errors import Conflict, Invalid, Refused
from kvberth.kube.kinds import whole
from kvberth.kube.objects import KubeObject
from kvberth.kube.resources import CONFIG_MAPS, CRDS, KVCACHES
from kvberth.kvcache import door_complaints
from kvberth_schemas import crd
from kvberth_schemas.manifests import load_documents
from support.api_server import ControlPlane
from support.waiting import until

MANIFESTS = Path(__file__).parents[1] / "manifests"
ACCEPTED: list[str] = []
NOT_HERE = "is not allowed here; write"
NO_QUANTITY = "is no quantity; write a number with a unit, such as 72Gi (2^30) or 72G (10^9) of memory, or 500m of cpu"

# Every KVCache of the cases, in order: what its refusal says, or ACCEPTED.
OUTCOMES: dict[str, list[tuple[str, list[str]]]] = {
    "M01": [("aibrix-kvcache-llama-3-8b-instruct", ACCEPTED)],
    "M02": [("aibrix-kvcache-llama-3-8b-instruct", ACCEPTED)],
    "M03": [("aibrix-deepseek-33b-kvcache", ACCEPTED)],
    "M04": [("deepseek-coder-7b-kvcache", ACCEPTED)],
    "M05": [("deepseek-coder-7b-kvcache", ACCEPTED), ("deepseek-coder-7b-kvcache-t4", ACCEPTED)],
    "M06": [("qwen-kv", ACCEPTED)],
    "M07": [("llama-405b-kv", ACCEPTED)],
    "M08": [("mistral-kv", ACCEPTED)],
    "M09": [("shared-kv", ACCEPTED)],
    "M10": [
        ("bad-unit-gb", [f'spec.cacheSpec.memory: Invalid value: "72GB": {NO_QUANTITY}']),
        (
            "bad-empty-memory",
            [
                f'spec.cacheSpec.cpu: Invalid value: "": {NO_QUANTITY}',
                f'spec.cacheSpec.memory: Invalid value: "": {NO_QUANTITY}',
            ],
        ),
        ("bad-negative", ['spec.cacheSpec.memory: Invalid value: "-1Gi": is negative; write an amount of 0 or more']),
        (
            "bad-words",
            [
                f'spec.cacheSpec.cpu: Invalid value: "4 cores": {NO_QUANTITY}',
                f'spec.cacheSpec.memory: Invalid value: "lots": {NO_QUANTITY}',
            ],
        ),
        ("bad-lowercase-gi", [f'spec.cacheSpec.memory: Invalid value: "72gi": {NO_QUANTITY}']),
        ("bad-millibytes", ACCEPTED),  # a quantity, if a silly one: placement says Accepted=False
        (
            "bad-huge",
            ['spec.cacheSpec.memory: Invalid value: "9999999Ei": is more than 2^63-1', "72Gi of memory, 32 cores or 8"],
        ),
        ("bad-space", [f'spec.cacheSpec.memory: Invalid value: "72 Gi": {NO_QUANTITY}']),
        ("good-decimal", ACCEPTED),
        ("good-exponent", ACCEPTED),
    ],
    "M11": [("llama-kv", ACCEPTED)],
    "M12": [
        (
            "typo-kv",
            [
                f'spec.cacheSpec.imagePullPolicy: Invalid value: "ifnotpresent": {NOT_HERE} Always, IfNotPresent',
                f'spec.service.type: Invalid value: "ClusterIp": {NOT_HERE} ClusterIP, NodePort or LoadBalancer',
            ],
        )
    ],
    "M13": [
        ("types-kv", ["cannot unmarshal number into Go struct field ObjectMeta.annotations of type string"]),
        (
            "fractions-kv",
            [
                "spec.replicas in body must be of type integer",
                "spec.service.port in body should be less than or equal to 65535",
            ],
        ),
        (
            "negative-kv",
            [
                "spec.replicas in body should be greater than or equal to 0",
                "spec.service.port in body should be greater than or equal to 1",
                "spec.cacheSpec.env[1].value in body must be of type string",
                "spec.cacheSpec.image in body should be at least 1 chars long",
            ],
        ),
        ("nothing-kv", ["spec: Required value"]),
        ("wrong-version", ["404 page not found"]),
    ],
    "M14": [("llama-kv", ACCEPTED)],
    "M15": [("llama-kv", ACCEPTED), ("deepseek-kv", ACCEPTED), ("llama-kv", ACCEPTED)],
    "M16": [("llama-kv", ACCEPTED), ("llama-kv-etcd", ACCEPTED)],
}


async def test_the_definition_is_structural_and_established(client: Client) -> None:
    definition = await get(client, CRDS, None, crd.definition()["metadata"]["name"])
    conditions = {one["type"]: one["status"] for one in definition["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert conditions["NamesAccepted"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"


async def post(client: Client, raw: dict[str, Any], namespace: str, validation: str = "Ignore") -> Refused | None:
    """Create it as a Helm-like client does; the refusal, or None."""
    value = deepcopy(raw)
    value["metadata"]["namespace"] = namespace
    path = f"/apis/{value['apiVersion']}/namespaces/{namespace}/kvcaches"
    query = (("fieldValidation", validation),)
    try:
        await client.request(Call(what="create of KVCache", path=path, method="POST", query=query, body=value))
    except Refused as error:
        return error
    return None


def kvcaches(number: str) -> list[dict[str, Any]]:
    path = next(MANIFESTS.glob(f"{number}-*.yaml"))
    found = load_documents(path.read_text(), path.name)
    return [dict(item.raw) for item in found if item.kind.lower() == "kvcache"]


def kvcache(name: str = "kv", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "orchestration.aibrix.ai/v1alpha1",
        "kind": "KVCache",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize("number", OUTCOMES)
async def test_every_kvcache_of_the_cases_is_let_in_or_refused_in_words(
    client: Client, namespace: str, number: str
) -> None:
    found = kvcaches(number)
    assert [raw["metadata"]["name"] for raw in found] == [name for name, _ in OUTCOMES[number]]
    for raw, (name, sentences) in zip(found, OUTCOMES[number], strict=True):
        error = await post(client, raw, namespace)
        assert (error is not None) == bool(sentences), (name, error)
        assert (error is not None) == bool(door_complaints(raw)), f"{name}: both backends have one door"
        for sentence in sentences:
            assert sentence in str(error), (name, str(error))
        if error is None:
            stored = await get(client, KVCACHES, namespace, name)
            assert stored["spec"] == raw["spec"], "nothing is defaulted, nothing lost"
            await delete(client, KVCACHES, namespace, name)


def test_the_table_covers_every_file_with_a_kvcache() -> None:
    assert {path.name[:3] for path in MANIFESTS.glob("*.yaml") if "kind: KVCache" in path.read_text()} == set(OUTCOMES)


SPECS: list[dict[str, Any]] = [
    {},
    {"cacheSpec": None, "cache": None, "pools": None, "gate": {"policy": None}},
    {"cacheSpec": {"memory": 77309411328, "cpu": 4}},
    {"cacheSpec": {"memory": -1}},
    {"cacheSpec": {"memory": True}},
    {"cacheSpec": {"sharedMemorySize": ""}},
    {"cacheSpec": {"sharedMemorySize": "lots"}},
    {"cacheSpec": {"env": [{"name": ""}]}},
    {"cacheSpec": {"env": [{"value": "x"}]}},
    {"cacheSpec": {"env": {"A": "b"}}},
    {"cacheSpec": {"image": 20241120}},
    {"cacheSpec": []},
    {"cache": {"resources": {"limits": {"memory": "8Gi", "cpu": "0.5"}}}},
    {"cache": {"resources": {"limits": {"memory": "8GB"}}}},
    {"cache": {"resources": {"limits": {"memory": "1e400"}}}},
    {"service": {"ports": [{"port": 9600, "targetPort": "rpc"}]}},
    {"service": {"ports": [{"name": "rpc"}]}},
    {"replicas": 2**31},
    {"pools": [{"name": "a"}, {"name": "a"}]},
    {"pools": [{"name": "A"}]},
    {"pools": [{"gpuType": "L20"}]},
    {"pools": [{"name": "a", "gpuLabelKey": "nvidia.com/gpu.product", "nodeSelector": {"zone": "a"}}]},
    {"pools": [{"name": "a", "gpuLabelKey": "-/-"}]},
    {"pools": [{"name": "a", "nodeSelector": {"zone": "a b"}}]},
    {"pools": [{"name": "a", "nodeSelector": {"a b": "zone"}}]},
    {"placement": {"nodeSelector": {"topology.kubernetes.io/zone": "a"}}},
    {"placement": {"tolerations": [{"effect": ""}, {"operator": None}]}},
    {"cacheSpec": {"imagePullPolicy": None, "env": [{"name": "A=B"}]}},
    {"gate": {"policy": "wait", "timeoutSeconds": 30}},
    {"gate": {"policy": "never"}},
    {"gate": {"timeoutSeconds": -1}},
    {"memory": {"headroomFraction": 0.5, "reserve": "1Gi"}},
    {"memory": {"headroomFraction": 1}},
    {"memory": {"headroomFraction": 0}},
    {"blockStore": {}},
    {"blockStore": {"size": "16Gi"}},
    {"metadata": {"mode": "dedicated"}},
    {"metadata": {"mode": "elsewhere"}},
    {"placement": {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]}},
    {"placement": {"tolerations": [{"key": "a", "operator": "exists"}]}},
    {"placement": {"affinity": {"nodeAfinity": {}}}},
    {"lingerSeconds": "300"},
    {"hungRestartSeconds": 0},
]


async def test_both_backends_have_one_door(client: Client, namespace: str) -> None:
    differences = []
    for number, spec in enumerate(SPECS):
        raw = kvcache(f"kv{number}", **spec)
        error, complaints = await post(client, raw, namespace), door_complaints(raw)
        if (error is not None) != bool(complaints):
            differences.append((spec, str(error), complaints))
    assert differences == [], differences


@pytest.mark.parametrize("name", ["with.dots", "a" * 64])
async def test_a_name_that_no_service_can_have_is_refused_in_our_words(
    client: Client, namespace: str, name: str
) -> None:
    raw = kvcache(name)
    assert door_complaints(raw)
    error = await post(client, raw, namespace)
    assert "metadata.name is also the name of Services: write at most 63 lower-case letters" in str(error)


async def test_fields_that_nobody_knows_are_kept_for_placement_to_name(client: Client, namespace: str) -> None:
    spec = {
        "replica": 3,
        "cacheSpec": {"Memory": "72Gi", "resources": {"limits": {"memory": "72Gi"}}},
        "cache": {"resources": {"limit": {}}},
        "pools": [{"name": "a", "gputype": "L20"}],
        "service": {"ports": [{"port": 1, "targetport": 2}]},
        "placement": {"nodeselector": {}},
    }
    assert await post(client, kvcache("kept", **spec), namespace, "Strict") is None
    assert (await get(client, KVCACHES, namespace, "kept"))["spec"] == spec


async def test_a_status_is_written_apart_and_a_spec_beside_it(client: Client, namespace: str) -> None:
    applier, where = Applier(client), Target(KVCACHES, namespace, "kv")
    made = await applier.create(where, {"spec": {"replicas": 1}, "status": {"engines": 9}})
    stored = await get(client, KVCACHES, namespace, "kv")
    assert "status" not in stored, "only the subresource writes it"
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "AllServed",
        "message": "1 of 1",
        "lastTransitionTime": "2026-11-30T08:00:00Z",
    }
    planned = Target(KVCACHES, namespace, "kv", uid=made.uid, resource_version=made.resource_version)
    written = await applier.patch_status(planned, {"term": 7, "engines": 1, "conditions": [ready]})
    assert written.generation == made.generation == 1, "a status is no new generation"
    with pytest.raises(Conflict):
        await applier.patch_status(planned, {"term": 8})
    with pytest.raises(ValueError, match="needs the resourceVersion"):
        await applier.patch_status(Target(KVCACHES, namespace, "kv", uid="another"), {"term": 8})
    latest = Target(KVCACHES, namespace, "kv", resource_version=written.resource_version)
    with pytest.raises(Invalid, match="Unsupported value"):
        await applier.patch_status(latest, {"conditions": [{**ready, "status": "Maybe"}]})
    changed = await applier.apply(where, {"spec": {"replicas": 0}})
    assert changed.generation == 2
    stored = await get(client, KVCACHES, namespace, "kv")
    assert (stored["status"]["term"], stored["spec"]["replicas"]) == (7, 0)


async def test_what_a_kvcache_owns_goes_with_it(client: Client, namespace: str) -> None:
    owner = await create(client, KVCACHES, namespace, {"metadata": {"name": "kv"}, "spec": {}})
    reference = {
        "apiVersion": KVCACHES.api_version,
        "kind": "KVCache",
        "name": "kv",
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }
    await create(client, CONFIG_MAPS, namespace, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    async with watching(client, whole(CONFIG_MAPS, KubeObject), namespace) as watcher:
        await delete(client, KVCACHES, namespace, "kv")
        await until(lambda: "child" not in watcher.names)


async def test_kubectl_applies_the_seeds_manifest_unmodified_and_shows_the_columns(
    plane: ControlPlane, client: Client, namespace: str, tmp_path: Path
) -> None:
    (raw,) = kvcaches("M01")
    file = tmp_path / "kvcache.yaml"
    raw["metadata"].pop("namespace")
    file.write_text(yaml.safe_dump(raw))
    await asyncio.to_thread(plane.kubectl, "apply", "--validate=strict", "-n", namespace, "-f", str(file))
    name = raw["metadata"]["name"]
    healthy = {
        "type": "Healthy",
        "status": "True",
        "reason": "Proven",
        "message": "",
        "lastTransitionTime": "2026-11-30T08:00:00Z",
    }
    status = {"engines": 2, "caches": 1, "movedTime": "2026-11-30T08:00:00Z", "conditions": [healthy]}
    await merge(client, KVCACHES, namespace, name, {"status": status}, subresource="status")
    header, row = (await asyncio.to_thread(plane.kubectl, "get", "kvcaches", "-n", namespace)).splitlines()
    assert header.split() == ["NAME", "ENGINES", "CACHES", "HEALTHY", "MOVED", "AGE"]
    assert re.fullmatch(rf"{name} +2 +1 +True +\S+ +\S+ *", row)
    assert "headroomFraction" in await asyncio.to_thread(plane.kubectl, "explain", "kvcache.spec.memory")
