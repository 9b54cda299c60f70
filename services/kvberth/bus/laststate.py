"""Reads the last state of some subjects, and then what follows, over every kind of loss.

Opens its consumer anew on a gap, on a recreated stream and when its owner asks; a new session starts it again from its
beginning. What the messages mean is the sink's business.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from kvberth.bus.consumer import Delivery, Filter, open_consumer
from kvberth.bus.errors import BusError, StreamMissing
from kvberth.bus.lifetime import Lifetime
from kvberth.bus.metrics import Metrics
from kvberth.bus.patterns import stream_of
from kvberth.bus.pause import Pause
from kvberth.bus.session import Session
from kvberth.bus.streams import Streams

_log = structlog.stdlib.get_logger(__name__)

_AT_ONCE_S = 0.02  # still lets several reasons to open anew become one


class Sink(Protocol):
    """Who takes what is read; all calls come on the loop, in stream order."""

    def opening(self, created: object) -> None:
        """A read from the beginning starts, on the stream with this creation time."""

    def received(self, delivery: Delivery) -> None:
        """A subject's last message, or a newer one."""

    def heard(self) -> None:
        """The stream gave a sign of life."""

    def caught_up(self) -> None:
        """Everything that the stream held was received since `opening`."""

    def lost(self) -> None:
        """Nothing is known to be up to date any more, until the next `caught_up`."""


class LastState:
    """The reading of some patterns of one stream."""

    def __init__(self, streams: Streams, patterns: Sequence[str], sink: Sink, metrics: Metrics) -> None:
        """All patterns belong to one stream."""
        self.stream = stream_of(patterns)
        self._streams = streams
        self._patterns = tuple(patterns)
        self._sink = sink
        self._metrics = metrics
        self._reading = Lifetime()
        self._created: object = None

    def reopen(self, why: str) -> None:
        """Read everything anew."""
        self._reading.end(why)

    async def run(self, session: Session, heartbeat_s: float) -> None:
        """Read until cancelled."""
        pause = Pause()
        self._streams.on_change(self._stream_changed)
        try:
            while True:
                self._created = await self._streams.known(self.stream)
                self._reading = Lifetime()
                try:
                    async with self._reading.scope():
                        await self._read(session, heartbeat_s)
                except Lifetime.Ended as error:
                    self._lose(error)
                    await asyncio.sleep(_AT_ONCE_S)
                except BusError as error:
                    self._lose(error)
                    await asyncio.sleep(pause.next())
        finally:
            self._streams.off_change(self._stream_changed)
            self._sink.lost()

    def _lose(self, error: BusError) -> None:
        self._sink.lost()
        self._metrics.count("opened", type(error).__name__)
        _log.info("reading anew", stream=self.stream, why=str(error))
        if isinstance(error, StreamMissing):
            self._streams.ask()

    def _stream_changed(self) -> None:
        if self._streams.created(self.stream) != self._created:
            self.reopen("the stream is another one than the one that was read")

    async def _read(self, session: Session, heartbeat_s: float) -> None:
        self._sink.opening(self._created)
        told = False
        async with open_consumer(session, Filter(stream=self.stream, patterns=self._patterns), heartbeat_s) as consumer:
            while True:
                if consumer.caught_up and not told:
                    told = True
                    self._sink.caught_up()
                delivery = await consumer.next()
                self._sink.heard()
                if delivery is not None:
                    self._sink.received(delivery)
