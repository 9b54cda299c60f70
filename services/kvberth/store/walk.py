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
    published: dict[tuple[bytes, int], tuple[int, SlotHeader]] = {}
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
                if (header.key, header.shard) in published:
                    other, _ = published[header.key, header.shard]
                    complaints.append(f"slots {other} and {slot} hold the same key")
                published[header.key, header.shard] = slot, header
    complaints += _index_faults(memory, published)
    states = {state: Amount(blocks[state], sizes[state]) for state in SlotState}
    return Walked(states, unlent, waste, frozenset(key for key, _ in published), tuple(complaints))


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


def _index_faults(memory: StoreMemory, published: dict[tuple[bytes, int], tuple[int, SlotHeader]]) -> Iterator[str]:
    left = dict(published)
    index = Index(memory)
    for place, entry, right in index.all():
        if not right:
            yield f"place {place} of the index is damaged"
        slot, header = left.pop((entry.key, 0), (-1, None))
        if header is None or (slot, header.generation, header.shards) != (entry.slot, entry.generation, entry.shards):
            yield f"place {place} of the index names slot {entry.slot}, which does not hold its block"
        elif index.find(entry.key) is None:
            yield f"place {place} of the index cannot be found by its key"
        for shard in range(1, header.shards if header else 0):
            linked = header.next_slot - 1 if header else -1
            slot, header = left.pop((entry.key, shard), (-1, None))
            if header is None or slot != linked:
                yield f"place {place} of the index leads to no shard {shard} of its block"
                break
    for slot, _ in left.values():
        yield f"slot {slot} is published, but no entry of the index leads to it"
