"""Signs of life on plain NATS: hears everybody's, and gives one's own."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import structlog
from nats.aio.msg import Msg

from kvberth.bus.background import Work
from kvberth.bus.changes import Changes
from kvberth.bus.connection import Connection
from kvberth.bus.context import BusContext
from kvberth.bus.participant import Participant
from kvberth.bus.pulses import Pair, Pulses
from kvberth.bus.session import Session
from kvberth.bus.skews import Skews, sentence
from kvberth.bus.streams import Streams
from kvberth.bus.writer import Writer
from kvberth_schemas.alive import ALIVE_PERIOD_S, Alive
from kvberth_schemas.registry import encode
from kvberth_schemas.subjects import ALIVE_PATTERN, AliveSubject, Service

_TICK_S = 0.2

_log = structlog.stdlib.get_logger(__name__)


class Liveness(Participant):
    """Hears who is alive; use it with ``async with``."""

    def __init__(self, connection: Connection, streams: Streams, context: BusContext) -> None:
        """Made by `Bus.liveness`."""
        super().__init__(connection)
        self._streams = streams
        self._context = context
        self._pulses = Pulses()
        self._skews = Skews()
        self._skewed: frozenset[AliveSubject] = frozenset()
        self._changes = Changes()
        self._fresh: frozenset[Pair] = frozenset()

    def fresh(self, service: Service, node: str | None = None) -> bool:
        """Whether an instance said within `FRESH_FOR_S` that everything it says is in the stream that we read, too."""
        return self._pulses.is_fresh((service, node), self._streams.events_created, self._now())

    def age_s(self, service: Service, node: str | None = None) -> float | None:
        """Seconds since it last said so; None: never, or about another stream."""
        return self._pulses.age_s((service, node), self._streams.events_created, self._now())

    def heard_s(self, service: Service, node: str | None = None) -> float | None:
        """Seconds since the last sign of life, complete or not; None: never, or not for an hour."""
        return self._pulses.heard_s((service, node), self._now())

    def nodes(self, service: Service) -> frozenset[str]:
        """The nodes from which a service was heard within the last hour."""
        return self._pulses.nodes(service)

    @property
    def skews(self) -> Mapping[AliveSubject, float]:
        """Seconds by which others' clocks are far ahead of this one's (behind: below 0), after three signs of life."""
        return self._skews.told()

    async def changed(self, timeout_s: float) -> bool:
        """True once a pair became fresh or stale since the last return; False after `timeout_s`."""
        return await self._changes.wait(timeout_s)

    async def _work(self, session: Session) -> None:
        self._context.metrics.skews.add(self._farthest)
        try:
            async with session.subscription(ALIVE_PATTERN, self._hear):
                await asyncio.get_running_loop().create_future()
        finally:
            self._context.metrics.skews.remove(self._farthest)

    def _tasks(self) -> Sequence[Work]:
        return [*super()._tasks(), self._tick]

    async def _hear(self, message: Msg) -> None:
        try:
            subject = AliveSubject.parse(message.subject)
            alive = Alive.model_validate_json(message.data)
        except ValueError:  # pydantic's ValidationError is one
            self._context.metrics.count("unreadable", "alive")
            return
        if alive.stream_created is not None and alive.stream_created != self._streams.events_created:
            self._streams.ask()
        self._pulses.hear(subject, alive, self._now())
        if alive.said is not None:
            self._skews.hear(subject, alive.said, self._context.clock.now(), self._now())
        self._compare()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._pulses.forget(self._now())
            self._skews.forget(self._now())
            self._compare()
            self._tell_skews()

    def _compare(self) -> None:
        fresh = self._pulses.fresh(self._streams.events_created, self._now())
        if fresh != self._fresh:
            self._fresh = fresh
            self._changes.mark()

    def _tell_skews(self) -> None:
        skews = self._skews.told()
        for subject in skews.keys() - self._skewed:
            _log.warning(sentence(subject, skews[subject]))
        self._skewed = frozenset(skews)

    def _farthest(self) -> float:
        return max(map(abs, self._skews.told().values()), default=0.0)

    def _now(self) -> float:
        return self._context.clock.monotonic()


class Heart(Participant):
    """Says each second that its service is alive, but only once everything said before is stored."""

    def __init__(
        self,
        connection: Connection,
        streams: Streams,
        context: BusContext,
        *,
        writers: Sequence[Writer] = (),
        complete: Callable[[], bool] = lambda: True,
    ) -> None:
        """Made by `Bus.heart`."""
        super().__init__(connection)
        self._streams = streams
        self._context = context
        self._writers = tuple(writers)
        self._complete = complete

    async def _work(self, session: Session) -> None:
        settings = self._context.settings
        subject = str(AliveSubject(settings.service, settings.instance, settings.node))
        loop = asyncio.get_running_loop()
        while True:
            next_beat = loop.time() + ALIVE_PERIOD_S
            if await self._acknowledged():
                await session.publish(subject, encode(self._beat()))
            await asyncio.sleep(max(0.0, next_beat - loop.time()))

    async def _acknowledged(self) -> bool:
        """Wait until everything that was put before this moment is stored."""
        if any(writer.deposed or not writer.reconciled for writer in self._writers):
            return True  # nothing is promised then: the beat says incomplete
        numbers = [writer.number for writer in self._writers]
        waits = [
            writer.acknowledged(number, ALIVE_PERIOD_S) for writer, number in zip(self._writers, numbers, strict=True)
        ]
        return all(await asyncio.gather(*waits))

    def _beat(self) -> Alive:
        created = self._streams.events_created
        complete = created is not None and all(writer.reconciled for writer in self._writers) and self._complete()
        said = self._context.clock.now()
        return Alive(term=self._context.settings.term, complete=complete, stream_created=created, said=said)
