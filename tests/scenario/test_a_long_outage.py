"""NATS dies for a minute at each step of a move that has begun: nothing is harmed, and the cache is soon there."""

import asyncio
import contextlib
import os
import signal

import pytest

from kvberth.vineyard import VineyardError, probe
from scenario import moves
from scenario.world import KVCACHE, World

OUTAGE_S = 60.0
THERE_WITHIN_S = 5.0
pytestmark = pytest.mark.long


@pytest.mark.timeout(200)
@pytest.mark.parametrize("step", [pytest.param(step, id=f"after the {name}") for name, step in moves.STEPS.items()])
async def test_a_minute_without_nats_harms_nothing(two_nodes: World, step: moves.Step | None) -> None:
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
        async with moves.seen(two_nodes, step, "l20-b") as happened:
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
    while world.service_pid("nats") in {None, life}:
        assert loop.time() < deadline, "NATS was not started again"
        await asyncio.sleep(0.02)


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
