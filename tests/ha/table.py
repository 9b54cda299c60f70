"""Each process of an install killed, paused and cut off while an engine moves; a row of what came of it for each."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.ha.hands import Fault, Process
from tests.ha.moves import Looked, Moved, first_new
from tests.ha.world import World

FAULTS: Final[tuple[Fault, ...]] = ("kill", "pause", "cut")
HELD_S: Final = 20.0
"""So long a fault lasts at most: a standby leads after 15 s and a little."""
_TWO: Final = ("placement leader", "placement standby", "pod-watcher leader", "pod-watcher standby")
_AGENTS: Final = ("kvberth-node source", "kvberth-node target")
PROCESSES: Final = {
    "default": (*_TWO, "nats only", *_AGENTS),
    "ha": (*_TWO, "nats leader", "nats standby", *_AGENTS),
}
HEAD: Final = f"{'process':<20} {'fault':<6} {'moved s':>8} {'lease s':>7}  what was wrong"


@dataclass
class Row:
    """What came of one fault."""

    process: str
    fault: Fault
    moved_s: float
    """From the binding of the engine's new pod until the witness beside it was answered."""
    handed_s: float | None
    """From the fault until another process held the Lease, where the leader was hit and another came."""
    wrong: list[str]

    def __str__(self) -> str:
        """One line of the table."""
        handed = f"{self.handed_s:7.1f}" if self.handed_s is not None else "      -"
        said = f"{self.process:<20} {self.fault:<6} {self.moved_s:8.1f} {handed}  "
        return said + ("; ".join(self.wrong) or "ok")


def rows(overlay: str) -> Iterator[tuple[str, Fault]]:
    """Give what is to be done, in order."""
    for process in PROCESSES[overlay]:
        for fault in FAULTS:
            yield process, fault


async def tell(world: World, process: str, fault: Fault) -> Row:
    """Hit a process, move the engine, end the fault, and look."""
    service, _, which = process.partition(" ")
    await world.renew()
    hit = await world.process(service, which)
    looked = await Looked.at(world)
    began = time.time()
    await world.hands.begin(fault, hit)
    handed = asyncio.create_task(_handed(world, service, hit, began))
    try:
        moved = await _moved(world, looked, fault, hit)
        await world.rested()
        handed_s = handed.result() if handed.done() else None
    finally:
        handed.cancel()
    return Row(process, fault, moved.seconds, handed_s, moved.wrong)


async def _moved(world: World, looked: Looked, fault: Fault, hit: Process) -> Moved:
    """Move the engine, and end the fault meanwhile."""
    try:
        await world.send()
        bound = await world.bound()
        if fault != "kill":
            await _while_held(world, looked)
    finally:
        await world.hands.end(fault, hit)
    return await looked.moved(world, bound)


async def _while_held(world: World, looked: Looked) -> None:
    """Hold the fault until the new cache answers, or for its time."""
    deadline = time.monotonic() + HELD_S
    while time.monotonic() < deadline:
        if first_new(looked.lives, await world.lives(), world.source) is not None:
            return
        await asyncio.sleep(0.2)


async def _handed(world: World, service: str, hit: Process, began: float) -> float | None:
    """Give how long it took until somebody else held the Lease; None where none was held by what was hit."""
    if service not in {"placement", "pod-watcher"} or await world.holder(service) != hit.pod:
        return None
    while (await world.holder(service)) in {"", hit.pod}:  # noqa: ASYNC110 - a Lease sets no event
        await asyncio.sleep(0.1)
    return time.time() - began
