"""Never two writers: what a placement decided while it led is refused once another leads, however late it comes.

A leader's write is held up between it and the API server, by a route of its pod that leads nowhere, so that nothing
depends on who is quicker; its kernel sends it again once the route is there, also for a process that was stopped.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from benchmarks.cluster import until
from tests.ha.audit import Audit, Write
from tests.ha.hands import Hands, Process
from tests.ha.world import MOVER, World

API: Final = ("kubernetes", "default")
LEASE_BYTES: Final = 2500
"""A renewal of the Lease with its token is shorter, a DaemonSet's PATCH longer."""
ATTEMPTS: Final = 6
SENT_WITHIN_S: Final = 3.0


@dataclass
class Told:
    """What came of one story."""

    name: str
    lines: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Some lines."""
        return "\n  ".join((f"{self.name}: {'; '.join(self.wrong) or 'ok'}", *self.lines))


async def stopped(world: World, audit: Audit) -> Told:
    """The leader is stopped between its plan and the API server, and goes on under another's term."""
    return await _late(world, audit, "the leader is stopped between plan and apply", _stop)


async def cut_off(world: World, audit: Audit) -> Told:
    """The leader is cut off from everybody between its plan and the API server, and comes back."""
    return await _late(world, audit, "the leader is cut off between plan and apply", _cut)


async def without_its_bus(world: World, audit: Audit) -> Told:
    """The server that leads the streams dies with all that it stored, in the middle of a move."""
    told = Told("the leader of the bus is lost in the middle of a move")
    bus, lease, before = await world.process("nats", "leader"), await world.lease("placement"), await world.generation()
    audit.mark()
    await world.hands.begin("pause", bus)
    await world.send()
    await world.bound()
    began = time.monotonic()
    await world.lose(bus)
    await world.settled(MOVER, world.source)
    told.lines.append(f"the move was complete {time.monotonic() - began:.1f} s after that")
    await world.rested()
    written = audit.writes()
    told.lines += [str(one) for one in written]
    told.wrong += [f"refused: {one}" for one in written if one.code >= 300 and one.code != 409]
    if len({one.pod for one in written}) != 1:
        told.wrong.append("not one placement wrote")
    if (now := await world.lease("placement")) != lease:
        told.wrong.append(f"the Lease went from {lease} to {now}")
    done = sum(one.code < 300 for one in written)
    if (generation := await world.generation()) != before + done:
        told.wrong.append(f"{done} writes made generation {generation} of {before}")
    told.lines.append(f"the bus is led by {await world.bus_leader()}, it was {bus.pod}")
    return told


Means = Callable[[Hands, Process], Awaitable[None]]


async def _stop(hands: Hands, leader: Process) -> None:
    await hands.begin("pause", leader)


async def _cut(hands: Hands, leader: Process) -> None:
    await hands.begin("cut", leader)


async def _late(world: World, audit: Audit, name: str, how: Means) -> Told:
    told = Told(name)
    leader, standby = await world.process("placement", "leader"), await world.process("placement", "standby")
    _, term = await world.lease("placement")
    before = await world.generation()
    audit.mark()
    # The standby hears no bus, so it leads and writes nothing: what is late meets the object that it was planned from.
    async with _deaf(world.hands, standby), AsyncExitStack() as rest:
        held_up = await _hold_up(world, leader)
        told.lines.append(f"a PATCH of {held_up} bytes waits in the leader's kernel")
        await how(world.hands, leader)
        rest.push_async_callback(world.hands.end, "cut" if how is _cut else "pause", leader)
        began = time.monotonic()
        await until(lambda: _led_by(world, standby), "the standby leads")
        told.lines.append(f"the standby leads after {time.monotonic() - began:.1f} s")
        await world.hands.heal(leader, *API)
        if how is _cut:
            await world.hands.end("cut", leader)
        late = await until(lambda: _answered(audit, leader), "the late PATCH was answered")
        told.lines += [str(one) for one in late]
        told.wrong += [f"the API server let it in: {one}" for one in late if one.code < 300]
        # Of a leader that was cut off the connection has ended meanwhile, which the API server may see first.
        if how is _stop and not any("deposed" in one.message for one in late):
            told.wrong.append("it was not the fence that refused it")
        if (now := await world.generation()) != before:
            told.wrong.append(f"the DaemonSet's generation went from {before} to {now}")
    await world.settled(MOVER, world.source)
    await world.rested()
    written = [one for one in audit.writes() if one.code < 300]
    told.lines += [f"afterwards {one}" for one in written]
    if wrong := [str(one) for one in written if one.pod == leader.pod and one.answered < late[-1].answered]:
        told.wrong.append(f"the deposed leader wrote: {', '.join(wrong)}")
    _, now_term = await world.lease("placement")
    told.lines.append(f"terms {term} -> {now_term}, generation {before} -> {await world.generation()}")
    return told


@asynccontextmanager
async def _deaf(hands: Hands, standby: Process) -> AsyncIterator[None]:
    await hands.cut(standby, "nats")
    try:
        yield
    finally:
        await hands.heal(standby, "nats")


async def _hold_up(world: World, leader: Process) -> int:
    """Have the leader plan a move, and its PATCH wait in its kernel: how many bytes.

    A PATCH that finds no open connection fails at once, and nothing is late. The one that is open is taken every two
    seconds by the renewal of the Lease; so the move begins after one, and where that was not enough, once more.
    """
    for _ in range(ATTEMPTS):
        await world.cordon(world.target, cordoned=True)
        await world.send()
        await until(lambda: _waits(world), "the engine waits for its node")
        await _renewal(world)
        await world.hands.cut(leader, *API)
        await world.cordon(world.source, cordoned=False)
        deadline = time.monotonic() + SENT_WITHIN_S
        while time.monotonic() < deadline:
            if (held_up := await world.hands.unsent(leader)) > LEASE_BYTES:
                return held_up
        await world.hands.heal(leader, *API)
        await world.settled(MOVER, world.source)
    raise TimeoutError(f"in {ATTEMPTS} moves no PATCH of the leader found a connection that was open")


async def _waits(world: World) -> bool:
    return any("nodeName" not in pod["spec"] for pod in await world.engines(MOVER))


async def _renewal(world: World) -> None:
    """Wait until the Lease is renewed."""
    before = await world.renewed("placement")

    async def look() -> bool:
        return await world.renewed("placement") != before

    await until(look, "the Lease is renewed")


async def _led_by(world: World, process: Process) -> bool:
    return await world.holder("placement") == process.pod


async def _answered(audit: Audit, leader: Process) -> list[Write]:
    return await asyncio.to_thread(audit.writes, "daemonsets", leader.pod)
