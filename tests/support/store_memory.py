"""A small store in plain memory of this process: the same bytes as on Vineyard, made in a millisecond."""

import hashlib
import mmap
from dataclasses import dataclass
from pathlib import Path

from kvberth.store.layout.geometry import PAGE, Geometry
from kvberth.store.layout.superblock import Checksum, Superblock
from kvberth.store.memory import StoreMemory

EPOCH = bytes(range(1, 17))
SMALL = Geometry(
    arenas=2, arena_bytes=3 * 16 * PAGE + 4 * PAGE, extent_bytes=16 * PAGE, least_slot_bytes=PAGE, clients=2
)
"""Two arenas of three extents of 16 pages."""


MIB = 1 << 20
SIZES = Geometry(arenas=2, arena_bytes=9 * MIB, extent_bytes=4 * MIB, least_slot_bytes=64 * 1024, clients=2)
"""A store that fits into a vineyardd of 64 MiB, a few times over."""
LAYOUTS = {31: 256 * 1024, 32: 96 * 1024}
"""Layouts in it, with the bytes of their blocks."""


@dataclass
class Clock:
    """A clock of nanoseconds that stands where a test sets it."""

    now: int = 10**12

    def __call__(self) -> int:
        return self.now


def small_memory(geometry: Geometry = SMALL, checksum: Checksum = Checksum.XXH3_64) -> StoreMemory:
    """A new store whose bytes were something else before, as Vineyard gives them."""
    index = memoryview(bytearray(geometry.index_bytes))
    arenas = tuple(memoryview(bytearray(b"\xa5" * geometry.arena_bytes)) for _ in range(geometry.arenas))
    block = Superblock(EPOCH, tuple(range(geometry.arenas)), geometry, checksum, 1)
    return StoreMemory.format(block, index, arenas)


def small_file(path: str) -> tuple[memoryview, tuple[memoryview, ...]]:
    """Index and arenas of a small store, one behind the other in a file, for several processes."""
    arenas = [SMALL.index_bytes + number * SMALL.arena_bytes for number in range(SMALL.arenas)]
    with Path(path).open("r+b") as file:
        file.truncate(arenas[-1] + SMALL.arena_bytes)
        whole = memoryview(mmap.mmap(file.fileno(), 0))
    return whole[: SMALL.index_bytes], tuple(whole[start : start + SMALL.arena_bytes] for start in arenas)


def key_of(number: int) -> bytes:
    return hashlib.sha256(number.to_bytes(8, "little")).digest()


def content(key: bytes, length: int) -> bytes:
    """What is stored under a key: the same key always means the same bytes, as it does for an engine."""
    return (key * (length // len(key) + 1))[:length]
