"""What is wanted on this node, as far as it is known. Pure: keeps what the bus said, and says when that is nothing.

A want that can't be read is not absent: what was wanted before counts until the bus says something else.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from kvberth.bare.runner.decide import Wanted
from kvberth.bare.runner.record import Key, Record, State
from kvberth_schemas.events import ProcessRole
from kvberth_schemas.model import Message
from kvberth_schemas.subjects import EventSubject, WantKind, WantSubject
from kvberth_schemas.wants import CacheWantV1, EngineWantV1, Why

_ROLES = {WantKind.ENGINE: ProcessRole.ENGINE, WantKind.CACHE: ProcessRole.CACHE}


class Envelope(Protocol):
    """The part of an envelope that is remembered with a want."""

    @property
    def id(self) -> str:
        """Names the want as a cause."""

    @property
    def traceparent(self) -> str | None:
        """Continues its trace."""


class Row(Protocol):
    """A want on the bus."""

    @property
    def subject(self) -> EventSubject | WantSubject:
        """Its address."""

    @property
    def message(self) -> Message:
        """The want itself."""

    @property
    def envelope(self) -> Envelope:
        """Who said it when."""


@dataclass(slots=True)
class WantBook:
    """The wants by process."""

    wants: dict[Key, Wanted] = field(default_factory=dict)
    read: bool = False
    """Whether the bus could be read completely at least once."""

    def adopt(self, records: Iterable[Record]) -> None:
        """Take what living processes were started for as wanted, until the bus can be read; so an opened gate's pod."""
        for record in records:
            if record.key.role is ProcessRole.TRANSFER:
                continue  # its cache's want says it
            lives = record.state is not State.ENDED or (record.at_gate and record.gate_open)
            if lives and not record.stopped:
                self.wants[record.key] = Wanted(record.want, record.cause, record.traceparent)
        self.wants |= workers_of(self.wants)

    def update(
        self, rows: Iterable[Row], unreadable: Collection[EventSubject | WantSubject | str], *, complete: bool
    ) -> None:
        """Take what the bus says now; only a complete view can say that something is not wanted."""
        found = dict(filter(None, map(_wanted, rows)))
        found |= workers_of(found)
        self.read = self.read or complete
        if complete:
            kept = {key for subject in unreadable if (key := _key(subject)) is not None}
            kept |= {worker_of(key) for key in kept}
            for key in self.wants.keys() - found.keys() - kept:
                del self.wants[key]
        self.wants.update(found)


def worker_of(key: Key) -> Key:
    """Give the key of a cache's transfer worker."""
    return replace(key, role=ProcessRole.TRANSFER)


def workers_of(wants: Mapping[Key, Wanted]) -> dict[Key, Wanted]:
    """Give what is wanted of the caches' transfer workers: to run beside a cache with a block store, else to stop."""
    found = {}
    for key, wanted in wants.items():
        want = wanted.want
        if key.role is ProcessRole.CACHE and isinstance(want, CacheWantV1):
            if not want.block_bytes:
                want = want.model_copy(update={"state": "stop", "why": Why.USER})
            found[worker_of(key)] = replace(wanted, want=want)
    return found


def _wanted(row: Row) -> tuple[Key, Wanted] | None:
    key = _key(row.subject)
    want = row.message
    if key is None or not isinstance(want, EngineWantV1 | CacheWantV1):
        return None
    return key, Wanted(want, row.envelope.id, row.envelope.traceparent)


def _key(subject: EventSubject | WantSubject | str) -> Key | None:
    if not isinstance(subject, WantSubject) or subject.what not in _ROLES:
        return None
    return Key(_ROLES[subject.what], subject.namespace, subject.object)
