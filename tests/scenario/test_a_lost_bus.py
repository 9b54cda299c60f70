"""The bus dies and forgets everything: engines and caches run on untouched, and all is known again by itself."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scenario import moves
from scenario.world import World, world

KNOWN_AGAIN_WITHIN_S = 15.0
NODES = ("l20-a", "l20-b", "l20-c")


@pytest.fixture
async def three_engines(state: Path) -> AsyncIterator[World]:
    """Three nodes, each with an engine and a cache that answers."""
    async with world(state, NODES) as made:
        await made.start_engine()
        assert not (await made.scale(3)).refused
        await made.until(lambda: made.served(3) and made.cache_nodes() == [*NODES], "three engines are served", 20.0)
        yield made


async def test_wiping_the_bus_changes_no_process_and_all_is_known_again(three_engines: World) -> None:
    await wipe_and_compare(three_engines, also_kill=())


async def test_killing_the_scheduler_while_the_bus_is_wiped_changes_no_process(three_engines: World) -> None:
    await wipe_and_compare(three_engines, also_kill=("scheduler",))


async def test_a_bus_that_is_killed_after_some_moves_starts_and_ends_no_process(two_nodes: World) -> None:
    await two_nodes.cordon("l20-b")
    engine = await two_nodes.start_engine()
    for source, target in (("l20-a", "l20-b"), ("l20-b", "l20-a")) * 2:
        await moves.begin(two_nodes, engine, source, target)
        engine = await moves.finish(two_nodes, engine, target)
    lives, server = two_nodes.running_lives(), two_nodes.service_pid("nats")
    two_nodes.lives.clear()
    two_nodes.signal("nats", signal.SIGKILL)

    def known_again() -> bool:
        return two_nodes.service_pid("nats") not in {None, server} and two_nodes.served(1)

    await two_nodes.settles(known_again, "the engine is known as served again", KNOWN_AGAIN_WITHIN_S)
    assert two_nodes.running_lives() == lives
    started = {f"{node}/{name}": said for (node, _, name), said in two_nodes.lives.items()}
    assert started == {where: {life} for where, life in lives.items() if where in started}
    assert two_nodes.cache_nodes() == ["l20-a"]
    assert two_nodes.daemons() == [two_nodes.cache().pid]


async def wipe_and_compare(world: World, also_kill: tuple[str, ...]) -> None:
    """Lose the bus (and some services), and wait until the same engines and caches are known as served."""
    lives, uids = world.running_lives(), {pod.uid for pod in world.overview.pods}
    assert len(lives) == 6
    seen = {key: set(said) for key, said in world.lives.items()}
    former = world.bus.streams.events_created
    assert former is not None
    for service in also_kill:
        world.signal(service, signal.SIGKILL)
    world.wipe_nats()

    def known_again() -> bool:
        return (
            world.bus.streams.events_created not in {None, former}
            and world.served(3)
            and world.cache_nodes() == [*NODES]
            and world.running_lives().keys() == lives.keys()
        )

    await world.settles(known_again, "three engines are known as served again", KNOWN_AGAIN_WITHIN_S)
    assert world.running_lives() == lives
    assert world.lives == seen, "a process was started that nobody needed"
    assert {pod.uid for pod in world.overview.pods} == uids
    assert sorted(world.daemons()) == sorted(pid for pid, incarnation in lives.values() if incarnation)
