"""Takes a moment of the worker for whoever scrapes it or tells of it.

Done by the worker's own thread between two turns, so that all of it is of one moment.
"""

from collections import Counter

from kvberth.store.layout import pages
from kvberth.store.layout.rings import Outcome
from kvberth.transfer_worker.moment import Counted, Snapshot
from kvberth.transfer_worker.serving import Serving


def snapshot_of(serving: Serving) -> Snapshot:
    """What is so at this moment."""
    members, data_bytes = list(serving.members.values()), serving.memory.geometry.data_bytes
    books, totals = serving.store.books(), serving.totals
    outcomes: Counter[Outcome] = Counter(totals.outcomes)
    admitted = totals.admitted
    engines = dict(totals.departed)
    for member in members:
        offered, became = member.counts()
        engines[member.client.hex()] = Counted(became, member.before, member.slot_bytes)
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
        scrubbed=serving.scrubber.bytes,
        data_bytes=data_bytes,
        engines=engines,
        faults=tuple(books.complaints(data_bytes)),
    )
