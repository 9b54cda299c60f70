"""kvberth itself is upgraded, rolled back and removed while engines use their caches."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from benchmarks.cluster import NAMESPACE, until
from tests.ha.install import BEFORE, IMAGE, KEYED, NOW, Install
from tests.ha.moves import Looked
from tests.ha.world import KVCACHE, MOVER, RESTER, World
from tests.ha.writers import Told

from kvberth.kube.resources import KVCACHES, PODS

MOUNTED: Final = {"secrets"}
"""What the kubelet puts into the directory for an engine that has it at /var/run."""


async def upgraded(world: World, install: Install, overlay: str) -> Told:
    """From the version before to this one, back, and on again, while the engine moves."""
    told = Told("an upgrade, a roll-back and an upgrade while an engine moves")
    steps: list[tuple[str, Callable[[], None], str]] = [
        ("upgrade", lambda: install.apply(overlay, NOW), NOW),
        ("roll-back by undo", install.undo, BEFORE),
        ("upgrade", lambda: install.apply(overlay, NOW), NOW),
        ("roll-back by the image of before", lambda: install.apply(overlay, BEFORE), BEFORE),
        ("upgrade", lambda: install.apply(overlay, NOW), NOW),
    ]
    for name, change, tag in steps:
        await _while_moving(world, told, name, change)
        await asyncio.to_thread(install.wait, overlay)
        if (runs := install.images()) != {f"{IMAGE}:{tag}"}:
            told.wrong.append(f"after the {name} these run: {', '.join(sorted(runs))}")
    return told


async def _while_moving(world: World, told: Told, name: str, change: Callable[[], None]) -> None:
    took: list[str] = []
    began = time.monotonic()
    changing = asyncio.create_task(asyncio.to_thread(change))
    while not changing.done() or not took:
        looked = await Looked.at(world)
        await world.send()
        moved = await looked.moved(world, await world.bound())
        took.append(f"{moved.seconds:.1f}")
        told.wrong += [f"{name}: {one}" for one in moved.wrong]
    await changing
    await world.rested()
    told.lines.append(f"{name}: {time.monotonic() - began:.0f} s, moves of {', '.join(took)} s")


async def changed(world: World, install: Install, former: str, overlay: str) -> Told:
    """From one overlay to another, while the engine moves: the bus of the former goes first."""
    told = Told(f"from overlay {former} to {overlay} while an engine moves")

    def change() -> None:
        install.without_bus(former)
        install.apply(overlay, NOW)

    await _while_moving(world, told, "change", change)
    return told


async def keyed(world: World, install: Install) -> Told:
    """From overlay ha to the same with keys, while the engine moves; then nobody is refused anything in a move."""
    told = Told("from overlay ha to ha with keys while an engine moves")

    def change() -> None:
        install.without_bus("ha")
        install.apply(KEYED, NOW)

    await _while_moving(world, told, "change", change)
    before = await world.bus_log("authentication error")  # of services that had no key yet
    looked = await Looked.at(world)
    await world.send()
    moved = await looked.moved(world, await world.bound())
    await world.rested()
    refused = sum(map(len, before.values()))
    told.lines.append(f"with keys: a move of {moved.seconds:.1f} s; {refused} sign-ins were refused before it")
    told.wrong += [*moved.wrong, *said_since({}, await world.bus_log("violation"))]
    told.wrong += said_since(before, await world.bus_log("authentication error"))
    return told


def said_since(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> list[str]:
    """Give the lines that each pod has said since; of one that began anew, all."""
    new: list[str] = []
    for pod, lines in after.items():
        known = before.get(pod, [])
        new += lines[len(known) if lines[: len(known)] == known else 0 :]
    return new


async def removed(world: World, install: Install) -> Told:
    """One KVCache is deleted while kvberth is there; then kvberth goes, and the other KVCache keeps its cache."""
    told = Told("an uninstall")
    await world.api.delete(KVCACHES, NAMESPACE, KVCACHE.format(RESTER))
    await until(lambda: _no_caches(world, RESTER), "the cache of the deleted KVCache is gone")
    await until(lambda: _is_empty(world, RESTER, world.nodes[-1]), "the directory of the deleted KVCache is empty")
    told.lines.append("the directory of a deleted KVCache is empty")
    before, engine = await world.lives(), await world.settled(MOVER, world.source)
    left = await asyncio.to_thread(install.remove)
    after = await world.lives()
    if left:
        told.wrong.append(f"left behind: {left}")
    if before.seen[world.source, MOVER] != after.seen[world.source, MOVER]:
        told.wrong.append("the cache that stays began anew")
    if await world.settled(MOVER, world.source) != engine:
        told.wrong.append("its engine is another, or began anew")
    if [one["metadata"]["name"] for one in await world.api.list(KVCACHES, NAMESPACE)] != [KVCACHE.format(MOVER)]:
        told.wrong.append("the KVCache that was to stay is gone")
    told.lines.append(f"without kvberth {KVCACHE.format(MOVER)} and its cache on {world.source} stay")
    if left := await asyncio.to_thread(install.purge):
        told.wrong.append(f"left behind by the purge: {left}")
    await until(lambda: _no_caches(world, MOVER), "all caches are gone")
    names = {
        pod["metadata"]["name"]: sum(one["restartCount"] for one in pod["status"]["containerStatuses"])
        for pod in await world.engines(MOVER)
    }
    if names != {engine.name: 0}:
        told.wrong.append(f"the engine did not run on without a cache: {names}")
    told.lines += [
        f"a directory stays on {node}: {path}" for node in world.nodes for path in await world.hands.directories(node)
    ]
    return told


async def _is_empty(world: World, model: str, node: str) -> bool:
    path = f"{NAMESPACE}/{KVCACHE.format(model)}"
    return set((await world.hands.directories(node))[path]) <= MOUNTED


async def _no_caches(world: World, model: str) -> bool:
    return not await world.api.list(PODS, NAMESPACE, f"kvberth.dev/kvcache={KVCACHE.format(model)}")
