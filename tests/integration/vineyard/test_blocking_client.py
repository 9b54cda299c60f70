"""The client for threads and a real vineyardd, and whatever else may answer; what it stores the official one checks."""

import asyncio
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from integration.vineyard.witnessed import witness
from kvberth.vineyard import (
    BlockingClient,
    ConnectionGone,
    DaemonHung,
    KeptClient,
    NotASocket,
    ObjectMissing,
    ObjectNotSealed,
    ProtocolError,
    SocketDenied,
    SocketMissing,
    SocketPathTooLong,
    SocketStale,
    StoreFull,
    VineyardError,
)
from support.descriptors import open_descriptors
from support.hostile_peer import GREETING, frame
from support.vineyardd import RunningVineyardd, running_vineyardd

pytestmark = pytest.mark.integration

T = TypeVar("T")

MIB = 1 << 20
GREETED = frame(json.dumps(GREETING).encode())


async def in_thread(call: Callable[[], T]) -> T:
    async with asyncio.timeout(30):
        return await asyncio.to_thread(call)


async def test_the_official_client_reads_what_a_thread_wrote_and_the_other_way_round(daemon: RunningVineyardd) -> None:
    data = os.urandom(5000)

    def put() -> int:
        with BlockingClient.connect(daemon.path) as client:
            blob = client.create(len(data))
            blob.buffer[:] = data
            client.seal(blob.object_id)
            return blob.object_id

    written = await in_thread(put)
    assert await witness(daemon.path, "get", str(written)) == data.hex()
    theirs = int(await witness(daemon.path, "put", data[::-1].hex()))

    def get_and_delete() -> bytes:
        with BlockingClient.connect(daemon.path) as client:
            view = client.get(theirs)
            assert view.readonly
            client.delete([written, theirs])
            return bytes(view)

    assert await in_thread(get_and_delete) == data[::-1]
    assert await witness(daemon.path, "get", str(written)) == "missing"


async def test_thousands_of_blobs_share_one_mapping_and_go_in_one_call(daemon: RunningVineyardd) -> None:
    def work() -> None:
        with BlockingClient.connect(daemon.path) as client:
            first = client.create(100)
            after_first = open_descriptors()
            ids = [first.object_id, *(client.create(64).object_id for _ in range(1500))]
            assert open_descriptors() == after_first
            client.delete([*ids, 12345], timeout_s=10.0)
            client.delete([])
            assert client.status().memory_usage == 0

    await in_thread(work)


async def test_refusals_have_the_same_classes_and_leave_the_connection_open(daemon: RunningVineyardd) -> None:
    def work() -> None:
        with BlockingClient.connect(daemon.path) as client:
            blob = client.create(40 * MIB)
            for size in (40 * MIB, 2**63, 2**80):
                with pytest.raises(StoreFull, match=r"vineyard\.sock: "):
                    client.create(size)
            with pytest.raises(ObjectNotSealed):
                client.get(blob.object_id)
            for call in (client.get, client.seal):
                with pytest.raises(ObjectMissing):
                    call(12345)
            assert not client.closed

    await in_thread(work)


async def test_a_stopped_daemon_costs_one_thread_its_deadline_and_the_loop_nothing(daemon: RunningVineyardd) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    client = await in_thread(lambda: BlockingClient.connect(daemon.path))
    ticking = asyncio.create_task(tick())
    await daemon.freeze()
    try:
        for call in (
            lambda: client.status(timeout_s=0.5),
            lambda: BlockingClient.connect(daemon.path, timeout_s=0.5).close(),
        ):
            ticks, begun = 0, time.monotonic()
            with pytest.raises(DaemonHung, match=r"within 0\.\d+ s"):
                await in_thread(call)
            assert 0.45 <= time.monotonic() - begun < 0.9
            assert ticks > 20
        with pytest.raises(ConnectionGone, match="connect again"):
            client.status()
    finally:
        daemon.thaw()
        ticking.cancel()
        client.close()


async def test_another_thread_can_end_a_wait_and_one_in_line_keeps_its_own_deadline(daemon: RunningVineyardd) -> None:
    with BlockingClient.connect(daemon.path) as client:
        await daemon.freeze()
        try:
            failed: list[VineyardError] = []

            def ask() -> None:
                with pytest.raises(VineyardError) as caught:
                    client.status(timeout_s=20.0)
                failed.append(caught.value)

            waiting = threading.Thread(target=ask)
            waiting.start()
            async with asyncio.timeout(5.0):
                # ASYNC110: a thread that waits in a system call sets no event.
                while not client._lock.locked():  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            with pytest.raises(DaemonHung):
                await in_thread(lambda: client.status(timeout_s=0.1))
            await in_thread(client.close)
            await in_thread(lambda: waiting.join(5.0))
            assert isinstance(failed[0], ConnectionGone)
            assert "closed by this side" in str(failed[0])
        finally:
            daemon.thaw()


async def test_a_killed_daemon_is_gone_at_the_next_request_and_stale_at_the_next_connection(
    daemon: RunningVineyardd,
) -> None:
    with BlockingClient.connect(daemon.path) as client:
        view = client.create(4).buffer
        view[:] = b"kept"
        await daemon.kill()
        with pytest.raises(ConnectionGone, match="daemon"):
            client.status()
        assert client.closed
        assert bytes(view) == b"kept"
    with pytest.raises(SocketStale):
        BlockingClient.connect(daemon.path)


def test_what_is_wrong_with_a_socket_has_the_class_that_the_loops_client_gives(directory: Path) -> None:
    path = directory / "vineyard.sock"
    with pytest.raises(SocketMissing):
        BlockingClient.connect(path)
    with pytest.raises(SocketPathTooLong):
        BlockingClient.connect(directory / ("x" * 108))
    path.mkdir()
    with pytest.raises(NotASocket):
        BlockingClient.connect(path)
    path.rmdir()
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(str(path))
    with pytest.raises(SocketStale):
        BlockingClient.connect(path)
    if os.geteuid() != 0:  # root may reach everything
        directory.chmod(0)
        try:
            with pytest.raises(SocketDenied):
                BlockingClient.connect(path)
        finally:
            directory.chmod(0o700)


@pytest.fixture
def listener(directory: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(directory / "vineyard.sock"))
        sock.listen(1)
        yield sock


NONSENSE: dict[str, tuple[bytes, type[VineyardError]]] = {
    "garbage": (b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError),
    "half a frame": (frame(b'{"type":', 100), DaemonHung),
    "a length of all ones": (b"\xff" * 8, ProtocolError),
    "no JSON": (frame(b"not json"), ProtocolError),
    "more than the reply": (GREETED + b"x", ProtocolError),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_named_within_the_deadline_and_leaks_nothing(
    directory: Path, listener: socket.socket, case: str
) -> None:
    answer, expected = NONSENSE[case]
    before = open_descriptors()

    def answering() -> None:
        peer, _ = listener.accept()
        with peer, contextlib.suppress(OSError):  # the client leaves in anger
            peer.recv(65536)
            peer.sendall(answer)
            peer.recv(65536)

    thread = threading.Thread(target=answering)
    thread.start()
    with (
        pytest.raises(expected),
        BlockingClient.connect(directory / "vineyard.sock", timeout_s=0.3) as client,
    ):
        client.status(timeout_s=0.3)
    thread.join(5.0)
    assert open_descriptors() == before


def test_a_full_backlog_is_a_daemon_that_gives_no_answer(directory: Path, listener: socket.socket) -> None:
    path = str(directory / "vineyard.sock")
    crowd = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    try:
        for sock in crowd:
            sock.connect(path)
        begun = time.monotonic()
        with pytest.raises(DaemonHung):
            BlockingClient.connect(path, timeout_s=0.3)
        assert 0.25 <= time.monotonic() - begun < 0.8
    finally:
        for sock in crowd:
            sock.close()


async def test_a_kept_connection_is_one_until_it_is_lost_and_then_another(directory: Path) -> None:
    path = directory / "vineyard.sock"
    kept = KeptClient(path)
    assert kept.open is None
    async with running_vineyardd(path) as first:
        client = await kept.client()
        assert await kept.client() is client is kept.open
        await first.kill()
        async with asyncio.timeout(1.0):
            await client.wait_closed()
        assert kept.open is None
        with pytest.raises(SocketStale):
            await kept.client()
    async with running_vineyardd(path) as second:
        again = await kept.client()
        assert again is not client
        assert (await again.status()).deployment == second.incarnation
        await kept.aclose()
        assert again.closed
        assert kept.open is None
