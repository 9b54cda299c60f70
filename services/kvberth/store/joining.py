"""Joins the shards of a block as they are committed: each waits in its slot, and all become visible at once.

Part of the store's one writer. A slot that waits is committed: if the worker dies the next one frees it, since nobody
was promised anything. The links between the slots are written before any of them is published, the entry of the index
last, so that whoever finds it finds all.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise

from kvberth.store.checksums import checksum
from kvberth.store.fences import Fence
from kvberth.store.index import Index
from kvberth.store.layout import slots
from kvberth.store.layout.entries import Entry
from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.store.memory import StoreMemory
from kvberth.store.shards import Part, Shards
from kvberth.store.slotbook import SlotBook


class Joiner:
    """Takes over granted slots whose commits are in order; the key is published nowhere."""

    def __init__(
        self, memory: StoreMemory, book: SlotBook, index: Index, fence: Fence, clock: Callable[[], int]
    ) -> None:
        self.shards = Shards()
        self._memory = memory
        self._book = book
        self._index = index
        self._fence = fence
        self._clock = clock

    def join(self, slot: int, key: bytes, length: int, part: Part) -> Outcome | None:
        """Keeps one shard; None: it waits, or another slot waits in its place and this one is free.

        STORED, or why it can't be, is the word on all shards of the block. LAYOUT is on this one alone where the block
        is cut into another number of shards.
        """
        gathering = self.shards.gather(key, part, self._clock())
        if gathering is None or part.shard in gathering.slots:
            self._book.free(slot, SlotState.GRANTED)
            return Outcome.LAYOUT if gathering is None else None
        self._hold(slot, key, length)
        gathering.slots[part.shard] = slot
        if not gathering.complete:
            return None
        del self.shards.waiting[key]
        return self._publish(key, gathering.in_order())

    def waits(self, key: bytes) -> bool:
        """Whether shards of this block are there which wait for others."""
        return key in self.shards.waiting

    def holds(self, key: bytes, slot: int) -> bool:
        """Whether this slot is one of those that wait for the block's other shards."""
        gathering = self.shards.waiting.get(key)
        return gathering is not None and slot in gathering.slots.values()

    def cut_otherwise(self, first: int, slot: int, part: Part) -> bool:
        """Whether the block that begins at `first` holds this shard in another layout than this slot has."""
        block, word = self.shards.of(first), self._memory.word
        return len(block) == part.shards and word(block[part.shard], slots.LAYOUT) != word(slot, slots.LAYOUT)

    def late(self) -> list[bytes]:
        """The blocks whose missing shards have not come in time: `drop` them."""
        return self.shards.late(self._clock()) if self.shards.waiting else []

    def drop(self, keys: Iterable[bytes]) -> None:
        """Gives up blocks that wait."""
        for key in keys:
            for slot in self.shards.waiting.pop(key).slots.values():
                self._book.free(slot, SlotState.COMMITTED)

    def _hold(self, slot: int, key: bytes, length: int) -> None:
        """Writes what the slot holds; nobody finds it yet."""
        memory, book = self._memory, self._book
        book.move(slot, SlotState.GRANTED, SlotState.COMMITTED)
        kind, place = memory.superblock.checksum, memory.place(slot)
        value = checksum(kind, memory.data(slot, book.slot_bytes(slot), length)) if kind else 0
        memory.put_body(place, slots.KEY, key)
        memory.put_body(place, slots.LENGTH, slots.MEASURE.pack(length, value))
        memory.put_word(place, slots.LAST_USE, self._clock())

    def _publish(self, key: bytes, block: list[int]) -> Outcome:
        memory, book = self._memory, self._book
        _, at = self._index.look(key)
        if at < 0:
            for slot in block:
                book.free(slot, SlotState.COMMITTED)
            return Outcome.STORE_FULL
        for slot, after in pairwise(block):
            memory.set_word(slot, slots.NEXT, after + 1)
        self._fence()
        for slot in reversed(block):
            book.move(slot, SlotState.COMMITTED, SlotState.PUBLISHED)
            book.ledger.flow("published", book.slot_bytes(slot))
        self._index.insert(Entry(key, memory.word(block[0], slots.GENERATION), block[0], len(block)), at)
        self.shards.stand(block)
        return Outcome.STORED
