"""Decides what a writer says about one subject: desired × found → what to do. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kvberth.bus import decode
from kvberth.bus.consumer import Delivery
from kvberth.bus.decode import TERM, Row
from kvberth_schemas.envelope import Envelope, EnvelopeError
from kvberth_schemas.model import Want


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
        return cls(delivery.sequence, delivery.body, envelope, _term(delivery, row), row)

    @property
    def gone(self) -> bool:
        """Whether it says that the thing is gone."""
        return self.row is not None and decode.says_gone(self.row.envelope.type)


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
    """Say the statement under a new id, since the stream may know its id already."""
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


def judge(desired: Statement | None, found: Found | None, policy: Policy, now: datetime, *, attempted: bool) -> Action:
    """Decide about one subject; `attempted`: the statement may have been stored before."""
    if found is not None and found.term > policy.term:
        return Action.YIELD
    if desired is None:
        return _judge_undesired(found, policy)
    if found is None or found.envelope is None or not _same(desired, found):
        return Action.SAY_AGAIN if attempted else Action.SAY
    if now - found.envelope.time > policy.stale_after:
        return Action.REFRESH
    return Action.NOTHING if found.envelope.id == desired.envelope.id else Action.ADOPT


def _judge_undesired(found: Found | None, policy: Policy) -> Action:
    if found is None or found.gone or policy.absent is Absent.KEEP or not policy.ready:
        return Action.NOTHING
    return Action.SAY_GONE if found.row is not None else Action.REMOVE


def _same(desired: Statement, found: Found) -> bool:
    # A row that can't be read here is not the same, whatever its bytes: its headers may be what is wrong.
    return found.row is not None and found.row.envelope.type == desired.envelope.type and found.body == desired.body


def _term(delivery: Delivery, row: Row | None) -> int:
    if row is not None and isinstance(row.message, Want):
        return row.message.term
    text = delivery.headers.get(TERM, "")
    return int(text) if text.isascii() and text.isdigit() else 0
