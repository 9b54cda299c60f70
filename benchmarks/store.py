"""What the store itself adds to a copy: put, copy out and find, in one process, on shared memory of a memfd.

The ruler is a plain numpy copy of the same blocks between the same kinds of memory, private to warm shared memory and
back, each paired with the copy that is measured. What two processes and a socket add is not here: that is the client's.
"""

import hashlib
import mmap
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from benchmarks.results import Result, append, machine
from kvberth.store.blockstore import BlockStore
from kvberth.store.fences import choose_fence
from kvberth.store.index import Index
from kvberth.store.layout import slots
from kvberth.store.layout.entries import Entry
from kvberth.store.layout.extents import ExtentRecord
from kvberth.store.layout.geometry import PAGE, Geometry
from kvberth.store.layout.slots import SlotState
from kvberth.store.layout.superblock import Checksum, Superblock
from kvberth.store.memory import StoreMemory
from kvberth.store.reader import Reader

MIB = 1 << 20
BLOCK, BLOCKS, ROUNDS = 2 * MIB, 64, 6
SIZES = Geometry(arenas=1, arena_bytes=(BLOCKS * BLOCK // (64 * MIB) + 1) * 65 * MIB, clients=1)
LAYOUT = 1
ENTRIES = 1_000_000
Step = Callable[[int], object]


def main() -> None:
    """Measure, print, append; the first round of each is cold and does not count."""
    for checksum in (Checksum.NONE, Checksum.XXH3_64):
        for result in measure(checksum):
            sys.stdout.write(f"{append(result)}\n")
    for result in in_a_full_index():
        sys.stdout.write(f"{append(result)}\n")


def measure(checksum: Checksum) -> Iterable[Result]:
    """Put and get of all blocks, round after round, and finding them."""
    memory = shared_store(checksum)
    store, reader = BlockStore(memory), Reader(memory, client=0)
    store.register(LAYOUT, BLOCK)
    source = np.random.default_rng(1).integers(0, 255, (BLOCKS, BLOCK), dtype=np.uint8)
    into = np.zeros((BLOCKS, BLOCK), dtype=np.uint8)
    plain = np.frombuffer(shared(BLOCKS * BLOCK), dtype=np.uint8).reshape(BLOCKS, BLOCK)
    keys = [os.urandom(32) for _ in range(BLOCKS)]
    puts, gets = [], []
    for _ in range(ROUNDS):
        store.remove(keys)
        puts.append(
            ratio(lambda at: np.copyto(plain[at], source[at]), lambda at: store.put(LAYOUT, keys[at], source[at].data))
        )
        hits = reader.lookup(keys, within_ns=10**9)
        gets.append(
            ratio(
                lambda at: np.copyto(into[at], plain[at]),
                lambda at, hits=hits: reader.copy(hits[at], into[at].data),
            )
        )
        for hit in hits:
            reader.release(hit)
    context = about(checksum)
    yield Result(name="store_put_ratio", value=statistics.median(puts[1:]), unit="of a plain copy", context=context)
    yield Result(name="store_get_ratio", value=statistics.median(gets[1:]), unit="of a plain copy", context=context)
    yield Result(name="store_find_us", value=found_in(reader, keys), unit="us", context=context)


def in_a_full_index() -> Iterable[Result]:
    """Finding one key among a million: the probe alone for hits and misses, and with the slot's header."""
    sizes = Geometry(arenas=1, arena_bytes=ENTRIES * (PAGE + 160) // PAGE * PAGE, least_slot_bytes=PAGE, clients=1)
    memory = shared_store(Checksum.NONE, sizes)
    index, reader = Index(memory), Reader(memory, client=0)
    memory.set_extent(0, ExtentRecord(PAGE, sizes.slots_per_extent, 1, LAYOUT))
    keys = [hashlib.blake2b(number.to_bytes(8, "little")).digest()[:32] for number in range(ENTRIES)]
    for slot, key in enumerate(keys):
        index.insert(Entry(key, 1, slot, 1))
    asked = keys[: sizes.slots_per_extent]
    for slot, key in enumerate(asked):
        place = memory.place(slot)
        memory.put_body(place, slots.KEY, slots.BODY.pack(key, 1, PAGE, 0))
        memory.put_word(place, slots.STATE, SlotState.PUBLISHED)
    missing = [os.urandom(32) for _ in asked]
    context = {**machine(), "entries": ENTRIES}
    spread = keys[:: ENTRIES // 20_000]
    for name, find, of in (
        ("find_us", index.find, spread),
        ("find_miss_us", index.find, missing),
        ("find_header_us", reader.find, asked),
        ("find_lease_us", partial(found_and_leased, reader), asked),
    ):
        yield Result(
            name=name, value=each_us(find, of), unit="us", target=1.0 if name == "find_us" else None, context=context
        )


def found_and_leased(reader: Reader, key: bytes) -> None:
    for hit in reader.lookup([key]):
        reader.release(hit)


def each_us(find: Callable[[bytes], object], keys: list[bytes]) -> float:
    """CPU microseconds of one call: the median of some rounds over all keys."""
    rounds = []
    for _ in range(7):
        begin = time.thread_time()
        for key in keys:
            find(key)
        rounds.append((time.thread_time() - begin) / len(keys) * 1e6)
    return statistics.median(rounds)


def ratio(ruler: Step, measured: Step) -> float:
    """The time of a plain copy by the time of what is measured, block by block in turns: 1 is the limit."""
    times = [0.0, 0.0]
    for at in range(BLOCKS):
        for which, step in enumerate((ruler, measured)):
            begin = time.perf_counter()
            step(at)
            times[which] += time.perf_counter() - begin
    return times[0] / times[1]


def found_in(reader: Reader, keys: list[bytes]) -> float:
    """Microseconds to find a block and check its header, without a lease."""
    rounds = 200
    begin = time.perf_counter()
    for _ in range(rounds):
        for key in keys:
            reader.find(key)
    return (time.perf_counter() - begin) / rounds / len(keys) * 1e6


def shared_store(checksum: Checksum, sizes: Geometry = SIZES) -> StoreMemory:
    sizes.check()
    block = Superblock(bytes(range(1, 17)), (1,), sizes, checksum, choose_fence())
    arena = shared(sizes.arena_bytes, written=sizes is SIZES)
    return StoreMemory.format(block, shared(sizes.index_bytes), (arena,))


def shared(size: int, *, written: bool = True) -> memoryview:
    """Shared memory of which every page has been written, if not said otherwise."""
    fd = os.memfd_create("kvberth-bench")
    os.ftruncate(fd, size)
    view = memoryview(mmap.mmap(fd, size))
    os.close(fd)
    if written:
        view[:: mmap.PAGESIZE] = bytes(len(view[:: mmap.PAGESIZE]))
    return view


def about(checksum: Checksum) -> dict[str, object]:
    return {
        **machine(),
        "checksum": checksum.name,
        "block_bytes": BLOCK,
        "blocks": BLOCKS,
    }


if __name__ == "__main__":
    sys.exit(main())
