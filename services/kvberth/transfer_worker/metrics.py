"""What the worker's numbers are called. Every scrape tells one moment of the worker."""

from collections.abc import Callable, Mapping

from kvberth.service.telemetry import Telemetry
from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.transfer_worker.moment import Snapshot


def register_metrics(telemetry: Telemetry, read: Callable[[], Snapshot]) -> None:
    """Has the snapshot scraped: one for each scrape, taken by the instrument that comes first."""
    moment = [read()]

    def now() -> Snapshot:
        return moment[0]

    def states() -> Mapping[str, float]:
        moment[0] = read()
        books = now().books
        return {state.name.lower(): books.states[state].bytes if books else 0 for state in SlotState}

    def flows(unit: str) -> Callable[[], Mapping[str, float]]:
        def told() -> Mapping[str, float]:
            books = now().books
            names = ("attached", "published", "evicted", "removed")
            return {name: getattr(getattr(books, name), unit) if books else 0 for name in names}

        return told

    def outcomes() -> Mapping[str, float]:
        told = now().outcomes
        return {outcome.name.lower(): told.get(outcome, 0) for outcome in Outcome}

    def used() -> Mapping[str, float]:
        told = now()
        return {"queued": told.queued, "granted": told.granted, "leased": told.leased, "budget": told.budget}

    def corrupt() -> int:
        books = now().books
        return books.corrupt if books else 0

    each = telemetry.observe_each
    each("kvberth.store.slots", "Bytes of the store's slots by state.", "state", states, "By")
    each("kvberth.store.blocks", "Blocks that came and went since the worker's start.", "flow", flows("blocks"))
    each("kvberth.store.bytes", "The same in bytes of their slots.", "flow", flows("bytes"), "By")
    each("kvberth.transfer.used", "Bytes in use by clients, and their budget.", "what", used, "By")
    each("kvberth.transfer.outcomes", "What became of offered blocks, by outcome.", "outcome", outcomes)
    each("kvberth.transfer.refused", "Clients refused or cut off, by reason.", "reason", lambda: now().refused)
    telemetry.observe("kvberth.transfer.admitted", "Blocks offered.", lambda: now().admitted)
    telemetry.observe(
        "kvberth.transfer.in.flight", "Blocks offered of which nothing was said.", lambda: now().in_flight
    )
    telemetry.observe("kvberth.transfer.clients", "Registered clients.", lambda: now().clients)
    telemetry.observe(
        "kvberth.transfer.over.budget", "Looks that found more used than the budget.", lambda: now().over_budget
    )
    telemetry.observe("kvberth.store.scrubbed", "Bytes compared with their checksums.", lambda: now().scrubbed)
    telemetry.observe("kvberth.store.corrupt", "Blocks found to differ from them, and taken out.", corrupt)
    telemetry.observe("kvberth.store.faults", "Sentences of the books that do not hold.", lambda: len(now().faults))
