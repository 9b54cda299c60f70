"""Makes the stream say what its owner desires, and keeps it so: the reconciling writer of state subjects.

The owner puts the desired last message of each subject; the writer reads what the stream has, says what differs, and
overwrites at once whatever it did not write. Nothing is said before the stream has been read. What is decided stands in
`ledger` and `reconcile`; here is the sending.
"""

import asyncio

import structlog

from kvberth.bus.connection import Connection
from kvberth.bus.consumer import Delivery
from kvberth.bus.context import BusContext
from kvberth.bus.errors import BusError, BusTimeout, StreamMissing, WrongSequence
from kvberth.bus.laststate import LastState
from kvberth.bus.ledger import Attempt, Ledger, Writing
from kvberth.bus.participant import Participant
from kvberth.bus.pause import Pause
from kvberth.bus.reconcile import Absent, Action, Found, Statement
from kvberth.bus.session import Session
from kvberth.bus.slots import Slot
from kvberth.bus.streams import Streams
from kvberth_schemas.model import Event, Want
from kvberth_schemas.subjects import WANTS_STREAM, EventSubject, WantSubject

_log = structlog.stdlib.get_logger(__name__)

_WORKERS = 16
_PURGE_S = 15.0
_TOLD_AFTER = 3
"""A missing answer is common around a lost connection; so many in a row are not: a full disk shows in nothing else."""


class Writer(Participant):
    """The writer of some subjects; use it with ``async with``."""

    def __init__(self, connection: Connection, streams: Streams, writing: Writing, context: BusContext) -> None:
        """Made by `Bus.writer`."""
        super().__init__(connection)
        if (writing.absent is Absent.GONE) != (writing.gone is not None):
            raise BusError("a writer with Absent.GONE, and only that, needs a `gone` that makes the event to say")
        self._streams = streams
        self._context = context
        self._ledger = Ledger(writing, context)
        self._reader = LastState(streams, writing.patterns, self._ledger, context.metrics)

    @property
    def deposed(self) -> bool:
        """Whether a writer with a higher term spoke on one of our subjects: this one says nothing more."""
        return self._ledger.deposed

    @property
    def reconciled(self) -> bool:
        """Whether the present stream was read, everything known was put, and no other writer has taken over."""
        known = self._ledger.read.is_set() and self._connection.connected
        return known and self._ledger.ready and not self._ledger.deposed

    @property
    def complete(self) -> bool:
        """Whether the stream holds exactly what is desired: reconciled, and nothing is outstanding."""
        return self.reconciled and self._ledger.slots.outstanding == 0

    @property
    def unstored(self) -> int:
        """How many subjects a server that is connected did not store in three tries; above 0: it stores nothing."""
        return self._ledger.slots.unstored(_TOLD_AFTER) if self._connection.connected else 0

    @property
    def number(self) -> int:
        """Number of the newest change, for `acknowledged`."""
        return self._ledger.slots.number

    def put(
        self,
        subject: EventSubject | WantSubject,
        message: Event | Want,
        *,
        cause: str | None = None,
        traceparent: str | None = None,
    ) -> str:
        """Set the desired last message of a subject, and give its id; never blocks.

        Unchanged content is a no-op that gives the id it has. An id may still change once: when the stream turns out to
        hold the same content already, or when it has to be said again over somebody else's word.

        Raises:
            NotOurs: the subject is not covered by this writer's patterns, or the message is about something else.
            BodyTooLong: the body has more than `MAX_BODY_BYTES`.
        """
        return self._ledger.put(subject, message, cause, traceparent)

    def forget(self, subject: EventSubject | WantSubject) -> None:
        """Desire nothing of a subject any more. With `Absent.GONE`, what is found there is then said to be gone."""
        self._ledger.forget(subject)

    async def purge(self, subject: EventSubject | WantSubject) -> None:
        """Remove a want's messages from the stream, and forget it.

        Raises:
            BusTimeout: it could not be done within 15 s; the subject is forgotten and its messages are still there.
        """
        self.forget(subject)
        try:
            async with asyncio.timeout(_PURGE_S):
                await self._purge(str(subject))
        except TimeoutError as error:
            raise BusTimeout(f"{subject} could not be purged within {_PURGE_S} s") from error

    def ready(self) -> None:
        """Everything that is known has been put: only from now on can anything be gone, and this be complete."""
        self._ledger.be_ready()

    async def flushed(self, timeout_s: float) -> bool:
        """Wait until everything put so far is acknowledged; False if that takes longer, or never comes."""
        return await self.acknowledged(self.number, timeout_s)

    async def acknowledged(self, number: int, timeout_s: float) -> bool:
        """Wait until the change with this number and all before it are acknowledged."""
        ledger = self._ledger
        try:
            async with asyncio.timeout(timeout_s):
                while not (ledger.read.is_set() and ledger.slots.acknowledged >= number):
                    await ledger.changes.wait(timeout_s)
        except TimeoutError:
            return False
        return not ledger.deposed

    async def _work(self, session: Session) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reader.run(session, self._context.settings.heartbeat_s))
            group.create_task(self._reread())
            for _ in range(_WORKERS):
                group.create_task(self._speak(session))

    async def _reread(self) -> None:
        while True:
            await asyncio.sleep(self._context.settings.reconcile_s)
            self._reader.reopen("it is time to reconcile")

    async def _speak(self, session: Session) -> None:
        ledger = self._ledger
        while True:
            await ledger.read.wait()
            subject, slot = await ledger.slots.take()
            done = False
            try:
                done = ledger.read.is_set() and await self._settle(session, subject, slot)
            except BusError as error:
                slot.troubles += 1
                slot.unstored += isinstance(error, BusTimeout)
                self._note(error, subject, slot.troubles)
            finally:
                (ledger.slots.done if done else ledger.slots.give_back)(subject)
                ledger.changes.mark()

    async def _settle(self, session: Session, subject: str, slot: Slot) -> bool:
        """Make the stream say what is desired of one subject; False if the stream has to be read first."""
        while True:
            action = self._ledger.judge(slot)
            if action is Action.YIELD:
                self._ledger.depose(subject)
            if self._ledger.deposed:
                return True
            if action is Action.REMOVE:
                await session.purge(self._reader.stream, subject)
                slot.found = None
            statement = self._ledger.next_statement(slot, action)
            if statement is None:
                return True
            await self._make_room(session, slot)
            try:
                return await self._say(session, subject, slot, statement)
            except WrongSequence:
                self._context.metrics.count("conflicts")
                await self._look(session, subject, slot)

    async def _make_room(self, session: Session, slot: Slot) -> None:
        """Delete the want that is about to be overwritten.

        The server writes no word on disk about what it overwrites. Killed after the purge of a want, it would find on
        disk, and take for the last word, the one before (seen with nats-server 2.15: ended engines were started anew).
        A deletion is on disk. Events need none: what is behind an expired one has expired, too.
        """
        if slot.found is not None and self._reader.stream == WANTS_STREAM:
            await session.delete(self._reader.stream, slot.found.sequence)
            slot.found = None

    async def _say(self, session: Session, subject: str, slot: Slot, statement: Statement) -> bool:
        before = slot.attempted
        attempt = self._ledger.attempt(slot, statement)
        try:
            ack = await session.publish_stored(
                subject, statement.body, attempt.headers, self._context.settings.publish_timeout_s
            )
        except WrongSequence:
            slot.attempted = before  # refused for certain
            raise
        if self._ledger.superseded(attempt):
            return False
        if ack.duplicate:
            slot.attempted = -1  # stored once, and maybe purged or beneath another one since
            raise WrongSequence(f"{subject}: the id {statement.envelope.id} was stored before")
        return self._acknowledged(subject, slot, attempt, ack.seq)

    def _acknowledged(self, subject: str, slot: Slot, attempt: Attempt, sequence: int) -> bool:
        if self._ledger.fell(attempt, sequence):
            self._streams.ask()
            self._reader.reopen("acknowledged sequences fell: the stream is another one")
            return False
        self._context.metrics.count("published")
        self._ledger.stored(subject, slot, attempt, sequence)
        return True

    async def _look(self, session: Session, subject: str, slot: Slot) -> None:
        raw = await session.last_message(self._reader.stream, subject)
        found = None if raw is None else Delivery(subject, raw.headers or {}, raw.data or b"", raw.seq or 0)
        slot.found = None if found is None else Found.of(found)

    async def _purge(self, subject: str) -> None:
        pause = Pause()
        slots = self._ledger.slots
        while True:
            session = await self._connection.session()
            if slots.claim(subject):
                try:
                    async with session.lifetime.scope():
                        await session.purge(self._reader.stream, subject)
                except BusError as error:
                    self._note(error, subject, slots[subject].troubles)
                else:
                    slots[subject].found = None
                    return
                finally:
                    slots.give_back(subject)
            await asyncio.sleep(pause.next())

    def _note(self, error: BusError, subject: str, tries: int) -> None:
        self._context.metrics.count("retries", type(error).__name__)
        if isinstance(error, StreamMissing):
            self._streams.ask()
        elif tries == _TOLD_AFTER or not isinstance(error, BusTimeout):
            _log.warning("not stored; it is tried until it is", subject=subject, why=str(error))
