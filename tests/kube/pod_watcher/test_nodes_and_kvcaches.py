"""What is said of nodes and of KVCaches of both generations on a real API server."""

from typing import Any

from kube.pod_watcher.rig import Heard, Replicas, end
from kube.rig import create, delete, merge
from kvberth.kube.client import Client
from kvberth.kube.resources import KVCACHES, NODES
from kvberth_schemas.events import KVCacheGoneV1, KVCacheSpecV1, NodeGoneV1, Resources, Taint
from support.waiting import until

FIRST: dict[str, Any] = {
    "replicas": 1,
    "service": {"type": "ClusterIP", "port": 9600},
    "cacheSpec": {"image": "aibrix/vineyardd:20241120", "cpu": "4000m", "memory": "72Gi"},
}
SECOND: dict[str, Any] = {
    "mode": "distributed",
    "service": {"type": "ClusterIP", "ports": [{"name": "rpc", "port": 9600}]},
    "cache": {"replicas": 2, "image": "aibrix/vineyardd:20241120", "resources": {"limits": {"memory": "8Gi"}}},
}
WORKLOAD = "kvcache.orchestration.aibrix.ai/pod-affinity-workload"


async def apply(client: Client, namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {WORKLOAD: "llama"}, "labels": {"team": "chat"}}
    return await create(client, KVCACHES, namespace, {"metadata": metadata, "spec": spec})


async def test_a_node_is_followed_until_it_is_deleted(
    client: Client, node: str, selector: dict[str, str], watchers: Replicas, heard: Heard
) -> None:
    await watchers.start()
    await until(lambda: heard.node(node) is not None and not heard.node(node).taints)
    first = heard.node(node)
    assert first.ready
    assert first.labels == selector
    assert first.allocatable == Resources(cpu_millis=7910, memory_bytes=2**34, gpus=4)
    assert not first.unschedulable

    await merge(client, NODES, None, node, {"spec": {"unschedulable": True}})
    await until(lambda: heard.node(node).unschedulable)
    taint = {"key": "maintenance", "value": "soon", "effect": "NoExecute"}
    await merge(client, NODES, None, node, {"spec": {"unschedulable": None, "taints": [taint]}})
    await until(lambda: heard.node(node).taints == (Taint(**taint),))
    unready = {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting",
    }
    await merge(client, NODES, None, node, {"status": {"conditions": [unready]}}, subresource="status")
    await until(lambda: not heard.node(node).ready)
    assert "Kubelet stopped posting" in heard.node(node).why
    await delete(client, NODES, None, node)
    await until(lambda: isinstance(heard.node(node), NodeGoneV1))


async def test_a_heartbeat_of_a_node_is_no_news(client: Client, node: str, watchers: Replicas, heard: Heard) -> None:
    await watchers.start()
    await until(lambda: heard.fresh and heard.node(node) is not None and not heard.node(node).taints)
    before = heard.node(node)
    beat = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-11-30T08:00:00Z"}
    await merge(client, NODES, None, node, {"status": {"conditions": [beat]}}, subresource="status")
    await merge(client, NODES, None, node, {"metadata": {"labels": {"after": "it"}}})
    await until(lambda: "after" in heard.node(node).labels)
    told = [row.message for row in heard.rows if getattr(row.message, "name", "") == node]
    assert told[told.index(before) + 1 :] == [heard.node(node)]


async def test_both_generations_are_told_as_applied_until_their_user_deletes_them(
    client: Client, namespace: str, watchers: Replicas, heard: Heard
) -> None:
    await watchers.start()
    made = {name: await apply(client, namespace, name, spec) for name, spec in {"one": FIRST, "two": SECOND}.items()}
    for name, live in made.items():
        await until(lambda name=name: heard.spec(namespace, name) is not None)
        told = heard.spec(namespace, name)
        assert isinstance(told, KVCacheSpecV1)
        assert (told.uid, told.generation) == (live["metadata"]["uid"], 1)
        assert told.manifest["spec"] == live["spec"]
        assert told.manifest["kind"] == "KVCache"
        assert told.manifest["metadata"] == {
            "name": name,
            "namespace": namespace,
            "labels": {"team": "chat"},
            "annotations": {WORKLOAD: "llama"},
        }
    await merge(client, KVCACHES, namespace, "one", {"spec": {"replicas": 0}})
    await until(lambda: heard.spec(namespace, "one").generation == 2)
    assert heard.spec(namespace, "one").manifest["spec"]["replicas"] == 0

    await delete(client, KVCACHES, namespace, "two")
    await until(lambda: isinstance(heard.spec(namespace, "two"), KVCacheGoneV1))
    assert heard.spec(namespace, "two").by_user
    again = await apply(client, namespace, "two", SECOND)
    await until(lambda: isinstance(heard.spec(namespace, "two"), KVCacheSpecV1))
    assert heard.spec(namespace, "two").uid == again["metadata"]["uid"]


async def test_a_status_is_no_news(client: Client, namespace: str, watchers: Replicas, heard: Heard) -> None:
    await watchers.start()
    await apply(client, namespace, "one", FIRST)
    await until(lambda: heard.spec(namespace, "one") is not None)
    await merge(client, KVCACHES, namespace, "one", {"status": {"observedGeneration": 1}}, subresource="status")
    await merge(client, KVCACHES, namespace, "one", {"spec": {"replicas": 2}})
    await until(lambda: heard.spec(namespace, "one").generation == 2)
    assert len(heard.told(namespace)) == 2


async def test_what_was_deleted_while_nobody_watched_was_not_found_and_is_no_word_of_the_user(
    client: Client, namespace: str, watchers: Replicas, heard: Heard
) -> None:
    first = await watchers.start()
    await apply(client, namespace, "one", FIRST)
    await until(lambda: heard.spec(namespace, "one") is not None)
    assert await end(first) == 0
    await delete(client, KVCACHES, namespace, "one")
    await watchers.start()
    await until(lambda: isinstance(heard.spec(namespace, "one"), KVCacheGoneV1))
    assert not heard.spec(namespace, "one").by_user
