"""What Kubernetes' own controllers do with the objects that we write: collection by owner, DaemonSets by node name."""

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from kube.rig import create, delete, get, merge, watching
from kvberth.kube.applier import Applier, Target
from kvberth.kube.client import Client
from kvberth.kube.kinds import whole
from kvberth.kube.objects import KubeObject, Trimmed
from kvberth.kube.resources import CONFIG_MAPS, DAEMON_SETS, NODES, PODS
from support.waiting import until


class PodSpec(Trimmed):
    node_name: str = ""


class Pod(KubeObject):
    spec: PodSpec


POD = whole(PODS, Pod)


async def test_a_child_goes_with_its_owner(client: Client, namespace: str) -> None:
    owner = await create(client, CONFIG_MAPS, namespace, {"metadata": {"name": "owner"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": False,
    }
    applier = Applier(client)
    await applier.create(Target(CONFIG_MAPS, namespace, "child"), {"metadata": {"ownerReferences": [reference]}})
    kind = whole(CONFIG_MAPS, KubeObject)
    async with watching(client, kind, namespace) as watcher:
        assert "child" in watcher.names
        await applier.delete(Target(CONFIG_MAPS, namespace, "owner"))
        await until(lambda: "child" not in watcher.names)


@asynccontextmanager
async def ready_node(client: Client) -> AsyncIterator[str]:
    """A node that looks ready; nothing runs there."""
    name = f"node-{uuid.uuid4().hex[:8]}"
    await create(client, NODES, None, {"metadata": {"name": name}})
    resources = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    status = {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}],
    }
    await merge(client, NODES, None, name, {"status": status}, subresource="status")
    yield name
    await delete(client, NODES, None, name)


def following(*nodes: str) -> dict[str, Any]:
    def in_one(node: str) -> dict[str, Any]:
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}

    required = {"nodeSelectorTerms": [in_one(node) for node in nodes]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    labels = {"app": "cache"}
    spec = {
        "affinity": affinity,
        "tolerations": [{"operator": "Exists"}],  # a node here has no kubelet that would take its first taints away
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "none"}],
    }
    return {
        "spec": {
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        }
    }


async def test_one_patch_of_the_nodes_moves_a_daemon_set_and_touches_no_other_pod(
    client: Client, namespace: str
) -> None:
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(ready_node(client)) for _ in range(3)]
        await move(client, namespace, *nodes)


async def move(client: Client, namespace: str, stays: str, leaves: str, enters: str) -> None:
    applier, where = Applier(client), Target(DAEMON_SETS, namespace, "cache")
    async with watching(client, POD, namespace) as watcher:

        def on_nodes() -> dict[str, str]:
            pods = watcher.reflector.entries.values()
            return {pod.value.spec.node_name: pod.uid for pod in pods if not pod.value.metadata.deleting}

        await applier.create(where, following(stays, leaves))
        await until(lambda: set(on_nodes()) == {stays, leaves})
        before = on_nodes()
        await applier.apply(where, following(stays, enters))
        await until(lambda: set(on_nodes()) == {stays, enters})
        assert on_nodes()[stays] == before[stays]

    async def counted() -> bool:
        stored = await get(client, DAEMON_SETS, namespace, "cache")
        return bool(stored["status"]["desiredNumberScheduled"] == 2)

    await until(counted)
    await applier.delete(where)
