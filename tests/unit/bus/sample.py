"""Messages and deliveries as the bus's unit tests need them."""

from datetime import UTC, datetime, timedelta

from kvberth.bus.consumer import Delivery
from kvberth.bus.reconcile import Found, Statement
from kvberth_schemas import subjects
from kvberth_schemas.envelope import TERM, Envelope
from kvberth_schemas.events import SocketGoneV1, SocketLostReason, SocketLostV1
from kvberth_schemas.model import Event
from kvberth_schemas.registry import encode

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SUBJECT = subjects.socket("a", "default", "kv")


def lost(message: str = "no socket") -> SocketLostV1:
    return SocketLostV1(
        cache="kv", namespace="default", node="a", path="/x", reason=SocketLostReason.MISSING, message=message
    )


def gone() -> SocketGoneV1:
    return SocketGoneV1(cache="kv", namespace="default", node="a")


def envelope(event: Event, name: str = "id-1", age_s: float = 0.0) -> Envelope:
    time = NOW - timedelta(seconds=age_s)
    return Envelope(name, event.ce_type, "/kvberth/node_agent/x", time, str(SUBJECT))


def statement(event: Event, name: str = "id-1", age_s: float = 0.0) -> Statement:
    return Statement(envelope(event, name, age_s), encode(event))


def delivery(event: Event, name: str = "id-1", *, sequence: int = 1, term: int = 0, age_s: float = 0.0) -> Delivery:
    headers = envelope(event, name, age_s).headers() | {TERM: str(term)}
    return Delivery(str(SUBJECT), headers, encode(event), sequence)


def found(event: Event, name: str = "id-1", *, sequence: int = 1, term: int = 0, age_s: float = 0.0) -> Found:
    return Found.of(delivery(event, name, sequence=sequence, term=term, age_s=age_s))


def garbage(sequence: int = 1) -> Found:
    return Found.of(Delivery(str(SUBJECT), {}, b"garbage", sequence))
