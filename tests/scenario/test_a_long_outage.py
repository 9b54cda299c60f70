"""NATS dies for a minute at each step of a move that has begun: nothing is harmed, and the cache is soon there."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kvberth.bus import Row
from kvberth.vineyard import VineyardError, probe
from kvberth_schemas import subjects
from kvberth_schemas.events import PodScheduledV1, ProcessRole, ProcessStartedV1
from kvberth_schemas.subjects import WantKind
from kvberth_schemas.wants import CacheWantV1
from scenario.world import KVCACHE, World

OUTAGE_S = 60.0
THERE_WITHIN_S = 5.0
pytestmark = pytest.mark.long


def _bound(row: Row) -> bool:
    return isinstance(row.message, PodScheduledV1) and row.message.node == "l20-b" and not row.message.deleting


def _wanted(row: Row) -> bool:
    return isinstance(row.message, CacheWantV1) and row.message.state == "run"


def _started(row: Row) -> bool:
    message = row.message
    return isinstance(message, ProcessStartedV1) and message.role is ProcessRole.CACHE and message.node == "l20-b"


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(None, id="after the cordon"),
        pytest.param(lambda _: True, id="after the delete"),
        pytest.param(_bound, id="after the binding"),
        pytest.param(_wanted, id="after the want"),
        pytest.param(_started, id="after the process started"),
    ],
)
async def test_a_minute_without_nats_harms_nothing(two_nodes: World, step: Callable[[Row], bool] | None) -> None:
    old = await two_nodes.start_engine()
    source = "l20-a"
    assert two_nodes.cache_nodes() == [source]
    before = two_nodes.daemons()
    await two_nodes.cordon(source)
    if step is None:
        await outage(two_nodes)
        assert two_nodes.daemons() == before
        await two_nodes.until(lambda: two_nodes.reader.complete, "all is known again", THERE_WITHIN_S)
        await two_nodes.delete("Pod", old.name)
    else:
        async with seen(two_nodes, step) as happened:
            await two_nodes.delete("Pod", old.name)
            await asyncio.wait_for(happened.wait(), 10)
        await outage(two_nodes)
    took = await asyncio.wait_for(_answered(two_nodes, "l20-b"), THERE_WITHIN_S)
    print(f"the cache answered on l20-b {took:.1f} s after NATS was there again")

    def moved() -> bool:
        return two_nodes.cache_nodes() == ["l20-b"] and two_nodes.served(1)

    await two_nodes.until(moved, "the move is done", 30.0)
    assert len(two_nodes.daemons()) == 1


async def outage(world: World) -> None:
    """Keep NATS dead for a minute: its supervisor is stopped for as long, so that it can't start it again."""
    os.kill(world.up.pid, signal.SIGSTOP)
    try:
        world.signal("nats", signal.SIGKILL)
        await asyncio.sleep(OUTAGE_S)  # the story itself
    finally:
        os.kill(world.up.pid, signal.SIGCONT)
    life = world.service_pid("nats")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 10
    while world.service_pid("nats") == life:
        assert loop.time() < deadline, "NATS was not started again"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def seen(world: World, step: Callable[[Row], bool]) -> AsyncIterator[asyncio.Event]:
    """Give the event that the first row of a step sets, from pods, processes and wants."""
    happened = asyncio.Event()
    armed = False

    def listen(row: Row) -> None:
        if armed and step(row):
            happened.set()

    world.reader.view.add_listener(listen)
    async with world.bus.view([subjects.wants_of(WantKind.CACHE, "l20-b")]) as wants:
        wants.add_listener(listen)
        await world.until(lambda: wants.complete, "the wants are known", 5.0)
        armed = True
        yield happened


async def _answered(world: World, node: str) -> float:
    """Wait until a register request is answered on a node's socket, asked by nobody but this test; give the seconds."""
    socket = world.layout.node_root(node) / "default" / KVCACHE / "vineyard.sock"
    loop = asyncio.get_running_loop()
    started = loop.time()
    while True:
        with contextlib.suppress(VineyardError):
            await probe(socket, timeout_s=0.5)
            return loop.time() - started
        await asyncio.sleep(0.02)
