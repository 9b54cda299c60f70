"""The worker's own view of its slots: free ones by extent, published ones by age, and every step that a slot takes.

Each step writes the header in its order (docs/store.md) and the ledger at once. Decides nothing: `space` and
`blockstore` do.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from kvberth.store.books import Ledger
from kvberth.store.layout import slots
from kvberth.store.layout.extents import ExtentRecord
from kvberth.store.layout.slots import SlotState
from kvberth.store.memory import Place, StoreMemory
from kvberth.store.shards import WHOLE, Part
from kvberth.store.space import ExtentUse


@dataclass(slots=True)
class _LayoutSlots:
    """What one layout has."""

    lent: dict[int, "_Lent"] = field(default_factory=dict)
    with_free: set[int] = field(default_factory=set)
    by_age: OrderedDict[int, None] = field(default_factory=OrderedDict)


@dataclass(slots=True)
class _Lent:
    """An extent that a layout has."""

    record: ExtentRecord
    free: dict[int, None]
    """The last one is taken first."""
    layout: _LayoutSlots
    slot_bytes: int
    live: int = 0

    @property
    def use_of_all(self) -> int:
        return self.record.count - len(self.free)


class SlotBook:
    """All slots of a store, for its one writer."""

    def __init__(self, memory: StoreMemory) -> None:
        self._memory = memory
        self._geometry = memory.geometry
        self._per_extent = memory.geometry.slots_per_extent
        self._layouts: dict[int, _LayoutSlots] = {}
        self._lent: dict[int, _Lent] = {}
        self.unlent: list[int] = list(range(memory.geometry.extents))
        self.ledger = Ledger(memory.geometry.data_bytes)

    # --- extents ------------------------------------------------------------------------------------------------------

    def lend(self, extent: int, layout: int, slot_bytes: int) -> None:
        """Cuts an extent in which nothing lives for a layout."""
        if extent in self._lent:
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
        layout.lent[extent] = self._lent[extent] = _Lent(record, free, layout, record.slot_bytes)
        layout.with_free.add(extent)
        self.ledger.lend(self._geometry.extent_bytes, record.slot_bytes, record.count)

    def uses(self, read: Iterable[int]) -> list[ExtentUse]:
        """How every lent extent is used; `read` are the published slots that are leased."""
        leased = Counter(slot // self._per_extent for slot in read)
        return [
            ExtentUse(
                extent, lent.record.layout, lent.live, lent.use_of_all - lent.live + leased[extent], lent.slot_bytes
            )
            for extent, lent in self._lent.items()
        ]

    def published_in(self, extent: int) -> list[int]:
        """The published slots of one extent."""
        lent = self._lent.get(extent)
        if lent is None:
            return []
        every = self._geometry.slots_of(extent, lent.slot_bytes)
        return [slot for slot in every if slot in lent.layout.by_age]

    def oldest(self, layout: int, count: int) -> list[int]:
        """So many published slots of a layout, least recently used first."""
        has = self._layouts.get(layout)
        return list(islice(has.by_age, count)) if has else []

    def published(self, layout: int) -> int:
        """How many published slots a layout has."""
        has = self._layouts.get(layout)
        return len(has.by_age) if has else 0

    def is_published(self, slot: int) -> bool:
        lent = self._lent.get(slot // self._per_extent)
        return lent is not None and slot in lent.layout.by_age

    def slot_bytes(self, slot: int) -> int:
        """How long this slot is; raises KeyError where its extent is lent to nobody."""
        return self._lent[slot // self._per_extent].slot_bytes

    def has_free(self, layout: int) -> bool:
        has = self._layouts.get(layout)
        return has is not None and bool(has.with_free)

    def is_empty(self, extent: int) -> bool:
        """Whether nothing lives, is held or is dying in an extent."""
        return extent not in self._lent or not self._lent[extent].use_of_all

    # --- steps of a slot ----------------------------------------------------------------------------------------------

    def take(self, layout: int, count: int) -> list[int]:
        """Removes so many slots at most from the layout's free ones; the caller grants them at once."""
        has = self._layouts.get(layout)
        taken: list[int] = []
        while has is not None and has.with_free and len(taken) < count:
            extent = min(has.with_free)  # keeps the others empty, so that they can be lent to somebody else
            free = has.lent[extent].free
            while free and len(taken) < count:
                taken.append(free.popitem()[0])
            if not free:
                has.with_free.discard(extent)
        return taken

    def grant(
        self, taken: Sequence[int], holder: bytes, number: int, deadline_ns: int, part: Part = WHOLE
    ) -> list[int]:
        """Writes whose these slots of one layout are now, the first with this number; returns their generations."""
        memory = self._memory
        generations = []
        for at, slot in enumerate(taken, number):
            place = memory.place(slot)
            generation = slots.after(place[0][place[1] + slots.GENERATION])
            layout = self._lent[slot // self._per_extent].record.layout
            body = slots.GRANTED_BODY.pack(0, 0, holder, at, layout, *part, deadline_ns, 0, 0)
            memory.put_body(place, slots.LENGTH, body)
            memory.put_word(place, slots.GENERATION, generation)
            memory.put_word(place, slots.STATE, SlotState.GRANTED)
            generations.append(generation)
        if taken:
            self.ledger.move(SlotState.FREE, SlotState.GRANTED, self.slot_bytes(taken[0]), len(taken))
        return generations

    def commit(self, slot: int) -> Place:
        """A granted slot is its holder's no more."""
        place = self._memory.place(slot)
        self._memory.put_word(place, slots.STATE, SlotState.COMMITTED)
        return place

    def publish(self, slot: int, place: Place) -> None:
        """A committed slot, whose header is written, can be read from now on."""
        lent = self._lent[slot // self._per_extent]
        self._memory.put_word(place, slots.STATE, SlotState.PUBLISHED)
        lent.layout.by_age[slot] = None
        lent.live += 1
        self.ledger.move(SlotState.GRANTED, SlotState.PUBLISHED, lent.slot_bytes)
        self.ledger.flow("published", lent.slot_bytes)

    def move(self, slot: int, old: SlotState, new: SlotState) -> None:
        """Changes the state of a slot, in its header and in the books."""
        lent = self._lent[slot // self._per_extent]
        if new is SlotState.PUBLISHED:
            lent.layout.by_age[slot] = None
            lent.live += 1
        elif old is SlotState.PUBLISHED:
            del lent.layout.by_age[slot]
            lent.live -= 1
        self._memory.set_word(slot, slots.STATE, new)
        self.ledger.move(old, new, lent.slot_bytes)

    def free(self, slot: int, old: SlotState) -> None:
        """Ends a slot's use: generation first, then its state."""
        memory, extent = self._memory, slot // self._per_extent
        lent, place = self._lent[extent], memory.place(slot)
        if old is SlotState.PUBLISHED:
            del lent.layout.by_age[slot]
            lent.live -= 1
        memory.put_word(place, slots.GENERATION, slots.ended(place[0][place[1] + slots.GENERATION]))
        memory.put_word(place, slots.STATE, SlotState.FREE)
        self.ledger.move(old, SlotState.FREE, lent.slot_bytes)
        lent.free[slot] = None
        lent.layout.with_free.add(extent)

    def found(self, slot: int, state: SlotState) -> None:
        """Books a slot of an adopted extent that an earlier worker left in this state."""
        extent = slot // self._per_extent
        lent = self._lent[extent]
        del lent.free[slot]
        if not lent.free:
            lent.layout.with_free.discard(extent)
        self.move(slot, SlotState.FREE, state)

    def touch(self, slot: int, now_ns: int) -> None:
        """A published slot was used."""
        self._memory.set_word(slot, slots.LAST_USE, now_ns)
        self._lent[slot // self._per_extent].layout.by_age.move_to_end(slot)

    def _give_back(self, extent: int) -> None:
        lent = self._lent.pop(extent)
        has, record = lent.layout, lent.record
        del has.lent[extent]
        has.with_free.discard(extent)
        if not has.lent:
            del self._layouts[record.layout]
        self.unlent.append(extent)
        self.ledger.lend(self._geometry.extent_bytes, record.slot_bytes, record.count, -1)
