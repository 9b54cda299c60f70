"""The last state of some subjects as rows, which knows when it does not know."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from kvberth.bus import decode
from kvberth.bus.changes import Changes
from kvberth.bus.connection import Connection
from kvberth.bus.consumer import Delivery
from kvberth.bus.context import BusContext
from kvberth.bus.decode import Row, Subject, Unreadable
from kvberth.bus.errors import BusError
from kvberth.bus.laststate import LastState
from kvberth.bus.participant import Participant
from kvberth.bus.session import Session
from kvberth.bus.streams import Streams
from kvberth.bus.terms import Terms
from kvberth_schemas.model import Want
from kvberth_schemas.subjects import EVENTS_STREAM, WANT_WRITERS, WantSubject

_LOOK_S = 1.0
"""How long what can't be read is looked at in a row."""
_EXPIRED = timedelta(hours=36)
"""The stream forgets after 24 h what was said at most 12 h after its time: a new reader would not find such a row."""


class View(Participant):
    """A reader of last states; use it with ``async with``."""

    def __init__(self, connection: Connection, streams: Streams, patterns: Sequence[str], context: BusContext) -> None:
        """Made by `Bus.view`."""
        super().__init__(connection)
        self._context = context
        self._reader = LastState(streams, patterns, self, context.metrics)
        self._rows: dict[Subject, Row] = {}
        self._unreadable: dict[Subject | str, str] = {}
        self._present: set[Subject | str] = set()
        self._terms = Terms()
        self._created: object = None
        self._complete = False
        self._changes = Changes()
        self._listeners: list[Callable[[Row], None]] = []
        self._heard = context.clock.monotonic()
        self.generation = 0
        """Grows whenever the view was dropped and is read anew."""

    @property
    def complete(self) -> bool:
        """Whether every last message of the present stream was delivered and none is known to be missing."""
        return self._complete and self._connection.connected

    @property
    def rows(self) -> Mapping[Subject, Row]:
        """The last readable messages, those that say gone included. Kept while incomplete; empty on a new stream."""
        return MappingProxyType(self._rows)

    @property
    def unreadable(self) -> Mapping[Subject | str, str]:
        """Subjects whose last message can't be read, and why: these things are Unknown, never absent."""
        return MappingProxyType(self._unreadable)

    @property
    def age_s(self) -> float:
        """Seconds since the stream's last sign of life."""
        return self._context.clock.monotonic() - self._heard

    async def changed(self, timeout_s: float) -> bool:
        """True once anything (rows, complete, unreadable) changed since the last return; False after `timeout_s`."""
        return await self._changes.wait(timeout_s)

    def reread(self) -> None:
        """Read everything anew, for an owner that waits for a purge: a view is told of none while it follows."""
        self._reader.reopen("its owner waits for a purge")

    def add_listener(self, callback: Callable[[Row], None]) -> None:
        """Call `callback` on the loop for each accepted row, in stream order; after a loss, rows come again."""
        self._listeners.append(callback)

    async def _work(self, session: Session) -> None:
        self._context.metrics.ages.add(self._age)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._reader.run(session, self._context.settings.heartbeat_s))
                group.create_task(self._tidy(session))
        finally:
            self._context.metrics.ages.remove(self._age)

    def _age(self) -> float:
        return self.age_s

    async def _tidy(self, session: Session) -> None:
        """Notice what leaves the stream without a word: unreadable messages that were removed, and rows too old."""
        while True:
            await asyncio.sleep(self._context.settings.created_check_s)
            with contextlib.suppress(BusError):  # asked again in some seconds
                await self._drop_removed(session)
            self._drop_expired()

    async def _drop_removed(self, session: Session) -> None:
        """Go round what can't be read, for a while each time: some may never be removed, and hold up no other."""
        until = self._context.clock.monotonic() + _LOOK_S
        for subject, sentence in list(self._unreadable.items()):
            if self._context.clock.monotonic() > until:
                return
            removed = await session.last_message(self._reader.stream, str(subject)) is None
            if self._unreadable.get(subject) is not sentence:
                continue  # another one came meanwhile
            del self._unreadable[subject]
            if removed:
                self._changes.mark()
            else:
                self._unreadable[subject] = sentence  # behind all others

    def _drop_expired(self) -> None:
        if self._reader.stream != EVENTS_STREAM:
            return
        oldest = self._context.clock.now() - _EXPIRED
        for subject in [subject for subject, row in self._rows.items() if row.envelope.time < oldest]:
            del self._rows[subject]
            self._changes.mark()

    def opening(self, created: object) -> None:
        """Start over; on another stream nothing of the old one counts."""
        self.generation += 1
        self._complete = False
        self._present.clear()
        if created != self._created:
            self._created = created
            self._rows.clear()
            self._unreadable.clear()
            self._terms.forget()
        self._changes.mark()

    def received(self, delivery: Delivery) -> None:
        """Take one message, or hold its thing Unknown."""
        found = decode.read(delivery.subject, delivery.headers, delivery.body, delivery.sequence)
        if not self._complete:
            self._present.add(found.subject)
        if isinstance(found, Unreadable):
            self._context.metrics.count("unreadable", found.reason)
            self._unreadable[found.subject] = found.sentence
            if not isinstance(found.subject, str):
                self._rows.pop(found.subject, None)
        elif self._outvoted(found):
            self._context.metrics.count("outvoted")
            return
        else:
            self._unreadable.pop(found.subject, None)
            self._rows[found.subject] = found
            for listener in self._listeners:
                listener(found)
        self._changes.mark()

    def heard(self) -> None:
        """The stream lives."""
        self._heard = self._context.clock.monotonic()

    def caught_up(self) -> None:
        """Drop what the stream no longer has, and be complete."""
        for subject in self._rows.keys() - self._present:
            del self._rows[subject]
        for text in self._unreadable.keys() - self._present:
            del self._unreadable[text]
        self._complete = True
        self._changes.mark()

    def lost(self) -> None:
        """Be incomplete at once."""
        if self._complete:
            self._complete = False
            self._changes.mark()

    def _outvoted(self, row: Row) -> bool:
        if not isinstance(row.message, Want) or not isinstance(row.subject, WantSubject):
            return False
        return not self._terms.accepts(WANT_WRITERS[row.subject.what], row.sequence, row.message.term)
