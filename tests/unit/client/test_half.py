"""The client's own thread, turn by turn, in this one: after the end of its session it does nothing more in it.

And after a copy that failed nothing stays mapped and locked.
"""

import os
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from kvberth.client import Client, Outcome
from kvberth.client.client import Found
from kvberth.client.desk import Desk
from kvberth.client.half import EngineHalf
from kvberth.client.host import Bytes, HostRegions, Place
from kvberth.client.link import Identity, Link
from kvberth.client.mapping import Mapping
from kvberth.store.control import CLIENTS_NAME, Layout, Welcome
from kvberth.store.errors import CopyFailed
from kvberth.store.layout import pages, slots
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.rings import Grant
from kvberth.store.layout.slots import SlotState
from kvberth.store.layout.superblock import Checksum, Superblock
from kvberth.store.locks import is_held, lock_path
from kvberth.store.memory import StoreMemory
from kvberth.store.reader import Hit
from kvberth.store.rings import WorkerRings
from support.store_memory import EPOCH, SMALL, key_of, small_file

CLIENT = b"c" * 16


@pytest.fixture
def store() -> Iterator[tuple[StoreMemory, int]]:
    """A small store as its worker has it, and the descriptor of its file."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        block = Superblock(EPOCH, tuple(range(SMALL.arenas)), SMALL, Checksum.NONE, 1)
        yield StoreMemory.format(block, *small_file(file.name)), file.fileno()


@pytest.fixture
def mapping(tmp_path: Path, store: tuple[StoreMemory, int]) -> Mapping:
    """The store as a client has mapped it."""
    (tmp_path / CLIENTS_NAME).mkdir()
    arenas = [(0, SMALL.index_bytes + n * SMALL.arena_bytes, SMALL.arena_bytes) for n in range(SMALL.arenas)]
    blobs = ((0, 0, SMALL.index_bytes), *arenas)
    welcome = Welcome(EPOCH, 0, (os.fstat(store[1]).st_size,), blobs)
    return Mapping(tmp_path, CLIENT, welcome, [store[1]])


@pytest.fixture
def link(mapping: Mapping) -> Iterator[Link]:
    here, there = socket.socketpair()
    here.setblocking(False)
    with here, there:
        yield Link(here, Layout(1, PAGE, 1), mapping)


@pytest.fixture
def worker(store: tuple[StoreMemory, int], link: Link) -> WorkerRings:
    """The worker's side of a session in which it lets in what the client offers."""
    made = WorkerRings(store[0], 0)
    link.mapping.rings.page[pages.QUOTA_SEEN] = made.mirror[pages.QUOTA]
    for slot in range(4):
        store[0].set_word(slot, slots.DEADLINE, 1 << 62)
    return made


class FailingRegions(HostRegions):
    """Those of a device that copies nothing: a copy that fails has the slot's bytes in its hands."""

    def __init__(self, kind: type[Exception]) -> None:
        super().__init__([np.zeros((8, PAGE), dtype=np.uint8)])
        self._kind = kind

    def _pairs(
        self, block_ids: Sequence[int], arenas: Sequence[Bytes], places: Sequence[Place]
    ) -> Iterator[tuple[Bytes, Bytes]]:
        for _, slot in super()._pairs(block_ids, arenas, places):
            raise self._kind(f"{slot[:0].size} bytes were copied")
        yield from ()


class BusyRegions(HostRegions):
    """Those of a device that computes for ten seconds before it copies, by the clock `now`."""

    def __init__(self) -> None:
        super().__init__([np.zeros((8, PAGE), dtype=np.uint8)])
        self.now = 0.0

    def wait_marked(self) -> None:
        self.now += 10.0

    def wait_begun(self) -> None:
        self.now += 10.0

    def store(self, block_ids: Sequence[int], arenas: Sequence[Bytes], places: Sequence[Place]) -> None:
        super().store(block_ids, arenas, places)
        self.now += 0.5

    def load(self, block_ids: Sequence[int], arenas: Sequence[Bytes], places: Sequence[Place]) -> None:
        super().load(block_ids, arenas, places)
        self.now += 0.25


def connected(directory: Path, regions: HostRegions, link: Link) -> EngineHalf:
    """A registered client that may offer."""
    desk = Desk()
    half = EngineHalf(Identity(directory, CLIENT, bytes(32), regions.regions), regions, desk)
    half._link = link
    desk.attach(link.mapping)
    desk.open_for(PAGE)
    desk.queue.quota = 8 * PAGE
    return half


def test_nothing_is_copied_or_committed_after_receipts_that_can_not_be_read(
    tmp_path: Path, link: Link, worker: WorkerRings
) -> None:
    half = connected(tmp_path, HostRegions([np.zeros((8, PAGE), dtype=np.uint8)]), link)
    desk = half._desk
    worker.grant([Grant(1, 0, 1)])
    first = desk.offer([key_of(1)], [0], 0, 10**10)
    assert half._turn(link)
    assert (first.released, worker.waiting()) == (True, 1)
    worker.grant([Grant(2, 1, 1)])
    worker.mirror[pages.RECEIPT_TAIL] = 1 << 40
    second = desk.offer([key_of(2)], [1], 0, 10**10)
    assert half._turn(link)
    assert half._link is None
    assert (second.released, worker.waiting()) == (False, 1)
    half._settle_flying(Outcome.NO_CACHE)
    assert desk.detach() is None
    assert first.outcomes == second.outcomes == [Outcome.NO_CACHE]


@pytest.mark.parametrize("kind", [CopyFailed, MemoryError])
def test_a_store_that_fails_leaves_nothing_mapped_and_locked(
    tmp_path: Path, link: Link, worker: WorkerRings, kind: type[Exception]
) -> None:
    half = connected(tmp_path, FailingRegions(kind), link)
    worker.grant([Grant(1, 0, 1)])
    ticket = half._desk.offer([key_of(1)], [0], 0, 10**10)
    half._run()
    assert half.why == f"the client's thread has failed: {kind.__name__}: 0 bytes were copied"
    assert ticket.outcomes == [Outcome.NO_CACHE]
    assert not is_held(lock_path(tmp_path, EPOCH, CLIENT))


def test_a_load_that_fails_leaves_nothing_mapped_and_locked(
    tmp_path: Path, mapping: Mapping, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(tmp_path, [np.zeros((8, PAGE), dtype=np.uint8)], {"model": "m"}) as client:
        client._desk.attach(mapping)
        monkeypatch.setattr(client, "_regions", FailingRegions(CopyFailed))
        found = Found((Hit(key_of(1), 0, 2, PAGE, PAGE, 0),), client._desk.serial)
        assert client.load(found, [0]) == 0
        client._half._thread.join(10)
        assert client.why == "0 bytes were copied"
        assert not is_held(lock_path(tmp_path, EPOCH, CLIENT))


def test_what_an_engine_still_computes_is_no_part_of_what_storing_takes(
    tmp_path: Path, link: Link, worker: WorkerRings, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions = BusyRegions()
    half = connected(tmp_path, regions, link)
    monkeypatch.setattr(time, "perf_counter", lambda: regions.now)
    worker.grant([Grant(1, 0, 1)])
    half._desk.offer([key_of(1)], [0], 0, 10**10)
    assert half._turn(link)
    assert (regions.now, half._desk.governor._storing.value) == (10.5, 0.5)
    half._settle_flying(Outcome.NO_CACHE)
    assert half._desk.detach() is None


def test_what_an_engine_still_computes_is_no_part_of_what_loading_takes(
    tmp_path: Path, store: tuple[StoreMemory, int], mapping: Mapping, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions = BusyRegions()
    for word, value in ((slots.STATE, SlotState.PUBLISHED), (slots.GENERATION, 2)):
        store[0].set_word(0, word, value)
    with Client(tmp_path, [np.zeros((8, PAGE), dtype=np.uint8)], {"model": "m"}) as client:
        client._desk.attach(mapping)
        monkeypatch.setattr(client, "_regions", regions)
        monkeypatch.setattr(time, "perf_counter", lambda: regions.now)
        assert client.load(Found((Hit(key_of(1), 0, 2, PAGE, PAGE, 0),), client._desk.serial), [0]) == 1
        assert (regions.now, client._desk.governor._loading.value) == (10.25, 0.25)
