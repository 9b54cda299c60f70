"""What the bus is told of a cache's blocks: what became of those offered since the last word, and what is there. Pure.

A word that can't be said now is not queued: what it would have told goes into the next one, so none is lost and none
waits beside another.
"""

from collections import Counter
from dataclasses import dataclass, field

from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.transfer_worker.moment import Counted, Snapshot
from kvberth_schemas.events import CacheBlocksV1, TransferCompletedV1

BLOCKS_EVERY_S = 5.0
"""Between two words about what is there; why there is nothing is said at once."""
_MOST_TOLD = 256


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose cache it is, and where."""

    namespace: str
    kvcache: str
    node: str


@dataclass(slots=True)
class _Told:
    outcomes: Counter[Outcome]
    at: float
    waited: float = 0.0
    """Byte-seconds that waited since then, of all engines."""


@dataclass(slots=True)
class Account:
    """`look` at each moment, then say what `transfer` and `blocks` give; what they give counts as told."""

    whose: Whose
    now: float
    _told: dict[str, _Told] = field(default_factory=dict)
    _blocks: CacheBlocksV1 | None = None
    _blocks_at: float = 0.0
    _snapshot: Snapshot = field(default_factory=Snapshot)

    def look(self, snapshot: Snapshot, now: float) -> None:
        """Take a moment of the worker; `now` in seconds."""
        for engine, counted in snapshot.engines.items():
            if engine not in self._told:
                self._told[engine] = _Told(Counter(counted.before), self.now)
        for told in self._told.values():
            told.waited += snapshot.queued * (now - self.now)
        self._snapshot, self.now = snapshot, now

    def transfer(self) -> TransferCompletedV1 | None:
        """What became of one engine's blocks, of the one that was told of least recently; None: there is no news."""
        self._forget()
        news = {engine: self._news(engine, counted) for engine, counted in self._snapshot.engines.items()}
        waiting = [engine for engine, became in news.items() if became]
        if not waiting:
            return None
        engine = min(waiting, key=lambda one: self._told[one].at)
        counted, became, told = self._snapshot.engines[engine], news[engine], self._told.pop(engine)
        self._told[engine] = _Told(told.outcomes + became, self.now)
        settled = became.total() * counted.slot_bytes
        return TransferCompletedV1(
            cache=self.whose.kvcache,
            namespace=self.whose.namespace,
            node=self.whose.node,
            engine=engine,
            stored=became[Outcome.STORED],
            present=became[Outcome.PRESENT],
            dropped={outcome.name.lower(): count for outcome, count in sorted(became.items()) if outcome.dropped},
            bytes=became[Outcome.STORED] * counted.slot_bytes,
            seconds=self.now - told.at,
            queue_s=told.waited / settled if settled else 0.0,
        )

    def blocks(self) -> CacheBlocksV1 | None:
        """What is there; None: it was said, or it is too soon."""
        present = self._present()
        if self._blocks is not None:
            urgent = present.complaint != self._blocks.complaint
            if present == self._blocks or not (urgent or self.now - self._blocks_at >= BLOCKS_EVERY_S):
                return None
        self._blocks, self._blocks_at = present, self.now
        return present

    def _present(self) -> CacheBlocksV1:
        books, snapshot = self._snapshot.books, self._snapshot
        live = books.states[SlotState.PUBLISHED] if books else None
        return CacheBlocksV1(
            cache=self.whose.kvcache,
            namespace=self.whose.namespace,
            node=self.whose.node,
            blocks=live.blocks if live else 0,
            bytes=live.bytes if live else 0,
            capacity_bytes=snapshot.data_bytes,
            stored=books.published.blocks if books else 0,
            evicted=books.evicted.blocks if books else 0,
            removed=books.removed.blocks if books else 0,
            engines=snapshot.clients,
            complaint=snapshot.complaint or "",
            waiting_for=snapshot.waiting_for,
        )

    def _news(self, engine: str, counted: Counted) -> Counter[Outcome]:
        return Counter(counted.outcomes) - self._told[engine].outcomes

    def _forget(self) -> None:
        """Those that are long gone; one that comes back within the last ones is known again."""
        for engine in list(self._told)[: max(0, len(self._told) - _MOST_TOLD)]:
            if engine not in self._snapshot.engines:
                del self._told[engine]
