"""The gate's policy as it is installed: which pods it changes, how, and that it refuses none."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.rig import create, delete
from kvberth.gate import manifest
from kvberth.kube.client import Call, Client
from kvberth.kube.errors import Refused
from kvberth.kube.resources import PODS, Resource
from support.api_server import ControlPlane

GATE = Path(__file__).parents[2] / "k8s" / "gate"
MANIFESTS = Path(__file__).parents[1] / "manifests"
NAME = "kvberth-gate"
WORKS_WITHIN_S = 30.0
ADMITTED_WITHIN_S = 10.0
"""An API server that asked a registry that hangs would take longer."""
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
SOCKETS = {"name": "sockets", "hostPath": {"path": "/var/run/vineyard-kubernetes/default/kv"}}
NOWHERE = {"no-such-label": "on-any-node"}
QUOTA = {"requests.cpu": "2", "requests.memory": "2Gi", "limits.cpu": "2", "limits.memory": "2Gi"}

Json = dict[str, Any]


@pytest.fixture(autouse=True)
async def gate(plane: ControlPlane, client: Client, namespace: str) -> None:
    """The installed gate, at work."""
    await asyncio.to_thread(plane.kubectl, "apply", "-k", str(GATE))
    await until_gated(client, namespace, True)


@pytest.fixture(scope="module", autouse=True)
def removed(plane: ControlPlane) -> Any:
    yield
    plane.kubectl("delete", "-k", str(GATE))


async def until_gated(client: Client, namespace: str, wanted: bool) -> None:
    async with asyncio.timeout(WORKS_WITHIN_S):
        while bool(gates(await admitted(client, namespace, engine()))) is not wanted:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.1)


def container(**more: Any) -> Json:
    found = {
        "name": "vllm",
        "image": "registry.invalid/vllm:v1",
        "volumeMounts": [{"name": "sockets", "mountPath": "/var/run"}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }
    return {**found, **more}


def engine(*, labels: Json | None = None, **spec: Any) -> Json:
    named = {"model.aibrix.ai/name": "m"} if labels is None else labels
    whole = {"containers": [container()], "volumes": [SOCKETS], "nodeSelector": NOWHERE, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "e-", "labels": named}, "spec": whole}


async def admitted(client: Client, namespace: str, pod: Json) -> Json:
    """The pod as the API server would store it."""
    query = (("dryRun", "All"),)
    call = Call(what="POST pod", path=PODS.path(namespace), method="POST", body=pod, query=query)
    answer: Json = yaml.safe_load(await client.request(call))
    return answer


def gates(pod: Json) -> list[Json]:
    return [found for found in pod["spec"].get("initContainers", []) if found["name"] == NAME]


async def gate_of(client: Client, namespace: str, pod: Json) -> Json:
    (found,) = gates(await admitted(client, namespace, pod))
    return found


async def test_an_engine_gets_the_gate_in_its_own_image_with_its_own_resources(client: Client, namespace: str) -> None:
    resources = {"limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}}
    sidecar = {"name": "aibrix-runtime", "image": "registry.invalid/runtime:v1"}
    vllm = container(resources=resources, imagePullPolicy="Never")
    found = await gate_of(client, namespace, engine(containers=[sidecar, vllm]))
    assert (found["image"], found["imagePullPolicy"]) == ("registry.invalid/vllm:v1", "Never")
    own = {"cpu": "4", "memory": "8Gi"}
    assert found["resources"] == {"requests": own, "limits": own}
    assert found["command"] == [
        *("sh", "-c", manifest.START.read_text(), manifest.PROGRAM.read_text(), "/kvberth-cache/vineyard.sock"),
    ]
    assert {"name": "sockets", "mountPath": "/kvberth-cache", "readOnly": True} in found["volumeMounts"]
    assert found["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


async def test_what_tells_a_legacy_engine_is_passed_on_and_nothing_else(client: Client, namespace: str) -> None:
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}
    legacy = [
        {"name": "AIBRIX_LLM_KV_CACHE_SOCKET", "value": "/var/run/vineyard.sock"},
        {"name": "AIBRIX_LLM_KV_CACHE_RPC_ENDPOINT", "value": "kv-rpc:9600"},
        {"name": "AIBRIX_LLM_KV_CACHE_EMPTY"},
        {"name": "AIBRIX_LLM_KV_CACHE_FIELD", "valueFrom": field},
    ]
    vllm = container(env=[{"name": "HF_TOKEN", "value": "secret"}, *legacy])
    assert (await gate_of(client, namespace, engine(containers=[vllm])))["env"] == legacy


async def test_it_runs_as_the_engine_does_and_in_our_group(client: Client, namespace: str) -> None:
    user = {"runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": True}
    pod = await admitted(client, namespace, engine(containers=[container(securityContext=user)]))
    context = gates(pod)[0]["securityContext"]
    assert {key: context.get(key) for key in user} == user
    assert pod["spec"]["securityContext"]["supplementalGroups"] == [10001]
    for groups in ([], [2000], [10001, 2000]):
        context = {"runAsUser": 1000, "supplementalGroups": groups}
        pod = await admitted(client, namespace, engine(securityContext=context))
        assert sorted(pod["spec"]["securityContext"]["supplementalGroups"]) == sorted({10001, *groups})
        assert pod["spec"]["securityContext"]["runAsUser"] == 1000


async def test_it_comes_after_the_init_containers_that_are_there(client: Client, namespace: str) -> None:
    download = {"name": "download", "image": "registry.invalid/d:v1"}
    pod = await admitted(client, namespace, engine(initContainers=[download]))
    assert [found["name"] for found in pod["spec"]["initContainers"]] == ["download", NAME]


@pytest.mark.parametrize(
    "pod",
    [
        engine(labels={}),
        engine(labels={"app": "m"}),
        engine(labels={"model.aibrix.ai/name": "m", "kvberth.dev/kvcache": "kv"}),
        engine(volumes=[{"name": "sockets", "emptyDir": {}}]),
        engine(volumes=[{"name": "sockets", "hostPath": {"path": "/var/run/vineyard-kubernetes-x/a/b"}}]),
        engine(containers=[container(volumeMounts=[])]),
        engine(containers=[{"name": "c", "image": "none"}], volumes=[]),
    ],
)
async def test_pods_that_mount_no_cache_as_engines_are_left_as_they_are(
    client: Client, namespace: str, pod: Json
) -> None:
    spec = (await admitted(client, namespace, pod))["spec"]
    assert "initContainers" not in spec
    assert spec["securityContext"] == {}


async def test_a_pod_that_brings_its_own_gate_keeps_it(client: Client, namespace: str) -> None:
    own = {"name": NAME, "image": "registry.invalid/own:v1"}
    assert (await gate_of(client, namespace, engine(initContainers=[own])))["image"] == "registry.invalid/own:v1"


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"cpu": "1", "memory": "1Gi"}},
        {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}},
        {"limits": {"cpu": 1, "memory": 1073741824}},
        {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
        {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        {},
    ],
)
async def test_the_class_of_a_pod_stays_what_it_was(client: Client, namespace: str, resources: Json) -> None:
    containers = [container(resources=resources)]
    gated = await admitted(client, namespace, engine(containers=containers))
    plain = await admitted(client, namespace, engine(containers=containers, labels={}))
    assert len(gates(gated)) == 1
    assert gates(plain) == []
    assert gated["status"]["qosClass"] == plain["status"]["qosClass"]


async def test_a_quota_that_an_engine_fills_to_the_brim_admits_its_gate(client: Client, namespace: str) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {**QUOTA, "requests.nvidia.com/gpu": "1"}}}
    await create(client, QUOTAS, namespace, quota)
    whole = {"limits": {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "1"}}
    await until_counted(client, namespace)
    pod = await create(client, PODS, namespace, engine(containers=[container(resources=whole)]))
    assert len(gates(pod)) == 1
    with pytest.raises(Refused, match="exceeded quota"):  # so the quota counts, and it is full
        await create(client, PODS, namespace, engine())
    await delete(client, PODS, namespace, pod["metadata"]["name"])


async def test_an_engine_of_a_registry_that_hangs_is_admitted_with_a_gate_that_needs_no_other_image(
    client: Client, namespace: str
) -> None:
    """It takes connections and never answers; in a namespace with a quota, too."""
    await create(client, QUOTAS, namespace, {"metadata": {"name": "q"}, "spec": {"hard": QUOTA}})
    await until_counted(client, namespace)
    with socket.create_server(("127.0.0.1", 0)) as registry:
        image = f"127.0.0.1:{registry.getsockname()[1]}/vllm:v1"
        async with asyncio.timeout(ADMITTED_WITHIN_S):
            pod = await create(client, PODS, namespace, engine(containers=[container(image=image)]))
        registry.setblocking(False)
        with pytest.raises(BlockingIOError):
            registry.accept()
    (gate,) = gates(pod)
    assert (gate["image"], gate["imagePullPolicy"]) == (image, pod["spec"]["containers"][0]["imagePullPolicy"])
    mounted = {mount["name"] for mount in gate["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    added = [name for name in volumes.keys() & mounted if name != "sockets" and "projected" not in volumes[name]]
    assert added == [], "the gate's program is in its command: it waits for no ConfigMap of ours"
    await delete(client, PODS, namespace, pod["metadata"]["name"])


async def until_counted(client: Client, namespace: str) -> None:
    async with asyncio.timeout(WORKS_WITHIN_S):
        while True:
            quota = yaml.safe_load(await client.request(Call(what="GET quota", path=QUOTAS.path(namespace, "q"))))
            if quota.get("status", {}).get("hard") == quota["spec"]["hard"]:
                return
            await asyncio.sleep(0.1)


async def test_a_limit_range_fills_in_both_alike(client: Client, namespace: str) -> None:
    limit = {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "max": {"cpu": "4", "memory": "8Gi"}}
    await create(client, LIMIT_RANGES, namespace, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    pod = await admitted(client, namespace, engine(containers=[container(resources={})]))
    assert gates(pod)[0]["resources"] == pod["spec"]["containers"][0]["resources"]
    assert gates(pod)[0]["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}


def engines_of_the_manifests() -> list[Any]:
    """The templates of all manifests whose pods are engines that mount a cache."""
    found = []
    for path in sorted(MANIFESTS.glob("M*.yaml")):
        for body in yaml.safe_load_all(path.read_text()):
            if isinstance(body, dict) and body.get("kind") in {"Deployment", "StatefulSet"}:
                labels, spec = (
                    body["spec"]["template"]["metadata"].get("labels", {}),
                    {**body["spec"]["template"]["spec"]},
                )
                claims = [{"name": one["metadata"]["name"]} for one in body["spec"].get("volumeClaimTemplates", [])]
                spec["volumes"] = [*spec.get("volumes", []), *claims]
                for elsewhere in ("serviceAccountName", "priorityClassName"):
                    spec.pop(elsewhere, None)
                found.append(pytest.param(labels, spec, id=f"{path.stem[:3]} {body['metadata']['name']}"))
    return found


@pytest.mark.parametrize(("labels", "spec"), engines_of_the_manifests())
async def test_the_engine_of_a_manifest_is_admitted_with_its_gate_and_stays_in_its_class(
    client: Client, namespace: str, labels: Json, spec: Json
) -> None:
    plain = await admitted(client, namespace, engine(labels={}, **spec))
    gated = await admitted(client, namespace, engine(labels=labels, **spec))
    assert gated["status"]["qosClass"] == plain["status"]["qosClass"]
    paths = [volume.get("hostPath", {}).get("path", "") for volume in spec["volumes"]]
    mounts = any(path.startswith("/var/run/vineyard-kubernetes/") for path in paths)
    assert len(gates(gated)) == (mounts and "model.aibrix.ai/name" in labels)


async def test_a_gate_that_was_removed_and_installed_anew_works_again(
    plane: ControlPlane, client: Client, namespace: str
) -> None:
    await asyncio.to_thread(plane.kubectl, "delete", "-k", str(GATE))
    await until_gated(client, namespace, False)
    await asyncio.to_thread(plane.kubectl, "apply", "-k", str(GATE))
    await until_gated(client, namespace, True)
