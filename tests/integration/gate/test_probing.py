"""One look at what is at the socket: told apart by its reason, within its time, and without a descriptor left open."""

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kvberth.gate.program import Gate, NotOpen, probe
from kvberth.vineyard import Client, StoreFull
from support.descriptors import open_descriptors
from support.hostile_peer import GREETING, Peer, Script, frame, hostile_peer
from support.vineyardd import RunningVineyardd

pytestmark = pytest.mark.integration

NOBODY = 65534


async def reason(path: Path, timeout_s: float = 5.0) -> str:
    try:
        return (await asyncio.to_thread(probe, str(path), timeout_s))[0]
    except NotOpen as why:
        return why.reason


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user who is not root, whom no mode keeps out."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_what_is_no_answering_cache_is_told_apart(directory: Path) -> None:
    (directory / "folder").mkdir()
    (directory / "file").touch()
    with socket.socket(socket.AF_UNIX) as stale, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        stale.bind(str(directory / "stale"))
        other.bind(str(directory / "other"))
        found = {
            name: await reason(directory / name) for name in ("none", "file/x", "folder", "file", "stale", "other")
        }
    assert found == {
        "none": "SocketMissing",
        "file/x": "SocketMissing",
        "folder": "SocketIsDirectory",
        "file": "NotASocket",
        "stale": "SocketStale",
        "other": "NotASocket",
    }
    assert await reason(directory / ("x" * 120)) == "SocketPathTooLong"


@pytest.mark.parametrize("closed", ["vineyard.sock", "."])
async def test_a_user_who_may_not_reach_the_socket_is_told_by_its_numbers(directory: Path, closed: str) -> None:
    mode = 0o600 if os.geteuid() == 0 else 0  # who is not root tries as the owner, whom 0600 does not refuse
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "vineyard.sock"))
        listener.listen()
        directory.chmod(0o755)
        (directory / closed).chmod(mode)
        try:
            with as_nobody(), pytest.raises(NotOpen) as denied:
                probe(str(directory / "vineyard.sock"), 1.0)
        finally:
            directory.chmod(0o700)
    assert denied.value.reason == "SocketDenied"
    assert f"user {NOBODY if os.geteuid() == 0 else os.geteuid()}:" in denied.value.what
    assert f"mode {mode:04o}" in denied.value.what


async def test_a_full_cache_answers_and_holds_nobody(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as client:
        size = 32 << 20
        while size:
            try:
                await client.create(size)
            except StoreFull:
                size //= 2
        assert await reason(daemon.path) == "StoreFull"


async def test_a_thousand_looks_keep_the_count_of_descriptors(directory: Path, daemon: RunningVineyardd) -> None:
    (directory / "folder").mkdir()
    paths = [daemon.path, directory / "none", directory / "folder"]
    await reason(paths[0])
    before = open_descriptors()
    for number in range(1000):
        await reason(paths[number % 3])
    assert open_descriptors() == before
    async with await Client.connect(daemon.path) as client:
        assert (await client.status()).memory_usage == 0


async def test_a_frozen_cache_costs_its_time_and_no_more(daemon: RunningVineyardd) -> None:
    await daemon.freeze()
    began = time.monotonic()
    assert await reason(daemon.path, 0.5) == "DaemonHung"
    assert time.monotonic() - began < 3


async def test_a_listener_whose_queue_is_full_holds_no_look_up(directory: Path) -> None:
    path = directory / "vineyard.sock"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(path))
        listener.listen(0)
        first.connect(str(path))
        assert await reason(path, 1.0) == "DaemonHung"


SIZE = 64
CREATED = {
    "type": "create_buffer_reply",
    "id": 7,
    "fd": 3,
    "created": {"object_id": 7, "store_fd": 3, "map_size": SIZE + 8, "data_offset": 8, "data_size": 1},
}
FOUND = {"type": "get_buffers_reply", "payloads": [{**CREATED["created"]}], "fds": []}


def memory() -> int:
    fd = os.memfd_create("peer")
    os.truncate(fd, SIZE)
    return fd


def saying(*bodies: Any) -> Script:
    """A peer that gives these replies, one for each request."""

    async def script(peer: Peer) -> None:
        for body in bodies:
            await peer.read_request()
            await peer.say(body if isinstance(body, bytes) else frame(json.dumps(body).encode()))

    return script


def sharing(fds: list[int], created: Any = CREATED, *later: Any) -> Script:
    """A peer that shares these descriptors with its reply to create."""

    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.read_request()
        await peer.reply(created)
        peer.hand_over(fds)
        for reply in later:
            await peer.read_request()
            await peer.reply(reply)

    return script


@asynccontextmanager
async def peer_at(directory: Path, script: Script, *, leave: bool = False) -> AsyncIterator[Path]:
    path = directory / "vineyard.sock"
    async with hostile_peer(path, script, leave=leave):
        yield path


async def drip(peer: Peer) -> None:
    await peer.read_request()
    for byte in frame(json.dumps(GREETING).encode()):
        await peer.say(bytes([byte]))
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "body",
    [
        frame(b"not json"),
        frame(b"\xff\xfe"),
        frame(b"[]"),
        frame(b"[" * 50_000),
        frame(b"{}"),
        frame(b"x", length=0),
        frame(b"x", length=1 << 60),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        {**GREETING, "type": "status_reply"},
    ],
)
async def test_nonsense_in_place_of_a_greeting_is_told(directory: Path, body: Any) -> None:
    before = open_descriptors()
    async with peer_at(directory, saying(body)) as path:
        assert await reason(path) == "ProtocolError"
    assert open_descriptors() == before


@pytest.mark.parametrize(
    "created",
    [
        {"type": "create_buffer_reply"},
        {**CREATED, "id": "7"},
        {**CREATED, "fd": True},
        {**CREATED, "fd": -1},
        {**CREATED, "created": None},
        {**CREATED, "created": {"data_offset": -1}},
        {**CREATED, "created": {"data_offset": SIZE}},
        {**CREATED, "created": {"data_offset": 2**70}},
    ],
)
async def test_a_place_that_can_not_be_is_told(directory: Path, created: Any) -> None:
    fd = memory()
    before = open_descriptors()
    async with peer_at(directory, sharing([fd], created)) as path:
        assert await reason(path) == "ProtocolError"
    assert open_descriptors() == before
    os.close(fd)


async def test_descriptors_that_are_no_memory_are_closed(directory: Path) -> None:
    ends = [*os.pipe(), memory()]
    for fds in ([], ends[:1], ends[1:2], ends):
        before = open_descriptors()
        async with peer_at(directory, sharing(fds)) as path:
            assert await reason(path) == "ProtocolError"
        assert open_descriptors() == before
        path.unlink()
    for fd in ends:
        os.close(fd)


SEALED, DELETED = {"type": "seal_reply"}, {"type": "del_data_reply"}


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ((SEALED, FOUND, DELETED), "SocketAnswered"),
        ((SEALED, {**FOUND, "payloads": [{"store_fd": 3, "data_offset": 9}]}, DELETED), "WrongBytes"),
        ((SEALED, {**FOUND, "payloads": [{"store_fd": 4, "data_offset": 8}]}), "ProtocolError"),
        ((SEALED, {**FOUND, "payloads": []}), "ProtocolError"),
        (({"type": "seal_reply", "code": 12, "message": "gone"}, DELETED), "RequestRefused"),
        ((SEALED, FOUND, {"code": "x", "message": {}}), "RequestRefused"),
    ],
)
async def test_a_byte_has_to_come_back(directory: Path, later: tuple[Any, ...], expected: str) -> None:
    fd = memory()
    async with peer_at(directory, sharing([fd], CREATED, *later)) as path:
        assert await reason(path) == expected
    os.close(fd)


async def test_silence_and_dripping_end_with_the_time_and_a_hang_up_at_once(directory: Path) -> None:
    async with peer_at(directory, saying()) as path:
        assert await reason(path, 0.3) == "DaemonHung"
    path.unlink()
    async with peer_at(directory, drip) as path:
        assert await reason(path, 0.3) == "DaemonHung"
    path.unlink()
    async with peer_at(directory, saying(), leave=True) as path:
        assert await reason(path) == "ConnectionGone"
    path.unlink()
    async with peer_at(directory, saying(GREETING), leave=True) as path:
        assert await reason(path) == "ConnectionGone"


def opened(path: Path, endpoint: str) -> tuple[str, str, str]:
    gate = Gate(str(path), {"AIBRIX_LLM_KV_CACHE_RPC_ENDPOINT": endpoint}, print)
    ending = gate.wait()
    return ending.outcome, ending.reason, ending.message


@pytest.mark.parametrize("endpoint", ["nobody", "127.0.0.1:1", "127.0.0.1:99999", "no-such-host.invalid:9600", ":"])
async def test_an_endpoint_that_does_not_answer_is_said_and_holds_nobody(
    daemon: RunningVineyardd, endpoint: str
) -> None:
    began = time.monotonic()
    outcome, why, message = await asyncio.to_thread(opened, daemon.path, endpoint)
    assert (outcome, why) == ("open", "RpcUnreachable")
    assert endpoint in message
    assert time.monotonic() - began < 5


async def test_an_endpoint_that_accepts_and_is_silent_is_no_answer(daemon: RunningVineyardd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"
        outcome, why, _ = await asyncio.to_thread(opened, daemon.path, endpoint)
    assert (outcome, why) == ("open", "RpcUnreachable")


async def test_an_endpoint_that_answers_is_no_matter(daemon: RunningVineyardd) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        header = await reader.readexactly(8)
        request = json.loads(await reader.readexactly(int.from_bytes(header, "little")))
        assert request["type"] == "register_request"
        writer.write(frame(json.dumps(GREETING).encode()))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        outcome, why, _ = await asyncio.to_thread(opened, daemon.path, endpoint)
    assert (outcome, why) == ("open", "SocketAnswered")
