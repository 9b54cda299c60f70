"""Says what is no state but happened: the log entities. Every event is tried for a time, then dropped and counted."""

import asyncio
from collections import deque
from dataclasses import dataclass

import structlog

from kvberth.bus.author import Author
from kvberth.bus.connection import Connection
from kvberth.bus.context import BusContext
from kvberth.bus.errors import BusError, StreamMissing
from kvberth.bus.participant import Participant
from kvberth.bus.pause import Pause
from kvberth.bus.reconcile import Statement
from kvberth.bus.session import Session
from kvberth.bus.streams import Streams
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import EventSubject

_log = structlog.stdlib.get_logger(__name__)

_WAITING = 1024


@dataclass(frozen=True, slots=True)
class _Entry:
    statement: Statement
    deadline: float


class LogPublisher(Participant):
    """A bounded queue of log events, oldest dropped first; runs as long as its bus."""

    def __init__(self, connection: Connection, streams: Streams, context: BusContext) -> None:
        """Made by `Bus`."""
        super().__init__(connection)
        self._streams = streams
        self._context = context
        self._author = Author(context)
        self._entries: deque[_Entry] = deque()
        self._more = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many events are not stored yet."""
        return len(self._entries)

    def put(self, subject: EventSubject, event: Event, cause: str | None, tried_for_s: float) -> str:
        """Queue an event, to be tried for so many seconds, and give its id.

        Raises:
            NotOurs: the event is about something else.
            BodyTooLong: the body has more than `MAX_BODY_BYTES`.
        """
        statement = self._author.state(subject, event, cause)
        if len(self._entries) >= _WAITING:
            self._entries.popleft()
            self._context.metrics.count("dropped", "full")
        self._entries.append(_Entry(statement, self._context.clock.monotonic() + tried_for_s))
        self._more.set()
        return statement.envelope.id

    async def _work(self, session: Session) -> None:
        pause = Pause()
        while True:
            while not self._entries:
                self._more.clear()
                await self._more.wait()
            entry = self._entries[0]
            if self._context.clock.monotonic() > entry.deadline:
                self._context.metrics.count("dropped", "too_late")
                _log.warning(
                    "a log event was never stored", type=entry.statement.envelope.type, id=entry.statement.envelope.id
                )
                self._drop(entry)
                continue
            try:
                await self._publish(session, entry)
            except BusError as error:
                self._context.metrics.count("retries", type(error).__name__)
                if isinstance(error, StreamMissing):
                    self._streams.ask()
                await asyncio.sleep(min(1.0, pause.next()))
            else:
                self._drop(entry)

    async def _publish(self, session: Session, entry: _Entry) -> None:
        # The id is the message id, so that a retry of what was stored after all is dropped by the stream.
        envelope, timeout_s = entry.statement.envelope, self._context.settings.publish_timeout_s
        await session.publish_stored(envelope.subject, entry.statement.body, envelope.headers(), timeout_s)
        self._context.metrics.count("published")

    def _drop(self, entry: _Entry) -> None:
        # While it was being published, the queue may have dropped it as its oldest.
        if self._entries and self._entries[0] is entry:
            self._entries.popleft()
