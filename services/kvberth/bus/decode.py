"""Reads one stored message: who said what about which thing, or why that can't be read. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kvberth_schemas import registry
from kvberth_schemas.envelope import MAX_BODY_BYTES, TERM, Envelope, EnvelopeError
from kvberth_schemas.model import Event, Message, Want
from kvberth_schemas.registry import DecodeError, UnknownTypeError
from kvberth_schemas.subjects import EventSubject, WantSubject

Subject = EventSubject | WantSubject

_TERM_DIGITS = 19  # a longer term is garbage, and would depose everybody for ever


class Reason(StrEnum):
    """Why a message can't be read."""

    OVERSIZED = "oversized"
    SUBJECT = "subject"
    ENVELOPE = "envelope"
    UNKNOWN_TYPE = "unknown_type"
    BODY = "body"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Row:
    """One subject's last message."""

    subject: Subject
    message: Event | Want
    envelope: Envelope
    """`envelope.id` is the id to name as cause, `envelope.traceparent` the span to continue."""
    sequence: int
    term: int = 0
    """Of its writer's life; 0 where none is said."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that can't be read, and why; `subject` stays text where even that is no subject of ours."""

    subject: Subject | str
    reason: Reason
    sentence: str


def parse_subject(text: str) -> Subject:
    """Read an event's or a want's subject.

    Raises:
        ValueError: it is neither.
    """
    try:
        return EventSubject.parse(text)
    except ValueError:
        return WantSubject.parse(text)


def check_subject(subject: Subject, message: Message) -> None:
    """Refuse a message that says something about another thing, or another kind of thing, than its subject.

    Raises:
        ValueError: it does.
    """
    if isinstance(subject, EventSubject):
        about: object = registry.ENTITIES.get(type(message)) if isinstance(message, Event) else None
        right: object = subject.entity
    else:
        about = registry.WANT_KINDS.get(type(message)) if isinstance(message, Want) else None
        right = subject.what
    if about != right:
        raise ValueError(f"a {type(message).__name__} was said on {subject}, which is for messages about a {right}")
    assert isinstance(message, Event | Want)  # nothing else is about anything
    for part, said in registry.address(message).items():
        if said != getattr(subject, part):
            raise ValueError(f"a {type(message).__name__} about the {part} {said!r} was said on {subject}")


def read(text: str, headers: Mapping[str, str], body: bytes, sequence: int) -> Row | Unreadable:
    """Read a message; never raises, whatever it holds."""
    try:
        subject = parse_subject(text)
    except ValueError as error:
        return Unreadable(text, Reason.SUBJECT, str(error))
    if len(body) > MAX_BODY_BYTES:
        sentence = f"the body has {len(body)} bytes; it would be {MAX_BODY_BYTES} at most"
        return Unreadable(subject, Reason.OVERSIZED, sentence)
    try:
        envelope = Envelope.from_headers(headers)
        message = registry.decode(envelope.type, body)
        check_subject(subject, message)
    except EnvelopeError as error:
        return Unreadable(subject, Reason.ENVELOPE, str(error))
    except UnknownTypeError as error:
        return Unreadable(subject, Reason.UNKNOWN_TYPE, str(error))
    except DecodeError as error:
        return Unreadable(subject, Reason.BODY, str(error))
    except ValueError as error:
        return Unreadable(subject, Reason.FOREIGN, str(error))
    return Row(subject, message, envelope, sequence, term_of(headers, message))


def term_of(headers: Mapping[str, str], message: Message | None = None) -> int:
    """Give the term that a message was said in: a want holds it, an event's headers do; 0 where there is none."""
    if isinstance(message, Want):
        return message.term
    text = headers.get(TERM, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < _TERM_DIGITS else 0


def says_gone(ce_type: str) -> bool:
    """Whether a type is the end of a thing: `kvberth.pod.gone.v1`, `kvberth.kvcache.status-gone.v1`."""
    verb = ce_type.rpartition(".")[0].rpartition(".")[2]
    return verb == "gone" or verb.endswith("-gone")
