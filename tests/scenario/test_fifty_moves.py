"""The same engine moves fifty times in a row: what is left is what one move leaves, on disk, in /proc and in memory."""

import asyncio
import os
import statistics
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from kvberth_schemas.events import ProcessRole
from scenario import moves
from scenario.world import KVCACHE, World, processes_of

MOVES = 50
SETTLED_AFTER = 10
QUIET_S = 5.0
READINGS = 5
GROWTH_BYTES = 2 * 2**20
FORGOTTEN_WITHIN_S = 90.0
"""A directory that is no longer wanted is emptied after a minute, a record of what has ended goes in half one."""
NODES = ("l20-a", "l20-b")


@dataclass(frozen=True)
class Footprint:
    """What each service takes."""

    rss: dict[str, float]
    descriptors: dict[str, int]


async def footprint(world: World) -> Footprint:
    """Measure the services at rest, by some readings after a while in which nothing happens."""
    await asyncio.sleep(QUIET_S)  # the story itself, not a wait for something
    services = {record.stem: psutil.Process(world.service_pid(record.stem)) for record in records(world)}
    rss: dict[str, list[int]] = {name: [] for name in services}
    descriptors: dict[str, list[int]] = {name: [] for name in services}
    for _ in range(READINGS):
        for name, process in services.items():
            rss[name].append(process.memory_info().rss)
            descriptors[name].append(process.num_fds())
        await asyncio.sleep(0.2)
    return Footprint(
        {name: statistics.median(found) for name, found in rss.items()},
        {name: min(found) for name, found in descriptors.items()},  # an agent has some more while it proves a cache
    )


def records(world: World) -> list[Path]:
    """Give the records of the services; NATS is none of ours."""
    return [path for path in sorted(world.layout.records.glob("*.json")) if path.stem != "nats"]


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_fifty_moves_leave_one_cache_and_no_process_socket_or_memory_behind(two_nodes: World) -> None:
    await two_nodes.cordon("l20-b")
    engine = await two_nodes.start_engine()
    lives = [two_nodes.service_pid(record.stem) for record in records(two_nodes)]
    incarnations = {two_nodes.cache().incarnation}
    for number in range(1, MOVES + 1):
        source, target = NODES if number % 2 else NODES[::-1]
        await moves.begin(two_nodes, engine, source, target)
        engine = await moves.finish(two_nodes, engine, target)
        incarnations.add(two_nodes.cache().incarnation)
        if number == SETTLED_AFTER:
            before = await footprint(two_nodes)
    after = await footprint(two_nodes)

    assert [two_nodes.service_pid(record.stem) for record in records(two_nodes)] == lives
    assert len(incarnations) == 1 + MOVES
    for name, rss in after.rss.items():
        grown = rss - before.rss[name]
        descriptors = (before.descriptors[name], after.descriptors[name])
        print(f"{name}: {rss / 2**20:.1f} MiB, {grown / 2**20:+.2f} MiB, descriptors {descriptors}")
    assert {name: rss for name, rss in after.rss.items() if rss - before.rss[name] > GROWTH_BYTES} == {}
    assert after.descriptors == before.descriptors
    await only_one_engine_and_one_cache_are_left(two_nodes, target)


async def only_one_engine_and_one_cache_are_left(world: World, node: str) -> None:
    """Look at processes, sockets, directories and records, whatever the bus says."""
    cache, (engine,) = world.cache(), world.running(ProcessRole.ENGINE).values()
    assert world.daemons() == [cache.pid]
    children = {child.pid for child in psutil.Process(engine.pid).children(recursive=True)}
    services = {world.service_pid(record.stem) for record in world.layout.records.glob("*.json")}
    assert processes_of(world.layout).keys() == {world.up.pid, cache.pid, engine.pid} | children | services

    directories = sorted(path for path in world.layout.root.glob("*/*/*"))
    assert directories == [world.layout.node_root(one) / "default" / KVCACHE for one in NODES]
    here = directories[NODES.index(node)]
    await world.until(
        lambda: left_in(world.layout.root) == {here / "vineyard.sock", here / "gate.json"},
        "nothing is left of sockets but the one that answers, with what its gate goes by",
        FORGOTTEN_WITHIN_S,
    )
    await world.until(
        lambda: records_of_nodes(world) == [node, node],
        "only the engine and its cache are recorded",
        FORGOTTEN_WITHIN_S,
    )


def records_of_nodes(world: World) -> list[str]:
    """Give the node of each process that a runner keeps a record of."""
    return sorted(path.parents[1].name for path in (world.layout.state / "nodes").glob("*/records/*.json"))


def left_in(root: Path) -> set[Path]:
    """Give everything below a directory that is no directory."""
    return {Path(folder) / name for folder, _, names in os.walk(root) for name in names}
