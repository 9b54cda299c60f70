"""How a store is cut that holds so many bytes of blocks: its extents and arenas. Pure.

Whoever plans for a store and whoever makes it come to the same sizes from the one number.
"""

from kvberth.store.errors import LayoutRefused
from kvberth.store.layout.geometry import EXTENT_RECORD_BYTES, HEADER_BYTES, MAX_ARENAS, PAGE, Geometry, round_up

_MIB = 1 << 20
MIN_BLOCK_BYTES = 16 * _MIB
_MOST_EXTENT = 64 * _MIB
_LEAST_EXTENT = 2 * _MIB
_LEAST_EXTENTS = 8
"""So many at least, so that several layouts fit: a small store has smaller extents."""
_ARENA_EXTENTS = 64
"""So many in an arena, 4 GiB, where that is not too many arenas."""


def geometry_for(block_bytes: int) -> Geometry:
    """The sizes of a store that holds so many bytes of blocks, and less than an extent more for each arena.

    Raises:
        LayoutRefused: no store has such a size.
    """
    if block_bytes < MIN_BLOCK_BYTES:
        raise LayoutRefused(f"a store holds at least {MIN_BLOCK_BYTES} bytes of blocks, not {block_bytes}")
    extent = _MOST_EXTENT
    while extent > _LEAST_EXTENT and extent * _LEAST_EXTENTS > block_bytes:
        extent //= 2
    extents = -(-block_bytes // extent)
    arenas = min(MAX_ARENAS, -(-extents // _ARENA_EXTENTS))
    per_arena = -(-extents // arenas)
    geometry = Geometry(arenas, _arena_bytes(per_arena, extent), extent)
    geometry.check()
    return geometry


def _arena_bytes(extents: int, extent_bytes: int) -> int:
    records = round_up(extents * EXTENT_RECORD_BYTES, HEADER_BYTES)
    headers = extents * (extent_bytes // Geometry.least_slot_bytes) * HEADER_BYTES
    return round_up(PAGE + records + headers, PAGE) + extents * extent_bytes
