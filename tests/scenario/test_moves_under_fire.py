"""An engine moves while a service is killed or frozen: the move completes, once, and nothing is started twice."""

import asyncio
import signal

import pytest

from kvberth.cli.overview import Pod
from kvberth_schemas.events import ProcessRole
from scenario.world import World

MOVES_WITHIN_S = 25.0
FROZEN_FOR_S = 3.0


@pytest.mark.parametrize("service", ["scheduler", "placement", "runner-{target}", "node_agent-{target}"])
async def test_moves_complete_when_a_service_is_killed_and_when_it_is_frozen_right_after_the_delete(
    two_nodes: World, service: str
) -> None:
    await two_nodes.cordon("l20-b")
    old = await two_nodes.start_engine()
    assert two_nodes.cache_nodes() == ["l20-a"]

    killed = service.format(target="l20-b")
    life = two_nodes.service_pid(killed)
    await begin_move(two_nodes, old, "l20-a", "l20-b")
    two_nodes.signal(killed, signal.SIGKILL)
    old = await await_moved(two_nodes, old, "l20-b")
    assert two_nodes.service_pid(killed) != life, f"{killed} was not started again"

    frozen = service.format(target="l20-a")
    life = two_nodes.service_pid(frozen)
    await begin_move(two_nodes, old, "l20-b", "l20-a")
    two_nodes.signal(frozen, signal.SIGSTOP)
    await asyncio.sleep(FROZEN_FOR_S)  # the story itself, not a wait for something
    two_nodes.signal(frozen, signal.SIGCONT)
    await await_moved(two_nodes, old, "l20-a")
    assert two_nodes.service_pid(frozen) == life, f"{frozen} did not live on"


async def begin_move(world: World, engine: Pod, source: str, target: str) -> None:
    """Ask for a move as in the first report: the node is closed, the engine's pod deleted."""
    await world.uncordon(target)
    await world.cordon(source)
    world.lives.clear()  # only lives of this move count
    assert not (await world.delete("Pod", engine.name)).refused


async def await_moved(world: World, old: Pod, target: str) -> Pod:
    """Wait until the move is done, and assert that nothing was started twice; give the new engine."""

    def moved() -> bool:
        gone = all(pod.uid != old.uid for pod in world.overview.pods)
        return gone and world.served(1) and world.cache_nodes() == [target]

    took = await world.until(moved, f"the cache follows the engine to {target}", MOVES_WITHIN_S)
    print(f"moved to {target} in {took:.1f} s")
    engine = world.engine()
    assert engine.restarts == 0
    (cache,) = world.running(ProcessRole.CACHE).values()
    assert (cache.node, cache.restarts) == (target, 0)
    assert world.lives[target, ProcessRole.CACHE, cache.name] == {(cache.pid, cache.incarnation)}
    assert len(world.lives[target, ProcessRole.ENGINE, engine.name]) == 1
    assert world.daemons() == [cache.pid]
    return engine
