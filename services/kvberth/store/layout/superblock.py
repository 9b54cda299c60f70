"""The first page of the index blob and of each arena: what a store is, told to whoever maps it.

The state is the last word to be written. A page that holds anything else than this version writes is refused with a
sentence, never guessed at.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

from kvberth.store.errors import LayoutRefused, Malformed
from kvberth.store.layout.geometry import MAX_ARENAS, PAGE, Geometry

VERSION = 1
EPOCH_BYTES = 16
_MAGIC = int.from_bytes(b"kvbindex", "little")
_ARENA_MAGIC = int.from_bytes(b"kvbarena", "little")
STATE_AT = 0
_FIXED = struct.Struct("=QQ16sQQQQQQQQ")
_FIXED_AT = 8
_IDS_AT = 1024
_CHECK_AT = _IDS_AT + 8 * MAX_ARENAS
_ARENA = struct.Struct("=QQ16sQ")
_WORD = struct.Struct("=Q")


class StoreState(IntEnum):
    """How far the index blob is made."""

    BUILDING = 1
    READY = 2


class Checksum(IntEnum):
    """What the checksum word of a slot holds."""

    NONE = 0
    XXH3_64 = 1


@dataclass(frozen=True)
class Superblock:
    """What the index blob says of its store."""

    epoch: bytes
    arena_ids: tuple[int, ...]
    geometry: Geometry
    checksum: Checksum
    fence: int


def encode(block: Superblock) -> bytes:
    """The page without its state, which is written into it last (`STATE_AT`, one word)."""
    if len(block.epoch) != EPOCH_BYTES or not any(block.epoch):
        raise LayoutRefused(f"an epoch has {EPOCH_BYTES} bytes, not all zero; this is {block.epoch!r}")
    geometry = block.geometry
    geometry.check()
    if len(block.arena_ids) != geometry.arenas:
        raise LayoutRefused(f"{len(block.arena_ids)} arenas are named, the store has {geometry.arenas}")
    page = bytearray(PAGE)
    _FIXED.pack_into(
        page, _FIXED_AT, _MAGIC, VERSION, block.epoch, geometry.arenas, geometry.arena_bytes, geometry.extent_bytes,
        geometry.least_slot_bytes, geometry.clients, block.checksum, block.fence, geometry.index_bytes,
    )  # fmt: skip
    struct.pack_into(f"={geometry.arenas}Q", page, _IDS_AT, *block.arena_ids)
    _WORD.pack_into(page, _CHECK_AT, zlib.crc32(page[_FIXED_AT:_CHECK_AT]))
    return bytes(page)


def decode(page: bytes | memoryview) -> Superblock:
    """Reads the page of a store that is ready; raises Malformed."""
    page = bytes(page[:PAGE])
    if len(page) < PAGE:
        raise Malformed(f"a superblock has {PAGE} bytes, this one {len(page)}")
    magic, version, epoch, arenas, *sizes, checksum, fence, index_bytes = _FIXED.unpack_from(page, _FIXED_AT)
    if magic != _MAGIC:
        raise Malformed("this is no index of a kvberth store: its first bytes are others")
    if version != VERSION:
        raise Malformed(f"the store has version {version} of its layout, this program knows {VERSION} only")
    if _WORD.unpack_from(page, _CHECK_AT)[0] != zlib.crc32(page[_FIXED_AT:_CHECK_AT]):
        raise Malformed("the superblock does not match its own checksum")
    state = _WORD.unpack_from(page, STATE_AT)[0]
    if state != StoreState.READY:
        raise Malformed(f"the store is not ready (state {state}): whoever made it has not finished")
    return _checked(epoch, (arenas, *sizes), (checksum, fence, index_bytes), page)


def _checked(epoch: bytes, sizes: tuple[int, ...], rest: tuple[int, int, int], page: bytes) -> Superblock:
    geometry = Geometry(*sizes)
    checksum, fence, index_bytes = rest
    try:
        geometry.check()
        kind = Checksum(checksum)
    except (LayoutRefused, ValueError) as error:
        raise Malformed(f"the superblock tells sizes that no store has: {error}") from None
    if index_bytes != geometry.index_bytes:
        raise Malformed(f"the superblock tells an index of {index_bytes} bytes, its sizes give {geometry.index_bytes}")
    ids = struct.unpack_from(f"={geometry.arenas}Q", page, _IDS_AT)
    return Superblock(epoch, ids, geometry, kind, fence)


def encode_arena(epoch: bytes, number: int) -> bytes:
    """The first bytes of an arena."""
    return _ARENA.pack(_ARENA_MAGIC, VERSION, epoch, number)


def check_arena(head: bytes | memoryview, epoch: bytes, number: int) -> None:
    """Raises Malformed where the arena is not the one that the superblock of this epoch counts as `number`."""
    found = _ARENA.unpack_from(head)
    if found != (_ARENA_MAGIC, VERSION, epoch, number):
        raise Malformed(f"arena {number} of this store holds something else in its first bytes: {found!r:.120}")
