"""The books of a store: what is where, in blocks and bytes, and what became of what was offered. Pure.

Two sentences hold at every moment: all data bytes are in exactly one of the states below; and what is published is what
was found at the start, plus what was published since, less what was evicted and removed.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import SlotState


@dataclass(frozen=True)
class Amount:
    """Blocks, and the bytes of the slots that they occupy."""

    blocks: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Books:
    """One moment of a store."""

    states: dict[SlotState, Amount]
    """Slots of lent extents by state; free ones are those that a block would fit into at once."""
    unlent_bytes: int
    """Extents that no layout has."""
    waste_bytes: int
    """The rest of lent extents behind their last slot."""
    attached: Amount = Amount()
    published: Amount = Amount()
    evicted: Amount = Amount()
    removed: Amount = Amount()
    corrupt: int = 0
    outcomes: dict[Outcome, int] = field(default_factory=dict)

    @property
    def data_bytes(self) -> int:
        return sum(amount.bytes for amount in self.states.values()) + self.unlent_bytes + self.waste_bytes

    def complaints(self, data_bytes: int) -> list[str]:
        """What does not add up, each in one sentence; `data_bytes` is what the store's geometry gives."""
        live = self.states[SlotState.PUBLISHED]
        wrong = []
        if self.data_bytes != data_bytes:
            wrong.append(f"{self.data_bytes} bytes are in the books, the store has {data_bytes}")
        for unit in ("blocks", "bytes"):
            came = getattr(self.attached, unit) + getattr(self.published, unit)
            went = getattr(self.evicted, unit) + getattr(self.removed, unit)
            if came - went != getattr(live, unit):
                wrong.append(f"{came} {unit} came and {went} went, but {getattr(live, unit)} are published")
        return wrong


class Ledger:
    """The same, kept up to date by the worker step by step."""

    def __init__(self, data_bytes: int) -> None:
        self._blocks = [0] * len(SlotState)
        self._bytes = [0] * len(SlotState)
        self._flows: dict[str, Counter[str]] = {
            name: Counter() for name in ("attached", "published", "evicted", "removed")
        }
        self._outcomes = [0] * (max(Outcome) + 1)
        self._unlent = data_bytes
        self._waste = 0
        self.corrupt = 0

    def lend(self, extent_bytes: int, slot_bytes: int, count: int, sign: int = 1) -> None:
        """An extent is lent, with all its slots free, or (sign -1) given back."""
        self._unlent -= sign * extent_bytes
        self._waste += sign * (extent_bytes - slot_bytes * count)
        self._blocks[SlotState.FREE] += sign * count
        self._bytes[SlotState.FREE] += sign * slot_bytes * count

    def move(self, old: SlotState, new: SlotState, slot_bytes: int, count: int = 1) -> None:
        """Slots go from one state to another."""
        self._blocks[old] -= count
        self._bytes[old] -= slot_bytes * count
        self._blocks[new] += count
        self._bytes[new] += slot_bytes * count

    def flow(self, name: str, slot_bytes: int) -> None:
        """A block came (`attached`, `published`) or went (`evicted`, `removed`)."""
        flow = self._flows[name]
        flow["blocks"] += 1
        flow["bytes"] += slot_bytes

    def bytes_in(self, states: Iterable[SlotState]) -> int:
        return sum(self._bytes[state] for state in states)

    def outcome(self, outcome: Outcome) -> None:
        self._outcomes[outcome] += 1

    def books(self) -> Books:
        flows = {name: Amount(flow["blocks"], flow["bytes"]) for name, flow in self._flows.items()}
        states = {state: Amount(self._blocks[state], self._bytes[state]) for state in SlotState}
        return Books(
            states=states,
            unlent_bytes=self._unlent,
            waste_bytes=self._waste,
            corrupt=self.corrupt,
            outcomes={outcome: count for outcome in Outcome if (count := self._outcomes[outcome])},
            **flows,
        )
