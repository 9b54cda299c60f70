"""An engine moves while a service is killed or frozen: the move completes, once, and nothing is started twice."""

import signal

import pytest

from kvberth_schemas.events import ProcessRole
from scenario.world import World

MOVES_WITHIN_S = 25.0
FROZEN_FOR_S = 3.0

SERVICES = ["scheduler", "placement", "runner-l20-b", "node_agent-l20-b"]


@pytest.mark.parametrize("service", SERVICES)
async def test_a_move_completes_when_a_service_is_killed_right_after_the_delete(two_nodes: World, service: str) -> None:
    before = await begin_move(two_nodes)
    old_life = two_nodes.service_pid(service)
    two_nodes.signal(service, signal.SIGKILL)
    await await_moved(two_nodes, before)
    assert two_nodes.service_pid(service) != old_life


async def begin_move(world: World) -> str:
    """Start the example on l20-a, then ask for the move; give the old engine's uid."""
    await world.cordon("l20-b")
    old = await world.start_engine()
    assert world.cache_nodes() == ["l20-a"]
    await world.uncordon("l20-b")
    await world.cordon("l20-a")
    await world.delete("Pod", old.name)
    return old.uid


async def await_moved(world: World, old_uid: str) -> None:
    def moved() -> bool:
        gone = all(pod.uid != old_uid for pod in world.overview.pods)
        return gone and world.served(1) and world.cache_nodes() == ["l20-b"]

    took = await world.until(moved, "the cache follows the engine to l20-b", MOVES_WITHIN_S)
    print(f"moved in {took:.1f} s")
    engine = world.engine()
    assert engine.restarts == 0
    (cache,) = world.running(ProcessRole.CACHE).values()
    assert cache.node == "l20-b"
    assert cache.restarts == 0
    assert world.lives[("l20-b", ProcessRole.CACHE, cache.name)] == {(cache.pid, cache.incarnation)}
    assert len(world.lives[("l20-b", ProcessRole.ENGINE, engine.name)]) == 1
    assert world.daemons() == [cache.pid]
