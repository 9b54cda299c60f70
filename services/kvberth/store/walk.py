"""A stranger's look at a store: walks every header, recomputes checksums, and says what is really there.

Needs nothing but the memory, which may be mapped read-only; uses none of the worker's own books. While the worker runs,
its numbers are of no one moment: compare them when nothing is published or evicted.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kvberth.store.books import Amount
from kvberth.store.checksums import checksum
from kvberth.store.index import Index
from kvberth.store.layout import slots
from kvberth.store.layout.slots import SlotHeader, SlotState
from kvberth.store.memory import StoreMemory


@dataclass(frozen=True)
class Walked:
    """What was found: slots of lent extents by state with their bytes, and everything that is wrong, in sentences."""

    states: dict[SlotState, Amount]
    unlent_bytes: int
    waste_bytes: int
    keys: frozenset[bytes]
    complaints: tuple[str, ...]


def walk(memory: StoreMemory) -> Walked:
    """Looks at all slots of a store."""
    blocks: Counter[SlotState] = Counter()
    sizes: Counter[SlotState] = Counter()
    unlent = waste = 0
    published: dict[bytes, tuple[int, int]] = {}
    complaints: list[str] = []
    geometry = memory.geometry
    for extent in range(geometry.extents):
        record = memory.extent(extent)
        if not record.layout:
            unlent += geometry.extent_bytes
            continue
        waste += geometry.extent_bytes - record.count * record.slot_bytes
        for slot in geometry.slots_of(extent, record.slot_bytes):
            header = memory.header(slot)
            blocks[header.state] += 1
            sizes[header.state] += record.slot_bytes
            complaints += _wrong(memory, slot, header, record.slot_bytes)
            if header.state is SlotState.PUBLISHED:
                if header.key in published:
                    complaints.append(f"slots {published[header.key][0]} and {slot} hold the same key")
                published[header.key] = slot, header.generation
    complaints += _index_faults(memory, published)
    states = {state: Amount(blocks[state], sizes[state]) for state in SlotState}
    return Walked(states, unlent, waste, frozenset(published), tuple(complaints))


def _wrong(memory: StoreMemory, slot: int, header: SlotHeader, slot_bytes: int) -> Iterator[str]:
    used = header.generation % 2 == 1
    if used is (header.state is SlotState.FREE):
        yield f"slot {slot} is {header.state.name} in generation {header.generation}"
    if header.state is not SlotState.PUBLISHED:
        return
    if not 0 < header.length <= slot_bytes:
        yield f"slot {slot} of {slot_bytes} bytes holds {header.length}"
        return
    data = memory.data(slot, slot_bytes, header.length)
    differs = checksum(memory.superblock.checksum, data) != header.checksum
    if differs and memory.word(slot, slots.GENERATION) == header.generation:
        yield f"slot {slot} holds other bytes than its checksum tells"


def _index_faults(memory: StoreMemory, published: dict[bytes, tuple[int, int]]) -> Iterator[str]:
    left = dict(published)
    index = Index(memory)
    for place, entry, right in index.all():
        if not right:
            yield f"place {place} of the index is damaged"
        if left.pop(entry.key, None) != (entry.slot, entry.generation):
            yield f"place {place} of the index names slot {entry.slot}, which does not hold its block"
        elif index.find(entry.key) is None:
            yield f"place {place} of the index cannot be found by its key"
    for slot, _ in left.values():
        yield f"slot {slot} is published, but no entry of the index leads to it"
