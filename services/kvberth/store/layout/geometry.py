"""Where things lie: the sizes that a store is made with, and every offset that follows from them.

The sizes stand in the superblock, so that nobody has to guess them. Slots are numbered through the whole store; each
number has a header of its own for ever, whatever layout its extent is lent to: a generation can only grow.
"""

from dataclasses import dataclass
from functools import cached_property

from kvberth.store.errors import LayoutRefused

PAGE = 4096
HEADER_BYTES = 128
EXTENT_RECORD_BYTES = 64
ENTRY_BYTES = 64
CLIENT_RECORD_BYTES = 128
CLIENT_PAGE_BYTES = 256 * 1024
MIRROR_BYTES = 68 * 1024
WORKER_WORDS_AT = PAGE
DIRECTORY_AT = 2 * PAGE
MAX_CLIENTS = 64
MAX_ARENAS = 256
MAX_SLOTS = 1 << 24
_MIB = 1 << 20
_LOAD = 0.4


def round_up(value: int, step: int) -> int:
    """The smallest multiple of `step` that is not below `value`."""
    return -(-value // step) * step


@dataclass(frozen=True)
class Geometry:
    """The sizes of one store, in bytes where not said otherwise; `check` before use."""

    arenas: int
    arena_bytes: int
    extent_bytes: int = 64 * _MIB
    least_slot_bytes: int = 64 * 1024
    """An extent has headers for slots of this size: smaller ones waste room, they are not refused."""
    clients: int = MAX_CLIENTS

    def check(self) -> None:
        """Raises LayoutRefused, with what would be right, where no store can have these sizes."""
        if not 1 <= self.arenas <= MAX_ARENAS:
            raise LayoutRefused(f"a store has 1 to {MAX_ARENAS} arenas, not {self.arenas}")
        if not 1 <= self.clients <= MAX_CLIENTS:
            raise LayoutRefused(f"a store has room for 1 to {MAX_CLIENTS} clients, not {self.clients}")
        for name in ("arena_bytes", "extent_bytes", "least_slot_bytes"):
            value = getattr(self, name)
            if value < PAGE or value % PAGE:
                raise LayoutRefused(f"{name} is a positive multiple of {PAGE}, not {value}")
        if self.extent_bytes % self.least_slot_bytes:
            raise LayoutRefused(f"extents of {self.extent_bytes} bytes do not divide into {self.least_slot_bytes}")
        if self.arena_bytes > 1 << 50 or self.extents_per_arena < 1:
            raise LayoutRefused(f"an arena of {self.arena_bytes} bytes holds no extent of {self.extent_bytes}")
        if self.slots > MAX_SLOTS:
            raise LayoutRefused(f"{self.slots} slots are more than their numbers can tell ({MAX_SLOTS})")

    # --- in an arena --------------------------------------------------------------------------------------------------

    @cached_property
    def slots_per_extent(self) -> int:
        """Header places per extent; how many are in use depends on the layout that it is lent to."""
        return self.extent_bytes // self.least_slot_bytes

    @cached_property
    def extents_per_arena(self) -> int:
        table = EXTENT_RECORD_BYTES + self.slots_per_extent * HEADER_BYTES
        count = (self.arena_bytes - PAGE) // (self.extent_bytes + table)
        while count > 0 and self._data_at(count) + count * self.extent_bytes > self.arena_bytes:
            count -= 1
        return count

    @cached_property
    def extents(self) -> int:
        return self.arenas * self.extents_per_arena

    @cached_property
    def slots_per_arena(self) -> int:
        return self.extents_per_arena * self.slots_per_extent

    @cached_property
    def slots(self) -> int:
        return self.arenas * self.slots_per_arena

    @cached_property
    def headers_at(self) -> int:
        """Offset of the header table in each arena, behind its page and the extents' records."""
        return PAGE + round_up(self.extents_per_arena * EXTENT_RECORD_BYTES, HEADER_BYTES)

    @cached_property
    def data_at(self) -> int:
        """Offset of the first extent in each arena."""
        return self._data_at(self.extents_per_arena)

    @cached_property
    def data_bytes(self) -> int:
        """What can hold blocks: all extents of all arenas."""
        return self.extents * self.extent_bytes

    def _data_at(self, extents: int) -> int:
        records = round_up(extents * EXTENT_RECORD_BYTES, HEADER_BYTES)
        return round_up(PAGE + records + extents * self.slots_per_extent * HEADER_BYTES, PAGE)

    def extent_record(self, extent: int) -> tuple[int, int]:
        """(arena, offset) of an extent's record."""
        arena, inside = divmod(extent, self.extents_per_arena)
        return arena, PAGE + inside * EXTENT_RECORD_BYTES

    def header(self, slot: int) -> tuple[int, int]:
        """(arena, offset) of a slot's header."""
        arena, inside = divmod(slot, self.slots_per_arena)
        return arena, self.headers_at + inside * HEADER_BYTES

    def slot_data(self, slot: int, slot_bytes: int) -> tuple[int, int]:
        """(arena, offset) of a slot's bytes, in an extent that is cut into slots of `slot_bytes`."""
        extent, inside = divmod(slot, self.slots_per_extent)
        arena, place = divmod(extent, self.extents_per_arena)
        return arena, self.data_at + place * self.extent_bytes + inside * slot_bytes

    def slots_of(self, extent: int, slot_bytes: int) -> range:
        """The slot numbers of an extent that is cut into slots of `slot_bytes`."""
        first = extent * self.slots_per_extent
        return range(first, first + min(self.slots_per_extent, self.extent_bytes // slot_bytes))

    # --- in the index blob --------------------------------------------------------------------------------------------

    @cached_property
    def buckets(self) -> int:
        """Places in the index: a power of two, so many that all slots fill at most 0.4 of them."""
        return 1 << max(6, int(self.slots / _LOAD).bit_length())

    @cached_property
    def pages_at(self) -> int:
        return round_up(DIRECTORY_AT + MAX_CLIENTS * CLIENT_RECORD_BYTES, PAGE)

    @cached_property
    def mirrors_at(self) -> int:
        return self.pages_at + self.clients * CLIENT_PAGE_BYTES

    @cached_property
    def entries_at(self) -> int:
        return self.mirrors_at + self.clients * MIRROR_BYTES

    @cached_property
    def index_bytes(self) -> int:
        """Size of the index blob."""
        return self.entries_at + self.buckets * ENTRY_BYTES
