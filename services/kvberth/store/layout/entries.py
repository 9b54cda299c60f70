"""An entry of the index: the key inline, its slot and generation; a slot word of 0 is an empty place.

The index is a hint: an entry counts only when the slot's header says the same. So its words need no order.
"""

import struct
from typing import NamedTuple

KEY_BYTES = 32
GENERATION, SLOT, SHARDS, CHECK = 4, 5, 6, 7
"""Offsets of the words, in words; the slot word holds the slot's number plus one."""
ENTRY = struct.Struct("=32sQQQQ")
_HALVES = struct.Struct("=QQ")
_ALL = (1 << 64) - 1


class Entry(NamedTuple):
    """One entry; its first slot holds shard 0, whose header links to the next shard's."""

    key: bytes
    generation: int
    slot: int
    shards: int


def home(key: bytes, buckets: int) -> int:
    """The place where the search for a key begins; keys are hashes already, so their first bytes serve."""
    return int.from_bytes(key[:8], "little") & (buckets - 1)


def check_word(entry: Entry) -> int:
    """What the check word of an entry must be: for walkers who look for damage, no reader needs it."""
    low, high = _HALVES.unpack_from(entry.key)
    check: int = low ^ high ^ entry.generation ^ entry.slot << 8 ^ entry.shards << 56
    return check & _ALL


def encode(entry: Entry) -> bytes:
    return ENTRY.pack(entry.key, entry.generation, entry.slot + 1, entry.shards, check_word(entry))


def write(data: memoryview, offset: int, entry: Entry) -> None:
    """Writes an entry into an empty place."""
    ENTRY.pack_into(data, offset, entry.key, entry.generation, entry.slot + 1, entry.shards, check_word(entry))


def decode(data: bytes | memoryview, offset: int = 0) -> Entry | None:
    """Reads a place; None: it is empty."""
    key, generation, slot, shards, _ = ENTRY.unpack_from(data, offset)
    return Entry(key, generation, slot - 1, shards) if slot else None
