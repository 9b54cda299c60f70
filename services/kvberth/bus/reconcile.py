"""Decides what a writer says about one subject: desired × found → what to do. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kvberth.bus import decode
from kvberth.bus.consumer import Delivery
from kvberth.bus.decode import Row
from kvberth_schemas.envelope import Envelope, EnvelopeError


class Absent(StrEnum):
    """What to do with a subject that is found and not desired."""

    GONE = "gone"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Statement:
    """What a writer wants to be the last message of a subject."""

    envelope: Envelope
    body: bytes


@dataclass(frozen=True, slots=True)
class Found:
    """The last message of a subject, as far as a writer needs it."""

    sequence: int
    body: bytes
    envelope: Envelope | None
    """None: it has no envelope of ours."""
    term: int
    row: Row | None
    """None: it can't be read."""

    @classmethod
    def of(cls, delivery: Delivery) -> "Found":
        """Look at a stored message."""
        read = decode.read(delivery.subject, delivery.headers, delivery.body, delivery.sequence)
        row = read if isinstance(read, Row) else None
        try:
            envelope = Envelope.from_headers(delivery.headers)
        except EnvelopeError:
            envelope = None
        term = decode.term_of(delivery.headers, row.message if row else None)
        return cls(delivery.sequence, delivery.body, envelope, term, row)

    @property
    def gone(self) -> bool:
        """Whether it says that the thing is gone."""
        return self.row is not None and decode.says_gone(self.row.envelope.type)

    def says(self, statement: Statement) -> bool:
        """Whether it says the same, under whatever id. What can't be read here says nothing, whatever its bytes."""
        same_type = self.row is not None and self.row.envelope.type == statement.envelope.type
        return same_type and self.body == statement.body


class Action(StrEnum):
    """What a writer does about a subject."""

    NOTHING = "nothing"
    YIELD = "yield"
    """A writer with a higher term speaks: never write again."""
    ADOPT = "adopt"
    """The same was said under another id: take that id over."""
    SAY = "say"
    """Say the statement under its id."""
    SAY_AGAIN = "say_again"
    """Say the statement under a new id: the old one may lie beneath what was found, and the stream would drop it."""
    REFRESH = "refresh"
    """As `SAY_AGAIN`, with the present time: the row would soon be forgotten by the stream."""
    SAY_GONE = "say_gone"
    """Say that the thing is gone."""
    REMOVE = "remove"
    """Remove a message that nobody can read from a subject of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a writer reconciles."""

    term: int
    absent: Absent
    ready: bool
    """Whether everything that is known has been put: only then is anything said to be gone."""
    stale_after: timedelta


@dataclass(frozen=True, slots=True)
class Case:
    """One subject as it stands."""

    desired: Statement | None
    found: Found | None
    attempted: int | None = None
    """The last sequence that was expected when `desired` was last sent; None: it never was."""

    @property
    def sequence(self) -> int:
        """Sequence of the subject's last message, 0 without one."""
        return self.found.sequence if self.found else 0


def judge(case: Case, policy: Policy, now: datetime) -> Action:
    """Decide about one subject."""
    desired, found = case.desired, case.found
    if found is not None and found.term > policy.term:
        return Action.YIELD
    if desired is None:
        return _judge_undesired(found, policy)
    if found is None or found.envelope is None or not found.says(desired):
        # Sent before, and the last message changed since: ours may be stored, beneath.
        return Action.SAY_AGAIN if case.attempted not in (None, case.sequence) else Action.SAY
    if now - found.envelope.time > policy.stale_after:
        return Action.REFRESH
    return Action.NOTHING if found.envelope.id == desired.envelope.id else Action.ADOPT


def _judge_undesired(found: Found | None, policy: Policy) -> Action:
    if found is None or found.gone or policy.absent is Absent.KEEP or not policy.ready:
        return Action.NOTHING
    return Action.SAY_GONE if found.row is not None else Action.REMOVE
