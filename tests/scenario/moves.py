"""Moves of the example's engine as tests tell them: how one begins, which steps it has, and what is true after it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kvberth.bus import BusError, Row
from kvberth.cli.overview import Pod
from kvberth_schemas import subjects
from kvberth_schemas.events import PodScheduledV1, ProcessRole, ProcessStartedV1
from kvberth_schemas.subjects import WantKind
from kvberth_schemas.wants import CacheWantV1
from scenario.world import World

MOVES_WITHIN_S = 25.0
ASKED_WITHIN_S = 20.0

Step = Callable[[Row, str], bool]
"""Whether a row shows that a move to a node has come so far."""


def is_binding(row: Row, target: str) -> bool:
    """The new engine has a node."""
    return isinstance(row.message, PodScheduledV1) and row.message.node == target and not row.message.deleting


def is_want(row: Row, target: str) -> bool:
    """Placement asks for a cache there."""
    return isinstance(row.message, CacheWantV1) and row.subject.node == target and row.message.state == "run"


def is_start(row: Row, target: str) -> bool:
    """The runner there has started the cache."""
    message = row.message
    return isinstance(message, ProcessStartedV1) and message.role is ProcessRole.CACHE and message.node == target


STEPS: dict[str, Step | None] = {
    "cordon": None,
    "delete": lambda _row, _target: True,
    "binding": is_binding,
    "want": is_want,
    "process": is_start,
}
"""What can be seen of a move, in order; None: before the engine's pod is deleted."""


async def close(world: World, source: str, target: str) -> None:
    """Let the next engine go to the target, and no other place."""
    await world.uncordon(target)
    await world.cordon(source)
    world.lives.clear()  # only lives of this move count


async def delete(world: World, engine: Pod) -> None:
    """Delete an engine's pod, asking again while nobody answers."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ASKED_WITHIN_S
    while True:
        try:
            reply = await world.delete("Pod", engine.name)
        except BusError:
            assert loop.time() < deadline, "the scheduler did not answer"
        else:
            if reply.refused:  # the answer to an earlier try was lost, and its pod is gone already
                await world.until(lambda: all(pod.uid != engine.uid for pod in world.pods), str(reply), 5.0)
            return


async def begin(world: World, engine: Pod, source: str, target: str) -> None:
    """Ask for a move as in the first report: the node is closed, the engine's pod deleted."""
    await close(world, source, target)
    await delete(world, engine)


async def finish(world: World, old: Pod, target: str) -> Pod:
    """Wait until the move is done, and assert that nothing was started twice; give the new engine."""

    def moved() -> bool:
        gone = all(pod.uid != old.uid for pod in world.pods)
        return gone and world.served(1) and world.cache_nodes() == [target]

    took = await world.until(moved, f"the cache follows the engine to {target}", MOVES_WITHIN_S)
    print(f"moved to {target} in {took:.1f} s")
    engine = world.engine()
    assert engine.restarts == 0
    cache = world.cache()
    assert (cache.node, cache.restarts) == (target, 0)
    assert world.lives[target, ProcessRole.CACHE, cache.name] == {(cache.pid, cache.incarnation)}
    assert len(world.lives[target, ProcessRole.ENGINE, engine.name]) == 1
    return engine


@asynccontextmanager
async def seen(world: World, step: Step, target: str) -> AsyncIterator[asyncio.Event]:
    """Give the event that the first row of a step sets, from pods, processes and wants."""
    happened = asyncio.Event()
    armed = True

    def listen(row: Row) -> None:
        if armed and step(row, target):
            happened.set()

    async with world.bus.view([subjects.wants_of(WantKind.CACHE, target)]) as wants:
        await world.until(lambda: wants.complete, "the wants are known", 5.0)
        wants.add_listener(listen)
        world.reader.view.add_listener(listen)
        try:
            yield happened
        finally:
            armed = False
