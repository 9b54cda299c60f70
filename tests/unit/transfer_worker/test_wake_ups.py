"""Client, worker and daemon wake each other: here each would sleep for a minute if it were not woken."""

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from kvberth.client import Client, Outcome, half
from kvberth.store import control, locks
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.superblock import Checksum, Superblock
from kvberth.store.memory import ASLEEP, StoreMemory
from kvberth.transfer_worker import answers, worker
from kvberth.transfer_worker.listener import Listener
from kvberth.transfer_worker.prover import Prover
from kvberth.transfer_worker.serving import Serving, ServingSettings, Totals
from kvberth.vineyard import SharedBlob, StandingQuestion, wire
from kvberth.vineyard.stream import BlockingStream
from support.store_memory import EPOCH, SMALL, key_of, small_file
from support.waiting import until

LONG_S = 60.0
WITHIN_S = 20.0
REPLY: wire.Json = {
    "type": "instance_status_reply",
    "meta": {
        "instance_id": 0, "deployment": "this life", "memory_usage": 0, "memory_limit": 1, "ipc_connections": 1
    },
}  # fmt: skip


def standing() -> StandingQuestion:
    """A connection to a daemon that answers each question on it."""
    here, there = socket.socketpair()

    def answer() -> None:
        with there:
            while there.recv(1 << 16):
                there.sendall(wire.encode(REPLY))

    threading.Thread(target=answer, daemon=True).start()
    return StandingQuestion(BlockingStream("/a/socket", here), "this life")


@dataclass
class Pair:
    """An engine's client and the worker that serves it, both in this process."""

    client: Client
    memory: StoreMemory

    async def both_sleep(self) -> None:
        await until(lambda: self.memory.worker_words[ASLEEP] and self.client._desk._dozes)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    for module, name in ((worker, "SLEEP_S"), (worker, "_IDLE_S"), (half, "_BUSY_S"), (half, "_IDLE_S")):
        monkeypatch.setattr(module, name, LONG_S)
    monkeypatch.setattr(answers, "LATE_NS", int(LONG_S * 1e9))
    locks.make_clients(tmp_path)
    closing = threading.Event()
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        block = Superblock(EPOCH, tuple(range(SMALL.arenas)), SMALL, Checksum.XXH3_64, 1)
        memory = StoreMemory.format(block, *small_file(file.name))
        listener, prover = Listener(tmp_path / control.SOCKET_NAME), Prover(lambda: None, standing)
        serving = Serving(memory, ServingSettings(tmp_path, 40 * PAGE, int(LONG_S * 1e9)), Totals())
        epoch = worker._Epoch(serving, listener, prover, shared(file.fileno()), lambda _: None)
        serves = threading.Thread(target=epoch.run, args=(closing,))
        client = Client(tmp_path, [np.zeros((8, PAGE), dtype=np.uint8)], {"model": "m"})
        serves.start()
        try:
            yield Pair(client, memory)
        finally:
            closing.set()
            client.close()  # whose leaving wakes the worker
            serves.join(2 * LONG_S)
            listener.watch(None)
            prover.close()
            listener.close()


def shared(fd: int) -> list[SharedBlob]:
    whole = os.fstat(fd).st_size
    arenas = [SMALL.index_bytes + number * SMALL.arena_bytes for number in range(SMALL.arenas)]
    rest = [SharedBlob(fd, whole, at, SMALL.arena_bytes) for at in arenas]
    return [SharedBlob(fd, whole, 0, SMALL.index_bytes), *rest]


async def test_a_block_that_is_offered_while_all_sleep_is_stored_and_answered_for_at_once(pair: Pair) -> None:
    assert pair.client.wait_connected(WITHIN_S)
    for number in range(20):
        await pair.both_sleep()
        ticket = pair.client.offload([key_of(number)], [number % 8])
        assert ticket.wait(WITHIN_S)
        assert ticket.outcomes == [Outcome.STORED]
