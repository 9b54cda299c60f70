"""The store's memory as this process maps it: words, headers and bytes by their numbers. Owns no mapping.

Every shared word that somebody may look at meanwhile is read and written as one item of a `memoryview` of 8-byte
words: never torn (decision 10). `pack_into` writes none of them: it fills its whole range with zeros first.
"""

from typing import Self

from kvberth.store.errors import EpochEnded, Malformed
from kvberth.store.layout import extents, leases, slots, superblock
from kvberth.store.layout.extents import ExtentRecord
from kvberth.store.layout.geometry import (
    CLIENT_PAGE_BYTES,
    CLIENT_RECORD_BYTES,
    DIRECTORY_AT,
    EXTENT_RECORD_BYTES,
    HEADER_BYTES,
    MIRROR_BYTES,
    PAGE,
    WORKER_WORDS_AT,
)
from kvberth.store.layout.slots import SlotHeader
from kvberth.store.layout.superblock import StoreState, Superblock

_CHUNK = 1 << 20
_EPOCH, INDEX_SEQUENCE, ASLEEP, SESSION = 0, 2, 3, 4
"""Words of the worker's page: epoch (two words, 0: ended), index sequence (odd: being rebuilt), asleep, session."""


Place = tuple[memoryview, int, memoryview, int]
"""A header: the words of its arena with the number of its first one, and the bytes with its offset."""


class StoreMemory:
    """Index blob and arenas of one store. Writable views for the worker, read-only ones for a stranger."""

    def __init__(self, block: Superblock, index: memoryview, arenas: tuple[memoryview, ...]) -> None:
        """For `format` and `open`, which check what they are given."""
        self.superblock = block
        self.geometry = block.geometry
        self.index = index
        self.arenas = arenas
        self._arena_words = tuple(arena.cast("Q") for arena in arenas)
        self.entry_words = index[self.geometry.entries_at : self.geometry.index_bytes].cast("Q")
        self.worker_words = index[WORKER_WORDS_AT : WORKER_WORDS_AT + PAGE].cast("Q")
        self._epoch = tuple(memoryview(block.epoch).cast("Q"))
        self._slots_per_arena = self.geometry.slots_per_arena
        self._slots_per_extent = self.geometry.slots_per_extent
        self._extents_per_arena = self.geometry.extents_per_arena
        self._headers_at = self.geometry.headers_at

    @classmethod
    def format(cls, block: Superblock, index: memoryview, arenas: tuple[memoryview, ...]) -> Self:
        """Makes an empty store of whatever lies in these bytes; it is ready when this returns."""
        page = superblock.encode(block)
        _check_sizes(block, index, arenas)
        state = index[:PAGE].cast("Q")
        state[superblock.STATE_AT // 8] = StoreState.BUILDING
        _zero(index[8 : block.geometry.index_bytes])
        for number, arena in enumerate(arenas):
            _zero(arena[: block.geometry.data_at])
            head = superblock.encode_arena(block.epoch, number)
            arena[: len(head)] = head
        index[8:PAGE] = page[8:]
        memory = cls(block, index, arenas)
        memory.worker_words[_EPOCH], memory.worker_words[_EPOCH + 1] = memory._epoch
        state[superblock.STATE_AT // 8] = StoreState.READY
        return memory

    @classmethod
    def open(cls, index: memoryview, arenas: tuple[memoryview, ...]) -> Self:
        """Reads what a store is from its own bytes; raises Malformed."""
        block = superblock.decode(index[:PAGE])
        _check_sizes(block, index, arenas)
        for number, arena in enumerate(arenas):
            superblock.check_arena(arena, block.epoch, number)
        return cls(block, index, arenas)

    # --- epoch --------------------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether the worker has said that the daemon of this memory is gone."""
        words, epoch = self.worker_words, self._epoch
        return bool(words[_EPOCH] != epoch[0] or words[_EPOCH + 1] != epoch[1])

    def end_epoch(self) -> None:
        """Says to every process that maps this memory that its daemon is gone. It is never taken back."""
        self.worker_words[_EPOCH] = self.worker_words[_EPOCH + 1] = 0

    def check_epoch(self) -> None:
        """Raises EpochEnded where the daemon of this memory is gone."""
        if self.ended:
            raise EpochEnded(f"the store of epoch {self.superblock.epoch.hex()} has ended with its daemon")

    # --- slots and extents --------------------------------------------------------------------------------------------

    def place(self, slot: int) -> Place:
        """Where a header lies: for who reads or writes several of its words."""
        arena, inside = divmod(slot, self._slots_per_arena)
        offset = self._headers_at + inside * HEADER_BYTES
        return self._arena_words[arena], offset // 8, self.arenas[arena], offset

    def word(self, slot: int, word: int) -> int:
        words, at, _, _ = self.place(slot)
        value: int = words[at + word]
        return value

    def set_word(self, slot: int, word: int, value: int) -> None:
        self.put_word(self.place(slot), word, value)

    def put_word(self, place: Place, word: int, value: int) -> None:
        """Writes a word of the header that lies there."""
        place[0][place[1] + word] = value

    def put_body(self, place: Place, word: int, body: bytes) -> None:
        """Copies words of the header that lies there, in no order: neither its generation nor its state."""
        at = place[3] + 8 * word
        place[2][at : at + len(body)] = body

    def header(self, slot: int) -> SlotHeader:
        """Reads a whole header; raises Malformed."""
        arena, offset = self.geometry.header(slot)
        return slots.decode(self.arenas[arena], offset)

    def key(self, slot: int) -> bytes:
        _, _, data, offset = self.place(slot)
        return bytes(data[offset : offset + slots.KEY_BYTES])

    def extent(self, extent: int) -> ExtentRecord:
        """Reads an extent's record; raises Malformed."""
        arena, offset = self.geometry.extent_record(extent)
        return extents.decode(self.arenas[arena], offset, self.geometry)

    def lent_times(self, extent: int) -> int:
        """How often an extent was lent, as it stands there, unchecked."""
        arena, offset = self.geometry.extent_record(extent)
        value: int = self._arena_words[arena][offset // 8 + extents.SEQUENCE]
        return value

    def slot_bytes(self, slot: int) -> int:
        """How the slot's extent is cut now, unchecked."""
        arena, inside = divmod(slot // self._slots_per_extent, self._extents_per_arena)
        value: int = self._arena_words[arena][(PAGE + inside * EXTENT_RECORD_BYTES) // 8 + extents.SLOT_BYTES]
        return value

    def set_extent(self, extent: int, record: ExtentRecord) -> None:
        """Lends an extent: its layout is taken away first and written last."""
        arena, offset = self.geometry.extent_record(extent)
        words, at = self._arena_words[arena], offset // 8
        words[at + extents.LAYOUT] = 0
        words[at + extents.SLOT_BYTES] = record.slot_bytes
        words[at + extents.COUNT] = record.count
        words[at + extents.SEQUENCE] = record.sequence
        words[at + extents.LAYOUT] = record.layout

    def data(self, slot: int, slot_bytes: int, length: int) -> memoryview:
        """The first `length` bytes of a slot in an extent that is cut into slots of `slot_bytes`."""
        arena, offset = self.geometry.slot_data(slot, slot_bytes)
        return self.arenas[arena][offset : offset + length]

    # --- clients ------------------------------------------------------------------------------------------------------

    def client_page(self, client: int) -> memoryview:
        start = self.geometry.pages_at + client * CLIENT_PAGE_BYTES
        return self.index[start : start + CLIENT_PAGE_BYTES]

    def mirror(self, client: int) -> memoryview:
        start = self.geometry.mirrors_at + client * MIRROR_BYTES
        return self.index[start : start + MIRROR_BYTES]

    def directory_words(self, client: int) -> memoryview:
        """The worker's record of a client: its id, its layout, and whether there is one."""
        start = DIRECTORY_AT + client * CLIENT_RECORD_BYTES
        return self.index[start : start + CLIENT_RECORD_BYTES].cast("Q")

    def lease_words(self, client: int) -> memoryview:
        """A client's leases: two words each."""
        page = self.client_page(client)
        return page[leases.LEASES_AT : leases.LEASES_AT + leases.LEASES * leases.LEASE_BYTES].cast("Q")


def _zero(view: memoryview) -> None:
    zeros = bytes(min(_CHUNK, len(view)))
    for start in range(0, len(view), _CHUNK):
        part = view[start : start + _CHUNK]
        part[:] = zeros[: len(part)]


def _check_sizes(block: Superblock, index: memoryview, arenas: tuple[memoryview, ...]) -> None:
    geometry = block.geometry
    if len(index) < geometry.index_bytes or len(index) % 8:
        raise Malformed(f"the index blob has {len(index)} bytes, the store needs {geometry.index_bytes}")
    if [len(arena) for arena in arenas] != [geometry.arena_bytes] * geometry.arenas:
        found = [len(arena) for arena in arenas]
        raise Malformed(f"the store has {geometry.arenas} arenas of {geometry.arena_bytes} bytes, found are {found}")
