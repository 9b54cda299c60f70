"""Makes the stream say what its owner desires, and keeps it so: the reconciling writer of state subjects.

The owner puts the desired last message of each subject; the writer reads what the stream has, says what differs, and
overwrites at once whatever it did not write. Nothing is said before the stream has been read.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from kvberth.bus.changes import Changes
from kvberth.bus.connection import Connection, Participant, Pause
from kvberth.bus.consumer import Delivery
from kvberth.bus.context import BusContext
from kvberth.bus.decode import TERM, Row, check_kind
from kvberth.bus.errors import (
    BodyTooLong,
    BusError,
    BusTimeout,
    NotOurs,
    StreamMissing,
    WrongSequence,
)
from kvberth.bus.laststate import LastState
from kvberth.bus.patterns import covers
from kvberth.bus.reconcile import Absent, Action, Found, Policy, Statement, judge
from kvberth.bus.session import Session
from kvberth.bus.slots import Slot, Slots
from kvberth.bus.streams import Streams
from kvberth_schemas.envelope import MAX_BODY_BYTES, Envelope
from kvberth_schemas.model import Event, Want
from kvberth_schemas.registry import encode
from kvberth_schemas.subjects import EventSubject, WantSubject

_log = structlog.stdlib.get_logger(__name__)

_WORKERS = 16
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_PURGE_S = 15.0
_CALM_OVERWRITES = 3
_MOST_WAIT_S = 5.0

GoneMaker = Callable[[Row], Event | None]


@dataclass(frozen=True, slots=True)
class Writing:
    """What a writer is made for."""

    patterns: tuple[str, ...]
    absent: Absent
    gone: GoneMaker | None = None
    """For `Absent.GONE`: makes the event that says that a found row's thing is gone; None leaves the row alone."""


class Writer(Participant):
    """The writer of some subjects; use it with ``async with``."""

    def __init__(self, connection: Connection, streams: Streams, writing: Writing, context: BusContext) -> None:
        """Made by `Bus.writer`."""
        super().__init__(connection)
        if (writing.absent is Absent.GONE) != (writing.gone is not None):
            raise BusError("a writer with Absent.GONE, and only that, needs a `gone` that makes the event to say")
        self._streams = streams
        self._writing = writing
        self._context = context
        self._reader = LastState(streams, writing.patterns, self, context.metrics)
        self._slots = Slots()
        self._read = asyncio.Event()
        self._created: object = None
        self._highest = 0
        self._ready = False
        self._deposed = False
        self._changes = Changes()

    # --- the owner's side ---------------------------------------------------------------------------------------------

    @property
    def deposed(self) -> bool:
        """Whether a writer with a higher term spoke on one of our subjects: this one says nothing more."""
        return self._deposed

    @property
    def reconciled(self) -> bool:
        """Whether the present stream was read, everything known was put, and no other writer has taken over."""
        return self._read.is_set() and self._ready and not self._deposed and self._connection.connected

    @property
    def complete(self) -> bool:
        """Whether the stream holds exactly what is desired: reconciled, and nothing is outstanding."""
        return self.reconciled and self._slots.outstanding == 0

    def put(
        self,
        subject: EventSubject | WantSubject,
        message: Event | Want,
        *,
        cause: str | None = None,
        traceparent: str | None = None,
    ) -> str:
        """Set the desired last message of a subject; never blocks.

        Unchanged content is a no-op that gives the id it has. The id that a new content gets may change once: when the
        stream turns out to hold the same content already, or had to be told again.

        Raises:
            NotOurs: the subject is not covered by this writer's patterns, or the message is about something else.
            BodyTooLong: the body has more than `MAX_BODY_BYTES`.
        """
        text, body = str(subject), encode(message)
        self._check(subject, message, body)
        slot = self._slots[text]
        known = slot.desired or self._stored(slot)
        if known is not None and known.envelope.type == message.ce_type and known.body == body:
            if slot.desired is None:
                slot.desired, slot.farewell = known, None
                self._slots.mark(text)
            return known.envelope.id
        envelope = self._envelope(text, message.ce_type, cause, traceparent)
        slot.desired, slot.farewell, slot.attempted = Statement(envelope, body), None, False
        self._slots.mark(text)
        return envelope.id

    def forget(self, subject: EventSubject | WantSubject) -> None:
        """Desire nothing of a subject any more. With `Absent.GONE`, what is found there is then said to be gone."""
        slot = self._slots[str(subject)]
        slot.desired, slot.attempted = None, False
        self._slots.mark(str(subject))

    async def purge(self, subject: EventSubject | WantSubject) -> None:
        """Remove a subject's messages from the stream, and forget it.

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
        """Everything that is known has been put: from now on what is not desired is gone, and this can be complete."""
        if not self._ready:
            self._ready = True
            self._mark_all()
            self._changes.mark()

    async def flushed(self, timeout_s: float) -> bool:
        """Wait until everything put so far is acknowledged; False if that takes longer."""
        return await self.acknowledged(self._slots.number, timeout_s)

    async def acknowledged(self, number: int, timeout_s: float) -> bool:
        """Wait until the change with this number and all before it are acknowledged."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._read.is_set() or self._slots.acknowledged < number:
                    await self._changes.wait(timeout_s)
        except TimeoutError:
            return False
        return True

    @property
    def number(self) -> int:
        """Number of the newest change, for `acknowledged`."""
        return self._slots.number

    async def changed(self, timeout_s: float) -> bool:
        """True once anything (complete, deposed, what is acknowledged) may have changed; False after `timeout_s`."""
        return await self._changes.wait(timeout_s)

    # --- what the stream says -----------------------------------------------------------------------------------------

    def opening(self, created: object) -> None:
        """Nothing is known; on another stream nothing of the old one counts."""
        self._read.clear()
        self._created = created
        self._highest = 0
        for subject in self._slots:
            self._slots[subject].found = None
        self._changes.mark()

    def received(self, delivery: Delivery) -> None:
        """Take a last message; what we did not write and do not want is overwritten at once."""
        slot = self._slots[delivery.subject]
        if slot.found is not None and slot.found.sequence >= delivery.sequence:
            return
        slot.found = Found.of(delivery)
        if self._read.is_set() and self._judge(slot) is not Action.NOTHING:
            self._context.metrics.count("overwritten")
            self._slots.mark(delivery.subject)

    def heard(self) -> None:
        """Nothing to do."""

    def caught_up(self) -> None:
        """Compare everything, and start to speak."""
        self._read.set()
        self._mark_all()
        self._changes.mark()

    def lost(self) -> None:
        """Say nothing before the stream is read anew."""
        self._read.clear()
        self._changes.mark()

    # --- work ---------------------------------------------------------------------------------------------------------

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
        pause = Pause(first_s=0.02)
        while True:
            await self._read.wait()
            subject, slot = await self._slots.take()
            try:
                finished = self._read.is_set() and await self._settle(session, subject, slot)
            except BusError as error:
                self._note(error)
                self._slots.give_back(subject)
                await asyncio.sleep(pause.next())
                continue
            except BaseException:
                self._slots.give_back(subject)
                raise
            self._slots.done(subject) if finished else self._slots.give_back(subject)
            self._changes.mark()

    def _note(self, error: BusError) -> None:
        self._context.metrics.count("retries", type(error).__name__)
        if isinstance(error, StreamMissing):
            self._streams.ask()
        elif not isinstance(error, BusTimeout):
            _log.warning("not said", error=str(error))

    async def _settle(self, session: Session, subject: str, slot: Slot) -> bool:
        """Make one subject as desired; False if the stream has to be read first."""
        while True:
            action = self._judge(slot)
            statement = self._statement(slot, action)
            if action is Action.YIELD:
                self._depose(subject)
            if action is Action.REMOVE and slot.found is not None:
                await session.purge(self._reader.stream, subject)
                slot.found = None
            if statement is None or self._deposed:
                return True
            await self._calm(slot)
            try:
                return await self._say(session, subject, slot, statement)
            except WrongSequence:
                self._context.metrics.count("conflicts")
                await self._look(session, subject, slot)

    def _judge(self, slot: Slot) -> Action:
        desired = slot.desired or slot.farewell
        settings = self._context.settings
        policy = Policy(settings.term, self._writing.absent, self._ready, timedelta(seconds=settings.stale_after_s))
        return judge(desired, slot.found, policy, self._context.clock.now(), attempted=slot.attempted)

    def _statement(self, slot: Slot, action: Action) -> Statement | None:
        """What is to be said now, kept in the slot so that a retry says it under the same id."""
        now, new_id = self._context.clock.now(), self._context.clock.new_id
        desired = slot.desired or slot.farewell
        if action is Action.SAY_GONE and slot.found is not None and slot.found.row is not None and self._writing.gone:
            event = self._writing.gone(slot.found.row)
            if event is None:
                return None
            subject = str(slot.found.row.subject)
            slot.farewell = Statement(self._envelope(subject, event.ce_type, None, None), encode(event))
            slot.attempted = False
            return slot.farewell
        if desired is None:
            return None
        if action is Action.ADOPT and slot.found is not None and slot.found.envelope is not None:
            self._keep(slot, replace(desired, envelope=slot.found.envelope))
        if action in (Action.SAY_AGAIN, Action.REFRESH):
            time = now if action is Action.REFRESH else desired.envelope.time
            desired = replace(desired, envelope=replace(desired.envelope, id=new_id(), time=time))
            self._keep(slot, desired)
            slot.attempted = False
        return desired if action in (Action.SAY, Action.SAY_AGAIN, Action.REFRESH) else None

    def _keep(self, slot: Slot, statement: Statement) -> None:
        if slot.desired is not None:
            slot.desired = statement
        else:
            slot.farewell = statement

    async def _say(self, session: Session, subject: str, slot: Slot, statement: Statement) -> bool:
        expected = slot.found.sequence if slot.found else 0
        created, highest = self._created, self._highest
        headers = statement.envelope.headers()
        headers |= {_EXPECTED: str(expected), TERM: str(self._context.settings.term)}
        before, slot.attempted = slot.attempted, True
        try:
            ack = await session.publish_stored(
                subject, statement.body, headers, self._context.settings.publish_timeout_s
            )
        except WrongSequence:
            slot.attempted = before  # it was refused for certain
            raise
        if created is not self._created or not self._read.is_set():
            return False
        if ack.duplicate:
            raise WrongSequence(f"{subject}: this id was stored before")
        if ack.seq <= highest:
            self._streams.ask()
            self._reader.reopen("acknowledged sequences fell: the stream is another one")
            return False
        self._highest = max(self._highest, ack.seq)
        self._context.metrics.count("published")
        self._take_over(subject, slot, Delivery(subject, headers, statement.body, ack.seq))
        return True

    def _take_over(self, subject: str, slot: Slot, delivery: Delivery) -> None:
        if slot.found is None or slot.found.sequence < delivery.sequence:
            slot.found = Found.of(delivery)
        elif self._judge(slot) is not Action.NOTHING:
            self._slots.mark(subject)

    async def _look(self, session: Session, subject: str, slot: Slot) -> None:
        raw = await session.last_message(self._reader.stream, subject)
        slot.found = (
            None if raw is None else Found.of(Delivery(subject, raw.headers or {}, raw.data or b"", raw.seq or 0))
        )

    async def _purge(self, subject: str) -> None:
        pause = Pause()
        while True:
            if await self._purged(subject):
                return
            await asyncio.sleep(pause.next())

    async def _purged(self, subject: str) -> bool:
        slot = self._slots[subject]
        if slot.busy:
            return False
        session = await self._connection.session()
        slot.busy = True
        try:
            async with session.lifetime.scope():
                await session.purge(self._reader.stream, subject)
        except BusError as error:
            self._note(error)
            return False
        else:
            slot.found = None
            return True
        finally:
            slot.busy = False
            self._slots.mark(subject)

    async def _calm(self, slot: Slot) -> None:
        """Do not fight with an equal writer as fast as the network allows."""
        foreign = slot.found is not None and slot.attempted
        slot.overwrites = slot.overwrites + 1 if foreign else max(0, slot.overwrites - 1)
        if slot.overwrites > _CALM_OVERWRITES:
            await asyncio.sleep(min(_MOST_WAIT_S, 0.05 * 2 ** (slot.overwrites - _CALM_OVERWRITES)))

    def _depose(self, subject: str) -> None:
        if not self._deposed:
            self._deposed = True
            _log.error("deposed", subject=subject, term=self._context.settings.term)

    def _mark_all(self) -> None:
        for subject in self._slots:
            if self._judge(self._slots[subject]) is not Action.NOTHING:
                self._slots.mark(subject)

    def _stored(self, slot: Slot) -> Statement | None:
        """What the stream says already, if it has been read and can be kept as it is."""
        found = slot.found
        if not self._read.is_set() or found is None or found.row is None or found.term > self._context.settings.term:
            return None
        return Statement(found.row.envelope, found.body)

    def _envelope(self, subject: str, ce_type: str, cause: str | None, traceparent: str | None) -> Envelope:
        context = self._context
        return Envelope(
            id=context.clock.new_id(),
            type=ce_type,
            source=context.settings.source,
            time=context.clock.now(),
            subject=subject,
            cause=cause,
            traceparent=traceparent or context.metrics.traceparent(),
        )

    def _check(self, subject: EventSubject | WantSubject, message: Event | Want, body: bytes) -> None:
        if not any(covers(pattern, str(subject)) for pattern in self._writing.patterns):
            raise NotOurs(f"{subject} is not written here; this writer has {', '.join(self._writing.patterns)}")
        try:
            check_kind(subject, message)
        except ValueError as error:
            raise NotOurs(str(error)) from error
        if len(body) > MAX_BODY_BYTES:
            raise BodyTooLong(f"{subject}: the body has {len(body)} bytes; it would be {MAX_BODY_BYTES} at most")
