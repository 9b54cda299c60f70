"""The worker's own view of its slots: free ones by extent, published ones by age, and every step that a slot takes.

Each step writes the header in its order (docs/store.md) and the ledger at once. Decides nothing: `space` and
`blockstore` do.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from kvberth.store.books import Ledger
from kvberth.store.layout import slots
from kvberth.store.layout.extents import ExtentRecord
from kvberth.store.layout.slots import SlotState
from kvberth.store.memory import StoreMemory
from kvberth.store.space import ExtentUse


@dataclass(slots=True)
class _Lent:
    """An extent that a layout has."""

    record: ExtentRecord
    free: dict[int, None]
    """The last one is taken first."""
    live: int = 0

    @property
    def use_of_all(self) -> int:
        return self.record.count - len(self.free)


@dataclass(slots=True)
class _LayoutSlots:
    """What one layout has."""

    lent: dict[int, _Lent] = field(default_factory=dict)
    with_free: set[int] = field(default_factory=set)
    by_age: OrderedDict[int, None] = field(default_factory=OrderedDict)


class SlotBook:
    """All slots of a store, for its one writer."""

    def __init__(self, memory: StoreMemory) -> None:
        self._memory = memory
        self._geometry = memory.geometry
        self._layouts: dict[int, _LayoutSlots] = {}
        self._layout_of: dict[int, int] = {}
        self.unlent: list[int] = list(range(memory.geometry.extents))
        self.ledger = Ledger(memory.geometry.data_bytes)

    # --- extents ------------------------------------------------------------------------------------------------------

    def lend(self, extent: int, layout: int, slot_bytes: int) -> None:
        """Cuts an extent in which nothing lives for a layout."""
        if extent in self._layout_of:
            self._give_back(extent)
        cut = self._geometry.slots_of(extent, slot_bytes)
        record = ExtentRecord(slot_bytes, len(cut), slots.after(self._memory.lent_times(extent)), layout)
        self._memory.set_extent(extent, record)
        self.adopt(extent, record)

    def adopt(self, extent: int, record: ExtentRecord) -> None:
        """Takes an extent as its record says, with all slots free."""
        self.unlent.remove(extent)
        free = dict.fromkeys(reversed(self._geometry.slots_of(extent, record.slot_bytes)))
        layout = self._layouts.setdefault(record.layout, _LayoutSlots())
        layout.lent[extent] = _Lent(record, free)
        layout.with_free.add(extent)
        self._layout_of[extent] = record.layout
        self.ledger.lend(self._geometry.extent_bytes, record.slot_bytes, record.count)

    def uses(self, read: Iterable[int]) -> list[ExtentUse]:
        """How every lent extent is used; `read` are the published slots that are leased."""
        leased = Counter(slot // self._geometry.slots_per_extent for slot in read)
        return [
            ExtentUse(extent, layout, lent.live, lent.use_of_all - lent.live + leased[extent], lent.record.slot_bytes)
            for layout, has in self._layouts.items()
            for extent, lent in has.lent.items()
        ]

    def published_in(self, extent: int) -> list[int]:
        """The published slots of one extent."""
        if extent not in self._layout_of:
            return []
        lent = self._lent(extent)
        every = self._geometry.slots_of(extent, lent.record.slot_bytes)
        by_age = self._layouts[self._layout_of[extent]].by_age
        return [slot for slot in every if slot in by_age]

    def oldest(self, layout: int, count: int) -> list[int]:
        """So many published slots of a layout, least recently used first."""
        has = self._layouts.get(layout)
        return list(islice(has.by_age, count)) if has else []

    def is_published(self, slot: int) -> bool:
        layout = self._layout_of.get(slot // self._geometry.slots_per_extent)
        return layout is not None and slot in self._layouts[layout].by_age

    def slot_bytes(self, slot: int) -> int:
        """How long this slot is; raises KeyError where its extent is lent to nobody."""
        return self._lent(slot // self._geometry.slots_per_extent).record.slot_bytes

    def layout_of(self, slot: int) -> int:
        return self._layout_of[slot // self._geometry.slots_per_extent]

    def has_free(self, layout: int) -> bool:
        has = self._layouts.get(layout)
        return has is not None and bool(has.with_free)

    def is_empty(self, extent: int) -> bool:
        """Whether nothing lives, is held or is dying in an extent."""
        return extent not in self._layout_of or not self._lent(extent).use_of_all

    # --- steps of a slot ----------------------------------------------------------------------------------------------

    def take(self, layout: int) -> int | None:
        """Removes a slot from the layout's free ones; the caller grants it at once."""
        has = self._layouts.get(layout)
        if has is None or not has.with_free:
            return None
        extent = min(has.with_free)  # keeps the others empty, so that they can be lent to somebody else
        lent = has.lent[extent]
        slot, _ = lent.free.popitem()
        if not lent.free:
            has.with_free.discard(extent)
        return slot

    def grant(self, slot: int, holder: bytes, number: int, deadline_ns: int) -> int:
        """Writes whose the slot is now; returns its new generation."""
        memory = self._memory
        generation = slots.after(memory.word(slot, slots.GENERATION))
        memory.set_word(slot, slots.GENERATION, generation)
        memory.set_bytes(slot, slots.HOLDER, holder)
        memory.set_word(slot, slots.GRANT, number)
        memory.set_word(slot, slots.LAYOUT, self.layout_of(slot))
        memory.set_word(slot, slots.SHARD, 1 << 32)  # shard 0 of 1
        memory.set_word(slot, slots.DEADLINE, deadline_ns)
        memory.set_word(slot, slots.NEXT, 0)
        self.move(slot, SlotState.FREE, SlotState.GRANTED)
        return generation

    def move(self, slot: int, old: SlotState, new: SlotState) -> None:
        """Changes the state of a slot, in its header and in the books."""
        has = self._layouts[self.layout_of(slot)]
        if SlotState.PUBLISHED in (old, new):
            lent = self._lent(slot // self._geometry.slots_per_extent)
            if new is SlotState.PUBLISHED:
                has.by_age[slot] = None
                lent.live += 1
            else:
                del has.by_age[slot]
                lent.live -= 1
        self._memory.set_word(slot, slots.STATE, new)
        self.ledger.move(old, new, self.slot_bytes(slot))

    def free(self, slot: int, old: SlotState) -> None:
        """Ends a slot's use: generation first, then its state."""
        generation = self._memory.word(slot, slots.GENERATION)
        self._memory.set_word(slot, slots.GENERATION, slots.ended(generation))
        self.move(slot, old, SlotState.FREE)
        extent = slot // self._geometry.slots_per_extent
        self._lent(extent).free[slot] = None
        self._layouts[self._layout_of[extent]].with_free.add(extent)

    def found(self, slot: int, state: SlotState) -> None:
        """Books a slot of an adopted extent that an earlier worker left in this state."""
        del self._lent(slot // self._geometry.slots_per_extent).free[slot]
        extent = slot // self._geometry.slots_per_extent
        if not self._lent(extent).free:
            self._layouts[self._layout_of[extent]].with_free.discard(extent)
        self.move(slot, SlotState.FREE, state)

    def touch(self, slot: int, now_ns: int) -> None:
        """A published slot was used."""
        self._memory.set_word(slot, slots.LAST_USE, now_ns)
        self._layouts[self.layout_of(slot)].by_age.move_to_end(slot)

    def _lent(self, extent: int) -> _Lent:
        return self._layouts[self._layout_of[extent]].lent[extent]

    def _give_back(self, extent: int) -> None:
        layout = self._layout_of.pop(extent)
        has = self._layouts[layout]
        record = has.lent.pop(extent).record
        has.with_free.discard(extent)
        if not has.lent:
            del self._layouts[layout]
        self.unlent.append(extent)
        self.ledger.lend(self._geometry.extent_bytes, record.slot_bytes, record.count, -1)
