"""What a writer knows and decides: its owner's wishes against what the stream says. No I/O.

The stream's side comes as calls of a `laststate.Sink`; the writer asks `next_statement` and reports acknowledgements.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from kvberth.bus.author import Author
from kvberth.bus.changes import Changes
from kvberth.bus.consumer import Delivery
from kvberth.bus.context import BusContext
from kvberth.bus.decode import Row, Subject
from kvberth.bus.errors import NotOurs
from kvberth.bus.patterns import covers
from kvberth.bus.reconcile import Absent, Action, Found, Policy, Statement, judge
from kvberth.bus.slots import Slot, Slots
from kvberth_schemas.envelope import TERM
from kvberth_schemas.model import Event, Want

_log = structlog.stdlib.get_logger(__name__)

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"

GoneMaker = Callable[[Row], Event | None]


@dataclass(frozen=True, slots=True)
class Writing:
    """What a writer is made for."""

    patterns: tuple[str, ...]
    absent: Absent
    gone: GoneMaker | None = None
    """For `Absent.GONE`: makes the event that says that a found row's thing is gone; None leaves the row alone."""
    found: Callable[[Row], None] = lambda _row: None
    """Gets every row that the stream is seen to hold, before anything is said over it; what we said comes, too."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to store a statement, and what was known when it began."""

    statement: Statement
    headers: dict[str, str]
    reading: int
    highest: int


class Ledger:
    """Everything about a writer's subjects but the sending."""

    def __init__(self, writing: Writing, context: BusContext) -> None:
        """Nothing is known, nothing is desired."""
        self.slots = Slots()
        self.read = asyncio.Event()
        """Set while the last state of all subjects is known."""
        self.ready = False
        self.deposed = False
        self.changes = Changes()
        self._writing = writing
        self._context = context
        self._author = Author(context)
        self._created: object = None
        self._reading = 0
        self._highest = 0

    # The owner's side.

    def put(self, subject: Subject, message: Event | Want, cause: str | None, traceparent: str | None) -> str:
        """Set what is desired of a subject, and give its id; see `Writer.put`."""
        text = str(subject)
        if not any(covers(pattern, text) for pattern in self._writing.patterns):
            raise NotOurs(f"{text} is not written here; this writer has {', '.join(self._writing.patterns)}")
        statement = self._author.state(subject, message, cause, traceparent)
        slot = self.slots[text]
        if slot.desired is not None and _same(slot.desired, statement):
            return slot.desired.envelope.id
        found = slot.found if self.read.is_set() else None
        if found is not None and found.row is not None and found.says(statement):
            statement = Statement(found.row.envelope, found.body)  # said already: keep its id
        slot.desired, slot.farewell, slot.attempted = statement, None, None
        self.slots.mark(text)
        return statement.envelope.id

    def forget(self, subject: Subject) -> None:
        """Desire nothing of a subject any more."""
        slot = self.slots[str(subject)]
        slot.desired, slot.attempted = None, None
        self.slots.mark(str(subject))

    def be_ready(self) -> None:
        """Everything that is known has been put."""
        if not self.ready:
            self.ready = True
            self._compare()

    # The stream's side.

    def opening(self, created: object) -> None:
        """Nothing is known; on another stream nothing of the old one counts."""
        self.read.clear()
        self.slots.forget_found(another_stream=created != self._created)
        self._created, self._highest = created, 0
        self._reading += 1
        self.changes.mark()

    def received(self, delivery: Delivery) -> None:
        """Take a last message; what was not said by us and is not desired is overwritten at once."""
        slot = self.slots[delivery.subject]
        if slot.found is not None and slot.found.sequence >= delivery.sequence:
            return
        slot.found = Found.of(delivery)
        if slot.found.row is not None:
            self._writing.found(slot.found.row)
        if self.read.is_set() and slot.oldest is None and self.judge(slot) is not Action.NOTHING:
            self._overwritten(delivery.subject, slot)

    def heard(self) -> None:
        """Nothing to do."""

    def caught_up(self) -> None:
        """Compare everything, and let the writer speak."""
        self.read.set()
        self._compare()

    def lost(self) -> None:
        """Nothing is known any more."""
        self.read.clear()
        self.changes.mark()

    # The sending side.

    def judge(self, slot: Slot) -> Action:
        """What is to be done about a subject."""
        settings = self._context.settings
        policy = Policy(settings.term, self._writing.absent, self.ready, timedelta(seconds=settings.stale_after_s))
        return judge(slot.case, policy, self._context.clock.now())

    def next_statement(self, slot: Slot, action: Action) -> Statement | None:
        """What is to be said now, if anything; kept in the slot, so that a retry says it under the same id."""
        statement = slot.case.desired
        if action is Action.SAY_GONE:
            return self._farewell(slot)
        if statement is None:
            return None
        if action is Action.ADOPT and slot.found is not None and slot.found.envelope is not None:
            _keep(slot, Statement(slot.found.envelope, statement.body))
        if action is Action.SAY:
            return statement
        if action in (Action.SAY_AGAIN, Action.REFRESH):
            renew = self._author.again if action is Action.SAY_AGAIN else self._author.refreshed
            return _keep(slot, renew(statement))
        return None

    def attempt(self, slot: Slot, statement: Statement) -> Attempt:
        """Begin to send: from now on the statement may be stored."""
        slot.attempted = slot.case.sequence
        headers = statement.envelope.headers()
        headers |= {_EXPECTED: str(slot.case.sequence), TERM: str(self._context.settings.term)}
        return Attempt(statement, headers, self._reading, self._highest)

    def superseded(self, attempt: Attempt) -> bool:
        """Whether the stream was read anew since: an acknowledgement may belong to the one before."""
        return attempt.reading != self._reading or not self.read.is_set()

    def fell(self, attempt: Attempt, sequence: int) -> bool:
        """Whether an acknowledged sequence is none that the stream we know could give: it is another stream."""
        self._highest = max(self._highest, sequence)
        return sequence <= attempt.highest

    def stored(self, subject: str, slot: Slot, attempt: Attempt, sequence: int) -> None:
        """The attempt is acknowledged."""
        if slot.found is None or slot.found.sequence < sequence:
            slot.found = Found.of(Delivery(subject, attempt.headers, attempt.statement.body, sequence))
        if slot.farewell is attempt.statement:
            slot.farewell = None  # said: from now on it may fade out of the stream
        if slot.found.sequence > sequence and self.judge(slot) is not Action.NOTHING:
            self._overwritten(subject, slot)

    def depose(self, subject: str) -> None:
        """Somebody with a higher term speaks: be silent."""
        if not self.deposed:
            self.deposed = True
            _log.error("deposed", subject=subject, term=self._context.settings.term)

    def _overwritten(self, subject: str, slot: Slot) -> None:
        self._context.metrics.count("overwritten")
        slot.troubles += 2
        self.slots.mark(subject)

    def _farewell(self, slot: Slot) -> Statement | None:
        if slot.found is None or slot.found.row is None or self._writing.gone is None:
            return None
        event = self._writing.gone(slot.found.row)
        if event is None:
            return None
        slot.farewell, slot.attempted = self._author.state(slot.found.row.subject, event), None
        return slot.farewell

    def _compare(self) -> None:
        for subject in self.slots:
            if self.judge(self.slots[subject]) is not Action.NOTHING:
                self.slots.mark(subject)
        self.changes.mark()


def _same(one: Statement, other: Statement) -> bool:
    return one.envelope.type == other.envelope.type and one.body == other.body


def _keep(slot: Slot, statement: Statement) -> Statement:
    slot.attempted = None
    if slot.desired is not None:
        slot.desired = statement
    else:
        slot.farewell = statement
    return statement
