"""One moment of the worker, for whoever scrapes it: the store's books, the clients' words, and what is wrong.

Made by the worker's own thread between two turns, so that all of it is of one moment.
"""

from collections import Counter
from dataclasses import dataclass, field

from kvberth.store.books import Books
from kvberth.store.layout import pages
from kvberth.store.layout.rings import Outcome
from kvberth.transfer_worker.serving import Serving


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
    faults: tuple[str, ...] = ()
    """What does not add up, in sentences: never anything, unless something is broken."""


def snapshot_of(serving: Serving) -> Snapshot:
    """What is so at this moment."""
    members, data_bytes = list(serving.members.values()), serving.memory.geometry.data_bytes
    books, totals = serving.store.books(), serving.totals
    outcomes: Counter[Outcome] = Counter(totals.outcomes)
    admitted = totals.admitted
    for member in members:
        offered, became = member.counts()
        admitted += offered
        outcomes.update(became)
    return Snapshot(
        books=books,
        clients=sum(member.registered for member in members),
        budget=serving.admission.budget,
        queued=sum(min(member.queued_bytes, serving.admission.budget) for member in members),
        granted=serving.store.held_bytes,
        leased=sum(min(int(member.rings.page[pages.LEASED]), data_bytes) for member in members),
        admitted=admitted,
        outcomes=dict(outcomes),
        in_flight=admitted - sum(outcomes.values()),
        refused=dict(totals.refused),
        over_budget=totals.over_budget,
        faults=tuple(books.complaints(data_bytes)),
    )
