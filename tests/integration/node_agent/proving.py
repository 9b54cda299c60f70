"""A health keeper on a real daemon's socket, with every event it says and when: no bus, all else is real."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kvberth.node_agent.evidence import MAX_LAG_S
from kvberth.node_agent.health.keeper import HealthKeeper
from kvberth.node_agent.health.metrics import ProofMetrics
from kvberth.node_agent.health.watcher import Pace
from kvberth.scenario.backend.fault_proxy import FaultProxy, dial_unix
from kvberth.service import Telemetry
from kvberth_schemas.events import SocketLostReason, SocketLostV1


@dataclass
class OwnLag:
    """The lag of our own loop as a test wants it."""

    lag: float = 0.0
    discarded: int = 0

    def lag_s(self, _seconds):
        return self.lag

    def lagged(self, _seconds):
        self.discarded += self.lag > MAX_LAG_S
        return self.lag > MAX_LAG_S


@dataclass
class Proving:
    """A running keeper that proves one cache."""

    keeper: HealthKeeper
    telemetry: Telemetry
    path: Path
    events: list = field(default_factory=list)
    times: list = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def speak(self, event):
        self.events.append(event)
        self.times.append(time.monotonic())
        self._news.set()

    @property
    def words(self):
        return [f"{event.verdict} {event.reason}" for event in self.events]

    async def until(self, word, seconds=10.0):
        """Wait until the newest word is that one; the event, and when it came."""
        try:
            async with asyncio.timeout(seconds):
                while not self.words or self.words[-1] != word:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not said within {seconds} s; said was {self.words}") from None
        return self.events[-1], self.times[-1]

    def follow(self):
        """As the word of `sockets` that something is there."""
        lost = SocketLostV1(
            cache="k",
            namespace="default",
            node="l20-a",
            path=str(self.path),
            reason=SocketLostReason.MISSING,
            message="",
        )
        self.keeper.follow(lost)

    def metric(self, name):
        """The sum of a metric's samples."""
        lines = self.telemetry.metrics_text().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


@asynccontextmanager
async def proving(path: Path, period_s=0.8) -> AsyncIterator[Proving]:
    telemetry = Telemetry("node_agent")
    said = []

    def speak(event):
        said[0].speak(event)

    async with asyncio.TaskGroup() as group:
        keeper = HealthKeeper(group, Pace(period_s=period_s), OwnLag(), speak, ProofMetrics(telemetry))
        said.append(Proving(keeper, telemetry, path))
        said[0].follow()
        try:
            yield said[0]
        finally:
            keeper.stop()
    telemetry.shutdown()


@asynccontextmanager
async def proxied(path: Path) -> AsyncIterator[FaultProxy]:
    """A fault proxy in the place of a daemon's socket."""
    real = path.with_name("real.sock")
    path.rename(real)  # a listener keeps listening under another name

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    async with FaultProxy(listener, lambda: dial_unix(real)) as proxy:
        yield proxy
    path.unlink()
    real.rename(path)
