"""Takes over the memory that an earlier worker left: every slot is repaired, the index is built anew.

What it finds decides `recovery`. A new store is the simple case: all extents are lent to nobody.
"""

from dataclasses import dataclass, field

from kvberth.store.errors import Malformed
from kvberth.store.index import Index
from kvberth.store.layout import slots
from kvberth.store.layout.entries import Entry
from kvberth.store.layout.extents import ExtentRecord
from kvberth.store.layout.slots import SlotHeader, SlotState
from kvberth.store.memory import SESSION, StoreMemory
from kvberth.store.recovery import Repair, repair, whole_blocks
from kvberth.store.shards import WHOLE
from kvberth.store.slotbook import SlotBook


@dataclass(slots=True)
class Found:
    """What was found besides free and published slots."""

    dying: list[int] = field(default_factory=list)
    quarantined: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    cut: dict[int, int] = field(default_factory=dict)
    published: list[tuple[int, tuple[int, ...], Entry]] = field(default_factory=list)
    """By their last use: the slots of each block, shard 0 first, and its entry."""
    shards: dict[int, SlotHeader] = field(default_factory=dict)
    """Published slots of blocks of several shards, whole or not (or damaged)."""
    together: list[tuple[int, ...]] = field(default_factory=list)
    """The slots of blocks of several shards that stay."""


def take_over(memory: StoreMemory, book: SlotBook, index: Index) -> Found:
    """Fills the worker's books from the headers and begins a new session."""
    found = Found()
    memory.check_epoch()
    memory.worker_words[SESSION] += 1
    for extent in range(memory.geometry.extents):
        _take_extent(memory, book, extent, found)
    _take_published(book, index, found)
    return found


def _take_extent(memory: StoreMemory, book: SlotBook, extent: int, found: Found) -> None:
    record = _record(memory, extent)
    lent = range(0)
    if record is not None:
        lent = memory.geometry.slots_of(extent, record.slot_bytes)
        if found.cut.setdefault(record.layout, record.slot_bytes) != record.slot_bytes:
            record, lent = None, range(0)
            memory.set_extent(extent, ExtentRecord(0, 0, 0, 0))
    if record is not None:
        book.adopt(extent, record)
    first = extent * memory.geometry.slots_per_extent
    for slot in range(first, first + memory.geometry.slots_per_extent):
        _take_slot(memory, book, slot, found, lent=slot in lent)


def _record(memory: StoreMemory, extent: int) -> ExtentRecord | None:
    try:
        record = memory.extent(extent)
    except Malformed:
        memory.set_extent(extent, ExtentRecord(0, 0, 0, 0))
        return None
    return record if record.layout else None


def _take_slot(memory: StoreMemory, book: SlotBook, slot: int, found: Found, *, lent: bool) -> None:
    header = _header(memory, slot)
    what = repair(header, lent=lent)
    if what is Repair.FREE or what is Repair.FREE_STATE:
        generation = memory.word(slot, slots.GENERATION)
        memory.set_word(slot, slots.GENERATION, slots.ended(generation))
        memory.set_word(slot, slots.STATE, SlotState.FREE)
        return
    if header is None or header.state is SlotState.FREE:
        return
    state = SlotState.QUARANTINED if what is Repair.QUARANTINE else header.state
    if state is SlotState.PUBLISHED:
        if (header.shard, header.shards) == WHOLE:
            found.published.append((header.last_use_ns, (slot,), Entry(header.key, header.generation, slot, 1)))
        else:
            found.shards[slot] = header
        return
    book.found(slot, state)
    if state is SlotState.DYING:
        found.dying.append(slot)
    else:
        found.quarantined[slot] = header.generation, header.holder


def _header(memory: StoreMemory, slot: int) -> SlotHeader | None:
    try:
        return memory.header(slot)
    except Malformed:
        return None


def _take_published(book: SlotBook, index: Index, found: Found) -> None:
    """Oldest first, so that the books are in order of age; of two blocks with one key the younger one stays."""
    _take_shards(book, found)
    found.published.sort()
    newest = {entry.key: entry for _, _, entry in found.published}
    for _, block, _ in found.published:
        for slot in block:
            book.found(slot, SlotState.PUBLISHED)
    left_out = {entry.key for entry in index.rebuild(list(newest.values()))}
    for _, block, entry in found.published:
        stays = newest[entry.key] is entry and entry.key not in left_out
        for slot in block:
            if stays:
                book.ledger.flow("attached", book.slot_bytes(slot))
            else:
                book.free(slot, SlotState.PUBLISHED)
        if stays and len(block) > 1:
            found.together.append(block)


def _take_shards(book: SlotBook, found: Found) -> None:
    """Blocks of several shards that are whole; what is left of others is freed."""
    for block in whole_blocks(found.shards):
        header = found.shards[block[0]]
        used_ns = max(found.shards.pop(slot).last_use_ns for slot in block)
        entry = Entry(header.key, header.generation, block[0], header.shards)
        found.published.append((used_ns, block, entry))
    for slot in found.shards:
        book.found(slot, SlotState.PUBLISHED)
        book.free(slot, SlotState.PUBLISHED)
