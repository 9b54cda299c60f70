"""A keeper on a real directory, with every event it says and when: no bus, all else is real."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from opentelemetry.trace import get_current_span

from kvberth.node_agent.sockets.keeper import Keeper, KeeperSettings
from kvberth.node_agent.sockets.plan import CacheKey, DirWant
from kvberth.node_agent.sockets.watcher import Pace, Surroundings
from kvberth.node_agent.sockets.watches import open_watches

K = CacheKey("default", "k")


@dataclass
class Heard:
    """What was said, newest last."""

    events: list = field(default_factory=list)
    causes: list = field(default_factory=list)
    times: list = field(default_factory=list)
    spans: list = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def speak(self, event, cause, traceparent):
        self.events.append(event)
        self.causes.append((cause, traceparent))
        self.times.append(time.monotonic())
        self.spans.append(get_current_span().get_span_context().span_id)
        self._news.set()

    @property
    def words(self):
        """In short: verb, and the reason or incarnation."""
        return [_word(event) for event in self.events]

    async def until(self, condition, seconds=10.0):
        """Wait until the condition holds for the newest event, and return that."""
        try:
            async with asyncio.timeout(seconds):
                while not (self.events and condition(self.events[-1])):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not said within {seconds} s; said was {self.events}") from None
        return self.events[-1]

    async def until_word(self, word, seconds=10.0):
        return await self.until(lambda event: _word(event) == word, seconds)


def _word(event):
    verb = event.ce_type.split(".")[2]
    return {"ready": lambda: f"ready {event.incarnation}", "lost": lambda: f"lost {event.reason}"}.get(
        verb, lambda: verb
    )()


@dataclass
class Agent:
    """A running keeper on a root of its own."""

    keeper: Keeper
    heard: Heard
    root: Path

    def want(self, state="keep", key=K, mode=0o700, id_=None):
        """Apply one want."""
        id_ = id_ or f"want-{time.monotonic_ns()}"
        self.keeper.apply({key: DirWant(id_, state, mode, None, "trace-1")})
        return id_

    @property
    def directory(self):
        return self.root / K.namespace / K.kvcache

    @property
    def socket(self):
        return self.directory / "vineyard.sock"


@asynccontextmanager
async def running_agent(
    root, pace=None, empty_after_s=60.0, lagged=lambda _seconds: False, handling=None
) -> AsyncIterator[Agent]:
    heard = Heard()
    async with open_watches() as watches, asyncio.TaskGroup() as group:
        around = Surroundings(watches=watches, pace=pace or Pace(), lagged=lagged)
        settings = KeeperSettings(node="l20-a", root=root, empty_after_s=empty_after_s)
        keeper = Keeper(settings, group, around, heard.speak, **({"handling": handling} if handling else {}))
        events = group.create_task(watches.run())
        try:
            yield Agent(keeper, heard, root)
        finally:
            events.cancel()
            keeper.stop()
