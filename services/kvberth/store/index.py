"""The index in shared memory: from a key to its slot, by open addressing. Written by the worker, probed by all.

A hint and no more: a reader that looks while an entry moves may miss it, and may see words of two entries. It never
takes that for a hit, because the slot's own header must say the same. Places are probed in order, 16 at most.
"""

from functools import partial
from struct import Struct

from kvberth.store.layout import entries
from kvberth.store.layout.entries import ENTRY, Entry
from kvberth.store.memory import INDEX_SEQUENCE, StoreMemory

PROBES = 16
_WORDS = 8
_HOME = Struct("=Q24x").unpack
_PROBED = Struct("=32sQQQ").unpack_from
"""An entry but for its check word."""
_entry = partial(tuple.__new__, Entry)


class Index:
    """The entries of one store."""

    def __init__(self, memory: StoreMemory) -> None:
        self._memory = memory
        self._words = memory.entry_words
        self._bytes = memory.index[memory.geometry.entries_at : memory.geometry.index_bytes]
        self._buckets = memory.geometry.buckets
        self._mask = self._buckets - 1

    def find(self, key: bytes) -> Entry | None:
        """Returns the entry with this key; what it says must still be compared with the slot's header."""
        place, mask, table = _HOME(key)[0] & self._mask, self._mask, self._bytes
        for _ in range(PROBES):
            found, generation, slot, shards = _PROBED(table, place * 64)
            if found == key and slot:
                return _entry((found, generation, slot - 1, shards))
            if not slot:
                return None
            place = (place + 1) & mask
        return None

    @property
    def rebuilding(self) -> bool:
        """Whether a restarted worker is filling the index: nothing is found meanwhile."""
        return bool(self._memory.worker_words[INDEX_SEQUENCE] % 2)

    # --- for the worker alone -----------------------------------------------------------------------------------------

    def look(self, key: bytes) -> tuple[Entry | None, int]:
        """The key's entry and its place; or None and the free place for it, -1: all 16 from its home on are taken."""
        place, mask, table = _HOME(key)[0] & self._mask, self._mask, self._bytes
        for _ in range(PROBES):
            found, generation, slot, shards = _PROBED(table, place * 64)
            if not slot:
                return None, place
            if found == key:
                return _entry((found, generation, slot - 1, shards)), place
            place = (place + 1) & mask
        return None, -1

    def insert(self, entry: Entry, place: int | None = None) -> bool:
        """Adds an entry whose key is not there, at the place that `look` has found; False: it found none."""
        if place is None:
            _, place = self.look(entry.key)
        if place < 0:
            return False
        entries.write(self._bytes, place * ENTRY.size, entry)
        return True

    def remove(self, key: bytes, slot: int | None = None) -> bool:
        """Removes the key's entry (where `slot` is given, only if it names that one).

        Those behind it move up, so that no probe ends too early.
        """
        entry, hole = self.look(key)
        if entry is None or slot not in (None, entry.slot):
            return False
        mask = self._buckets - 1
        place = hole
        while True:
            place = (place + 1) & mask
            moved = entries.decode(self._bytes, place * ENTRY.size)
            if moved is None or place == hole:
                break
            if (place - entries.home(moved.key, self._buckets)) & mask >= (place - hole) & mask:
                self._words[hole * _WORDS + entries.SLOT] = 0
                entries.write(self._bytes, hole * ENTRY.size, moved)
                hole = place
        self._words[hole * _WORDS + entries.SLOT] = 0
        return True

    def rebuild(self, live: list[Entry]) -> list[Entry]:
        """Empties the index and fills it again; returns the entries that found no place. Lookups miss meanwhile."""
        words = self._memory.worker_words
        words[INDEX_SEQUENCE] |= 1
        for place in range(self._buckets):
            self._words[place * _WORDS + entries.SLOT] = 0
        left_out = [entry for entry in live if not self.insert(entry)]
        words[INDEX_SEQUENCE] += 1
        return left_out

    def all(self) -> list[tuple[int, Entry, bool]]:
        """Every entry with its place, and whether its check word is right."""
        found = []
        for place in range(self._buckets):
            entry = entries.decode(self._bytes, place * ENTRY.size)
            if entry is not None:
                found.append((place, entry, self._words[place * _WORDS + entries.CHECK] == entries.check_word(entry)))
        return found
