"""Caches follow engines on a real control plane: made, moved, taken away, and nothing more."""

from pathlib import Path

from kube.placement.played import speaker
from kube.placement.stage import Stage, add_node, placement
from kube.rig import delete, merge
from kvberth.kube.resources import NODES, PODS
from kvberth_schemas.subjects import Entity, Service
from support.waiting import until


async def test_a_cache_is_made_beside_its_engine_and_follows_it(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines()
        await world.serving(a)
        assert await world.set_nodes() == [a]

        await world.age()
        await world.cordon(a, c)
        await world.end((await world.engine_pods())[a])
        await world.serving(b)
        assert await world.set_nodes() == [b]
        assert await world.cache_pods() == [b]
        assert (await world.status())["moved"] == f"relocated from {a} to {b}"
        dropped = world.directory(a)
        assert dropped is not None
        assert (dropped.state, dropped.why) == ("drop", "moved")
        kept = world.directory(b)
        assert kept is not None
        assert (kept.state, kept.mode, kept.gid) == ("keep", 0o2770, 10001)
        await until(lambda: _told(world, {"CacheAdded", "CacheMoved"}))


async def test_an_engine_that_started_without_its_cache_stands_in_the_status_and_in_an_event(
    world: Stage, tmp_path: Path
) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    message = '{"kvberth": "gate", "outcome": "timeout", "reason": "SocketMissing", "waited_s": 30.0}'
    ended = {"terminated": {"exitCode": 0, "message": message}}
    gate = {"name": "kvberth-gate", "ready": True, "restartCount": 0, "image": "", "imageID": "", "state": ended}
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines()
        await world.serving(a)
        pod = (await world.engine_pods())[a]
        status = {"status": {"phase": "Running", "initContainerStatuses": [gate]}}
        await merge(world.client, PODS, world.namespace, pod, status, subresource="status")
        await until(lambda: _names_engine(world, pod))
        assert f"engine {pod} started without its cache" in (await world.condition("Placed"))[2]
        await until(lambda: _told(world, {"EngineStartedWithoutCache"}))


async def test_a_node_that_is_added_gets_a_cache_as_soon_as_an_engine_is_bound_there(
    world: Stage, tmp_path: Path
) -> None:
    added = f"{world.namespace}-added"
    await world.cordon(*world.nodes)
    async with (
        placement(world, tmp_path / "placement"),
        speaker(world.url, Service.NODE_AGENT, added, (Entity.SOCKET,)) as (_, agent),
    ):
        world.mirror.agents[added] = agent
        await world.kvcache()
        await world.engines()
        await world.says("Placed", "EngineWaiting")
        await add_node(world.client, added, world.namespace)
        await world.serving(added)
        assert await world.set_nodes() == [added]
    await delete(world.client, NODES, None, added)


async def _told(world: Stage, reasons: set[str]) -> bool:
    return reasons <= set(await world.told())


async def _names_engine(world: Stage, pod: str) -> bool:
    rows = (await world.status())["nodes"]
    return any(pod in row.get("enginesWithoutCache", []) for row in rows)
