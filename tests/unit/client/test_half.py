"""The client's own thread, turn by turn, in this one: after the end of its session it does nothing more in it."""

import os
import socket
import tempfile
from pathlib import Path

import numpy as np

from kvberth.client import Outcome
from kvberth.client.desk import Desk
from kvberth.client.half import EngineHalf
from kvberth.client.host import HostRegions
from kvberth.client.link import Identity, Link
from kvberth.client.mapping import Mapping
from kvberth.store.control import CLIENTS_NAME, Layout, Welcome
from kvberth.store.layout import pages, slots
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.rings import Grant
from kvberth.store.layout.superblock import Checksum, Superblock
from kvberth.store.memory import StoreMemory
from kvberth.store.rings import WorkerRings
from support.store_memory import EPOCH, SMALL, key_of, small_file

CLIENT = b"c" * 16


def test_nothing_is_copied_or_committed_after_receipts_that_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / CLIENTS_NAME).mkdir()
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        block = Superblock(EPOCH, tuple(range(SMALL.arenas)), SMALL, Checksum.NONE, 1)
        memory = StoreMemory.format(block, *small_file(file.name))
        arenas = [(0, SMALL.index_bytes + n * SMALL.arena_bytes, SMALL.arena_bytes) for n in range(SMALL.arenas)]
        blobs = ((0, 0, SMALL.index_bytes), *arenas)
        welcome = Welcome(EPOCH, 0, (os.fstat(file.fileno()).st_size,), blobs)
        mapping, desk = Mapping(tmp_path, CLIENT, welcome, [file.fileno()]), Desk()
        regions = HostRegions([np.zeros((8, PAGE), dtype=np.uint8)])
        half = EngineHalf(Identity(tmp_path, CLIENT, bytes(32), regions.regions), regions, desk)
        here, there = socket.socketpair()
        here.setblocking(False)
        with there:
            half._link = link = Link(here, Layout(1, PAGE, 1), mapping)
            desk.attach(mapping)
            desk.open_for(PAGE)
            desk.queue.quota = 8 * PAGE
            worker = WorkerRings(memory, 0)
            worker.mirror[pages.QUOTA] = worker.page[pages.QUOTA_SEEN]
            for slot in range(4):
                memory.set_word(slot, slots.DEADLINE, 1 << 62)
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
        del link, worker
        assert desk.detach() is None
        assert first.outcomes == second.outcomes == [Outcome.NO_CACHE]
