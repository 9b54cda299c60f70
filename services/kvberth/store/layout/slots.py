"""The header of a slot: 16 words, written by the worker alone, body first and state last.

An odd generation is in use, an even one is free: a slot's generation grows by one when it is granted and when it is
freed, and never shrinks while the store lives. Whoever copied under a generation and finds it again copied that block.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from kvberth.store.errors import Malformed

KEY_BYTES = 32
HOLDER_BYTES = 16
WORDS = 16

# Offsets of the words, in words.
KEY, GENERATION, LENGTH, CHECKSUM, HOLDER, GRANT, LAYOUT, SHARD, DEADLINE, LAST_USE, NEXT, STATE = (
    0, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15,
)  # fmt: skip

_HEADER = struct.Struct("=32sQQQ16sQQIIQQQQ")
BODY = struct.Struct("=32sQQQ")
"""Key, generation, length and checksum: what a reader looks at."""
MEASURE = struct.Struct("=QQ")
"""Length and checksum."""
SHARD_OF = struct.Struct("=II")
"""The word SHARD: which shard, of how many."""
GRANTED_BODY = struct.Struct("=QQ16sQQIIQQQ")
"""What a grant writes before the generation: length, checksum, holder, …, next slot."""
assert _HEADER.size == 8 * WORDS
assert 8 * LENGTH + GRANTED_BODY.size == 8 * STATE


class SlotState(IntEnum):
    """Where a slot is in its round: free, granted, committed, published, dying, free; or granted, quarantined, free."""

    FREE = 0
    GRANTED = 1
    COMMITTED = 2
    PUBLISHED = 3
    DYING = 4
    QUARANTINED = 5


@dataclass(frozen=True, slots=True)
class SlotHeader:
    """One header as it was read; its words may be of different moments, which the generation shows."""

    key: bytes
    generation: int
    length: int
    checksum: int
    holder: bytes
    grant: int
    layout: int
    shard: int
    shards: int
    deadline_ns: int
    last_use_ns: int
    next_slot: int
    state: SlotState


def encode(header: SlotHeader) -> bytes:
    """The 128 bytes of a header (tests and tools: the worker writes word by word)."""
    return _HEADER.pack(
        header.key, header.generation, header.length, header.checksum, header.holder, header.grant, header.layout,
        header.shard, header.shards, header.deadline_ns, header.last_use_ns, header.next_slot, header.state,
    )  # fmt: skip


def after(count: int) -> int:
    """The count that follows: a word wraps, since it may hold anything that a client wrote."""
    return (count + 1) % 2**64


def ended(generation: int) -> int:
    """The generation of a slot whose use is over: the next even one."""
    return after(generation) if generation % 2 else generation


def decode(data: bytes | memoryview, offset: int = 0) -> SlotHeader:
    """Reads a header; raises Malformed where no header has these bytes."""
    if offset < 0 or offset + _HEADER.size > len(data):
        raise Malformed(f"a slot header has {_HEADER.size} bytes, {max(len(data) - offset, 0)} are here")
    *body, state = _HEADER.unpack_from(data, offset)
    try:
        return SlotHeader(*(*body, SlotState(state)))
    except ValueError:
        raise Malformed(f"a slot is in state {state}, which nobody writes") from None
