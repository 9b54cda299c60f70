"""One moment of the worker: the store's books, the clients' words, and what is wrong. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvberth.store.books import Books
from kvberth.store.layout.rings import Outcome


@dataclass(frozen=True)
class Counted:
    """What became of one client's blocks in its whole life; `before` was when it came to this worker."""

    outcomes: Mapping[Outcome, int]
    before: Mapping[Outcome, int]
    slot_bytes: int


@dataclass(frozen=True)
class Snapshot:
    """Bytes and blocks of all clients together; `books` None: there is no store at this moment."""

    complaint: str | None = None
    waiting_for: tuple[str, ...] = ()
    books: Books | None = None
    clients: int = 0
    budget: int = 0
    queued: int = 0
    granted: int = 0
    leased: int = 0
    admitted: int = 0
    outcomes: dict[Outcome, int] = field(default_factory=dict)
    in_flight: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    over_budget: int = 0
    scrubbed: int = 0
    """Bytes read to compare them with their checksums, in this epoch."""
    data_bytes: int = 0
    """What the store can hold."""
    engines: Mapping[str, Counted] = field(default_factory=dict)
    """By the name of the client, with the last ones that are gone."""
    faults: tuple[str, ...] = ()
    """What does not add up, in sentences: never anything, unless something is broken."""
