"""What the bus's tests share: buses, messages, conditions with a deadline, and a plain client that plays the others."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

import nats
from nats.aio.client import Client

from kvberth.bus import Absent, Bus, BusSettings, Row, Telemetry, Writer
from kvberth_schemas import subjects
from kvberth_schemas.envelope import TERM, Envelope
from kvberth_schemas.events import SocketGoneV1, SocketLostReason, SocketLostV1
from kvberth_schemas.model import Event, Want
from kvberth_schemas.registry import encode
from kvberth_schemas.subjects import EVENTS_STREAM, Entity, EventSubject, Service, WantKind, WantSubject
from kvberth_schemas.wants import DirWantV1, Why

SOCKETS = [subjects.events_of(Entity.SOCKET)]
DIRS = [subjects.wants_of(WantKind.DIR)]


class Counts:
    """A telemetry that only counts."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self.gauges: dict[str, Callable[[], float]] = {}

    def counter(self, name: str, description: str, unit: str = "") -> "_Counter":
        return _Counter(name.removeprefix("kvberth.bus."), self.counted)

    def observe(self, name: str, description: str, read: Callable[[], float], unit: str = "") -> None:
        self.gauges[name] = read

    def inject(self, headers: dict[str, str]) -> None:
        pass

    def handling(
        self, name: str, headers: Mapping[str, str] | None, cause_id: str, attributes: Mapping[str, str] | None = None
    ) -> AbstractContextManager[None]:
        return nullcontext()


class _Counter:
    def __init__(self, name: str, counted: Counter[str]) -> None:
        self._name, self._counted = name, counted

    def add(self, amount: float, attributes: Mapping[str, str] | None = None) -> None:
        self._counted[self._name] += int(amount)
        if attributes:
            self._counted[f"{self._name}:{attributes['reason']}"] += int(amount)


def make_bus(
    url: str, service: Service = Service.NODE_AGENT, telemetry: Telemetry | None = None, **settings: Any
) -> Bus:
    """A bus of a service; an agent's is on node a."""
    settings.setdefault("instance", f"{service}-1")
    settings.setdefault("node", "a" if service is Service.NODE_AGENT else None)
    return Bus(BusSettings(url=url, service=service, **settings), telemetry)


@asynccontextmanager
async def declaring(url: str, telemetry: Telemetry | None = None, **settings: Any) -> AsyncIterator[Bus]:
    """Placement's bus, which declares the streams."""
    async with make_bus(url, Service.PLACEMENT, telemetry, **settings) as bus:
        await bus.declare()
        yield bus


@asynccontextmanager
async def plain(url: str) -> AsyncIterator[Client]:
    """nats-py as it comes, for what others may do."""
    client = await nats.connect(url)
    try:
        yield client
    finally:
        await client.close()


def socket(name: str = "kv", node: str = "a") -> EventSubject:
    return subjects.socket(node, "default", name)


def lost(name: str = "kv", message: str = "no socket", node: str = "a") -> SocketLostV1:
    return SocketLostV1(
        cache=name, namespace="default", node=node, path="/x", reason=SocketLostReason.MISSING, message=message
    )


def gone(row: Row) -> SocketGoneV1:
    subject = row.subject
    assert isinstance(subject, EventSubject)
    return SocketGoneV1(cache=subject.object, namespace=subject.namespace or "", node=subject.node or "")


def directory(name: str = "kv") -> WantSubject:
    return subjects.want(WantKind.DIR, "a", "default", name)


def keep(name: str = "kv", term: int = 0, mode: int = 0o700) -> DirWantV1:
    return DirWantV1(term=term, state="keep", why=Why.WANTED, namespace="default", kvcache=name, mode=mode)


def sockets_writer(bus: Bus) -> Writer:
    """The writer of an agent on node a."""
    return bus.writer([subjects.events_of(Entity.SOCKET, "a")], absent=Absent.GONE, gone=gone)


def headers(subject: EventSubject | WantSubject, message: Event | Want, name: str, term: int = 0) -> dict[str, str]:
    """A whole envelope, as another writer would write it."""
    envelope = Envelope(name, message.ce_type, "/kvberth/other/x", datetime.now(UTC), str(subject))
    return envelope.headers() | {TERM: str(term)}


async def say(
    client: Client, subject: EventSubject | WantSubject, message: Event | Want, name: str, term: int = 0
) -> None:
    """Store a message as another writer."""
    await client.jetstream().publish(str(subject), encode(message), headers=headers(subject, message, name))


async def history(client: Client, subject: object, stream: str = EVENTS_STREAM) -> list[str]:
    """The types of all messages that a stream has of a subject, oldest first."""
    manager = client.jsm()
    info = await manager.stream_info(stream, subjects_filter=str(subject))
    types, sequence = [], 0
    for _ in range((info.state.subjects or {}).get(str(subject), 0)):
        message = await manager.get_msg(stream, seq=sequence + 1, subject=str(subject), next=True)
        sequence = message.seq or 0
        types.append((message.headers or {}).get("ce-type", "?"))
    return types


def messages_of(rows: Mapping[Any, Row]) -> Iterator[str]:
    """The texts that the rows of lost sockets carry."""
    return (row.message.message for row in rows.values() if isinstance(row.message, SocketLostV1))
