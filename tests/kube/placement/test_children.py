"""What placement owns on a cluster stays as it should be, and what it does not own is left alone."""

import asyncio
from pathlib import Path

from kube.placement.played import OURS
from kube.placement.stage import Stage, placement
from kube.rig import absent, create, delete, get, items, merge
from kvberth.kube.resources import DAEMON_SETS, DEPLOYMENTS, KVCACHES, NODES, PODS, SERVICES, Resource
from support.waiting import until

PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
LEGACY = {"containers": [{"name": "e", "image": "none", "env": [{"name": "AIBRIX_LLM_KV_CACHE", "value": "1"}]}]}


async def test_a_child_that_is_edited_or_deleted_by_hand_is_restored(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines(**LEGACY)
        await world.serving(a)
        await get(world.client, SERVICES, world.namespace, "kv-rpc")

        other = {"template": {"spec": {"containers": [{"name": "vineyardd", "image": "other"}]}}}
        edited = await merge(world.client, DAEMON_SETS, world.namespace, "kv", {"spec": other})
        assert edited["spec"]["template"]["spec"]["containers"][0]["image"] == "other"

        async def restored() -> bool:
            found = await get(world.client, DAEMON_SETS, world.namespace, "kv")
            return found["spec"]["template"]["spec"]["containers"][0]["image"] == "vineyardd:1"

        await until(restored)

        for resource, name in ((DAEMON_SETS, "kv"), (SERVICES, "kv-rpc")):
            old = await get(world.client, resource, world.namespace, name)
            await delete(world.client, resource, world.namespace, name)

            async def back(resource=resource, name=name, old=old) -> bool:
                found = await items(world.client, resource, world.namespace, OURS)
                return [one["metadata"]["uid"] for one in found if one["metadata"]["name"] == name] not in (
                    [],
                    [old["metadata"]["uid"]],
                )

            await until(back)
        await world.serving(a)


async def test_writes_of_others_in_between_cost_no_move(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)

    async def disturb() -> None:
        for at in range(10_000):
            note = {"metadata": {"annotations": {"somebody": str(at)}}}
            await merge(world.client, DAEMON_SETS, world.namespace, "kv", note)

    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines()
        await world.serving(a)
        await world.age()
        disturbing = asyncio.create_task(disturb())
        await world.cordon(a, c)
        await world.end((await world.engine_pods())[a])
        await world.serving(b)
        assert not disturbing.done()
        disturbing.cancel()
        await asyncio.wait([disturbing])
        assert await world.set_nodes() == [b]


async def test_names_of_others_are_told_and_left_alone(world: Stage, tmp_path: Path) -> None:
    labels = {"app": "unrelated"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}
    never = {**template, "spec": {**template["spec"], "nodeSelector": {"no": "where"}}}
    body = {"metadata": {"name": "kv"}, "spec": {"selector": {"matchLabels": labels}, "template": never}}
    foreign = await create(world.client, DAEMON_SETS, world.namespace, body)
    async with placement(world, tmp_path / "placement"):
        kvcache = await world.kvcache()
        await world.engines()
        message = await world.says("Placed", "NameTaken")
        assert f"DaemonSet {world.namespace}/kv is not kvberth's" in message
        await until(lambda: _told(world, "NameTaken"))
        await delete(world.client, KVCACHES, world.namespace, kvcache["metadata"]["name"])
        await until(lambda: world.bus_status() is None or not world.mirror.kvcaches)
    now = await get(world.client, DAEMON_SETS, world.namespace, "kv")
    assert (now["metadata"]["uid"], now["metadata"]["generation"]) == (foreign["metadata"]["uid"], 1)
    assert "ownerReferences" not in now["metadata"]


async def test_a_kvcache_that_another_controller_serves_is_not_touched(world: Stage, tmp_path: Path) -> None:
    kvcache = await world.kvcache()
    owner = {
        "apiVersion": kvcache["apiVersion"],
        "kind": "KVCache",
        "name": "kv",
        "uid": kvcache["metadata"]["uid"],
        "controller": True,
    }
    template = {"metadata": {"labels": {"app": "theirs"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "theirs"}}, "template": template}
    body = {"metadata": {"name": "kv", "ownerReferences": [owner]}, "spec": spec}
    await create(world.client, DEPLOYMENTS, world.namespace, body)
    async with placement(world, tmp_path / "placement"):
        await world.engines()
        message = await world.says("Accepted", "ManagedByAnother")
        assert f"Deployment {world.namespace}/kv" in message
        assert await absent(world.client, DAEMON_SETS, world.namespace, "kv")


async def test_the_children_go_with_their_kvcache(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines(**LEGACY)
        await world.serving(a)
        await delete(world.client, KVCACHES, world.namespace, "kv")
        await until(lambda: absent(world.client, DAEMON_SETS, world.namespace, "kv"))
        await until(lambda: absent(world.client, SERVICES, world.namespace, "kv-rpc"))
        await until(lambda: (want := world.directory(a)) is not None and want.state == "drop" and want.why == "user")
        assert await world.cache_pods() == []


async def test_a_cache_tolerates_what_its_engine_tolerates_and_no_more(world: Stage, tmp_path: Path) -> None:
    a = world.nodes[0]
    taint = {"key": "nvidia.com/gpu", "value": "l20", "effect": "NoSchedule"}
    await merge(world.client, NODES, None, a, _taints(taint))
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines(tolerations=[{"operator": "Exists"}], nodeSelector={"kubernetes.io/hostname": a})
        await world.serving(a)
        found = await get(world.client, DAEMON_SETS, world.namespace, "kv")
        expected = {"key": "nvidia.com/gpu", "operator": "Equal", "value": "l20", "effect": "NoSchedule"}
        assert found["spec"]["template"]["spec"]["tolerations"] == [expected]
        assert await world.cache_pods() == [a]


async def test_a_cache_stays_under_a_taint_as_long_as_its_engine_and_is_as_important(
    world: Stage, tmp_path: Path
) -> None:
    a = world.nodes[0]
    team = {"key": "team", "operator": "Equal", "value": "llm", "effect": "NoSchedule"}
    maintenance = {"key": "maintenance", "operator": "Equal", "value": "soon", "effect": "NoExecute"}
    taints = ({key: one[key] for key in ("key", "value", "effect")} for one in (team, maintenance))
    await merge(world.client, NODES, None, a, _taints(*taints))
    tolerations = [team, {**maintenance, "tolerationSeconds": 600}]
    gpu_online = {"metadata": {"name": f"gpu-online-{world.namespace}"}, "value": 1000}
    await create(world.client, PRIORITY_CLASSES, None, gpu_online)
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        important = {"priorityClassName": gpu_online["metadata"]["name"]}
        await world.engines(tolerations=tolerations, nodeSelector={"kubernetes.io/hostname": a}, **important)
        await world.serving(a)
        (cache,) = await items(world.client, PODS, world.namespace, OURS)
        own = [one for one in cache["spec"]["tolerations"] if not one["key"].startswith("node.kubernetes.io/")]
        assert sorted(own, key=lambda one: one["key"]) == sorted(tolerations, key=lambda one: one["key"])
        assert cache["spec"]["priority"] == 1000
    await delete(world.client, PRIORITY_CLASSES, None, gpu_online["metadata"]["name"])


def _taints(*taints: dict) -> dict:
    return {"spec": {"taints": list(taints)}}


async def _told(world: Stage, reason: str) -> bool:
    return reason in await world.told()
