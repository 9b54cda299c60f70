"""Whatever answers on the socket: a typed error within the deadline, a closed connection, no descriptor leaked."""

import asyncio
import json
import os
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvberth.vineyard import (
    Client,
    ConnectionGone,
    DaemonHung,
    ObjectMissing,
    ProtocolError,
    RequestRefused,
    StoreFull,
    VineyardError,
    probe,
)
from kvberth.vineyard.connection import Connection
from support.descriptors import open_descriptors
from support.hostile_peer import GREETING, Peer, Script, frame, hostile_peer

pytestmark = pytest.mark.integration

DEADLINE_S = 0.3
BLOB = 77


def payload(**changes: Any) -> dict[str, Any]:
    return {"object_id": BLOB, "store_fd": 5, "map_size": 4096 + 8, "data_offset": 0, "data_size": 16} | changes


def created(**changes: Any) -> dict[str, Any]:
    return {"type": "create_buffer_reply", "id": BLOB, "fd": 5, "created": payload()} | changes


@pytest.fixture(autouse=True)
def _no_descriptor_leaks() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


@pytest.fixture
def store() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        file.truncate(4096)
        yield file.fileno()


def saying(*answers: bytes) -> Script:
    async def script(peer: Peer) -> None:
        for answer in answers:
            await peer.read_request()
            await peer.say(answer)

    return script


GREETED = frame(json.dumps(GREETING).encode())

NONSENSE = {
    "garbage": (b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError),
    "half a header": (b"\x10\0\0", DaemonHung),
    "half a frame": (frame(b'{"type":', 100), DaemonHung),
    "an empty frame": (frame(b""), ProtocolError),
    "a length of 2 GB": (frame(b"", 2 << 30), ProtocolError),
    "a length of all ones": (b"\xff" * 8, ProtocolError),
    "an endless stream": (b"\0\1" + b"\0" * 6 + b"x" * 600_000, ProtocolError),
    "no JSON": (frame(b"not json"), ProtocolError),
    "no text": (frame(b"\xff\xfe\xfd"), ProtocolError),
    "a JSON array": (frame(b"[1]"), ProtocolError),
    "a JSON null": (frame(b"null"), ProtocolError),
    "deep nesting": (frame(b"[" * 200_000), ProtocolError),
    "an empty object": (frame(b"{}"), ProtocolError),
    "a reply to something else": (frame(b'{"type":"seal_reply"}'), ProtocolError),
    "a code that is no number": (frame(b'{"code":"bad"}'), ProtocolError),
    "the daemon's own error": (frame(b'{"code":1,"message":"no"}'), RequestRefused),
    "a reply and more": (GREETED + b"more", ProtocolError),
}


@pytest.mark.parametrize(("answer", "expected"), NONSENSE.values(), ids=NONSENSE.keys())
async def test_nonsense_in_answer_to_register(directory: Path, answer: bytes, expected: type[VineyardError]) -> None:
    path = directory / "s"
    async with hostile_peer(path, saying(answer)):
        begun = time.monotonic()
        with pytest.raises(VineyardError, match=str(path)) as caught:
            await Client.connect(path, timeout_s=DEADLINE_S)
        assert type(caught.value) is expected
        assert caught.value.path == str(path)
        assert time.monotonic() - begun < DEADLINE_S + 0.3


@pytest.mark.parametrize(("answer", "expected"), NONSENSE.values(), ids=NONSENSE.keys())
async def test_nonsense_in_answer_to_status(directory: Path, answer: bytes, expected: type[VineyardError]) -> None:
    path = directory / "s"
    async with hostile_peer(path, saying(GREETED, answer)), await Client.connect(path) as client:
        with pytest.raises(expected):
            await client.status(timeout_s=DEADLINE_S)
        usable = expected is RequestRefused
        with pytest.raises(DaemonHung if usable else ConnectionGone):
            await client.status(timeout_s=0.05)


@pytest.mark.parametrize("cut", [0, 1, 8, 9, len(GREETED) - 1])
async def test_a_peer_that_leaves_in_the_middle_of_its_answer_to_register(directory: Path, cut: int) -> None:
    path = directory / "s"
    async with hostile_peer(path, saying(GREETED[:cut]), leave=True):
        with pytest.raises(ConnectionGone):
            await Client.connect(path, timeout_s=DEADLINE_S)
        with pytest.raises(ConnectionGone):
            await probe(path, timeout_s=DEADLINE_S)


async def leave(peer: Peer) -> None:
    pass


async def test_a_peer_that_leaves_at_once(directory: Path) -> None:
    async with hostile_peer(directory / "s", leave, leave=True):
        with pytest.raises(ConnectionGone):
            await Client.connect(directory / "s", timeout_s=DEADLINE_S)


async def test_a_peer_that_leaves_after_greeting(directory: Path) -> None:
    async with (
        hostile_peer(directory / "s", saying(GREETED), leave=True),
        await Client.connect(directory / "s") as client,
    ):
        async with asyncio.timeout(DEADLINE_S):
            await client.wait_closed()
        with pytest.raises(ConnectionGone):
            await client.status()


async def test_a_refusal_is_told_even_by_a_peer_that_leaves_with_it(directory: Path) -> None:
    async with hostile_peer(directory / "s", saying(frame(b'{"code":1,"message":"not you"}')), leave=True):
        with pytest.raises(RequestRefused, match="refused with code 1: not you"):
            await Client.connect(directory / "s")


async def test_a_client_that_is_refused_leaves(directory: Path) -> None:
    left = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.reply({"code": 1, "message": "not you"})
        await peer.until_left()
        left.set()

    async with hostile_peer(directory / "s", script):
        with pytest.raises(RequestRefused):
            await Client.connect(directory / "s")
        async with asyncio.timeout(1.0):
            await left.wait()


async def test_a_peer_that_never_answers_is_hung_at_the_deadline(directory: Path) -> None:
    async with hostile_peer(directory / "s", saying()):
        begun = time.monotonic()
        with pytest.raises(DaemonHung):
            await Client.connect(directory / "s", timeout_s=DEADLINE_S)
        assert DEADLINE_S * 0.9 <= time.monotonic() - begun < DEADLINE_S + 0.3


async def test_a_peer_that_never_reads_a_large_request_is_hung_at_the_deadline(directory: Path) -> None:
    async def deaf(peer: Peer) -> None:
        await peer.greet()
        await asyncio.sleep(3600)

    async with hostile_peer(directory / "s", deaf), await Client.connect(directory / "s") as client:
        with pytest.raises(DaemonHung):
            await client.delete([2**63 + n for n in range(1000)] * 30, timeout_s=DEADLINE_S)


async def test_bytes_that_nobody_asked_for_close_the_connection(directory: Path, store: int) -> None:
    async def pushy(peer: Peer) -> None:
        await peer.greet()
        await peer.read_request()
        await peer.reply({"type": "seal_reply"})
        await peer.read_request()
        await peer.reply({"code": 12, "message": "no such"})
        await asyncio.sleep(0.05)  # the client is idle now: that is what this peer waits for
        peer.hand_over([store, store, store])

    async with hostile_peer(directory / "s", pushy), await Client.connect(directory / "s") as client:
        await client.seal(BLOB)
        with pytest.raises(ObjectMissing):
            await client.seal(BLOB)
        async with asyncio.timeout(1.0):
            await client.wait_closed()
        with pytest.raises(ConnectionGone, match="nobody asked for"):
            await client.seal(BLOB)


Ask = Callable[[Client], Awaitable[object]]


def create(client: Client) -> Awaitable[object]:
    return client.create(16, timeout_s=DEADLINE_S)


def get(client: Client) -> Awaitable[object]:
    return client.get(BLOB, timeout_s=DEADLINE_S)


def found(*payloads: Any, fds: Any = (5,)) -> dict[str, Any]:
    return {"type": "get_buffers_reply", "payloads": list(payloads), "fds": fds}


HUGE = created(created=payload(map_size=1 << 30))
WRONG_BLOBS: dict[str, tuple[Ask, dict[str, Any]]] = {
    "another size": (create, created(created=payload(data_size=17))),
    "another id": (create, created(id=78)),
    "no id": (create, created(id=None)),
    "an id that is a truth value": (create, created(id=True)),
    "no payload": (create, created(created=None)),
    "an offset before the memory": (create, created(created=payload(data_offset=-1))),
    "a blob beyond the memory": (create, created(created=payload(data_offset=4090))),
    "a negative memory": (create, created(created=payload(map_size=-1))),
    "a memory larger than its descriptor": (create, HUGE),
    "a memory larger than any": (create, created(created=payload(map_size=1 << 70))),
    "a memory never sent": (create, created(fd=-1)),
    "two blobs": (get, found(payload(), payload())),
    "a blob nobody asked for": (get, found(payload(object_id=78))),
    "a blob that is none": (get, found(7)),
    "descriptors that are none": (get, found(payload(), fds=None)),
    "descriptors without a blob": (get, found(fds=[5])),
    "too many descriptors": (get, found(payload(), fds=[5, 6])),
}


@pytest.mark.parametrize(("ask", "answer"), WRONG_BLOBS.values(), ids=WRONG_BLOBS.keys())
@pytest.mark.parametrize("sent", [0, 1, 3])
async def test_a_wrong_blob(directory: Path, store: int, ask: Ask, answer: dict[str, Any], sent: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.read_request()
        if sent:
            peer.hand_over([store] * sent, frame(json.dumps(answer).encode()) + b"\0")
        else:
            await peer.reply(answer)

    async with hostile_peer(directory / "s", script), await Client.connect(directory / "s") as client:
        # A reply that is right in itself is taken at its word, so the descriptor that it announces is waited for.
        with pytest.raises(DaemonHung if answer is HUGE and not sent else ProtocolError):
            await ask(client)
        with pytest.raises(ConnectionGone):
            await ask(client)


async def test_a_descriptor_may_come_with_the_reply_or_after_it(directory: Path, store: int) -> None:
    reply = frame(json.dumps(created()).encode())

    async def script(peer: Peer) -> None:
        await peer.greet()
        kind = (await peer.read_request())["size"]
        if kind == 16 and not script_state:
            script_state.append("together")
            peer.hand_over([store], reply + b"\0")
        else:
            await peer.say(reply[:10])
            await asyncio.sleep(0.02)  # the pieces must arrive one by one
            await peer.say(reply[10:])
            await asyncio.sleep(0.02)
            peer.hand_over([store])

    script_state: list[str] = []
    async with hostile_peer(directory / "s", script):
        for _ in range(2):
            async with await Client.connect(directory / "s") as client:
                blob = await client.create(16)
                blob.buffer[:] = b"0123456789abcdef"
                assert os.pread(store, 16, 0) == b"0123456789abcdef"
                del blob


async def test_a_byte_that_carries_no_descriptor(directory: Path) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.read_request()
        await peer.reply(created())
        await peer.say(b"\0")

    async with hostile_peer(directory / "s", script), await Client.connect(directory / "s") as client:
        with pytest.raises(ProtocolError, match="sent none"):
            await create(client)


async def test_a_descriptor_that_never_comes_is_hung(directory: Path) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.read_request()
        await peer.reply(created())

    async with hostile_peer(directory / "s", script), await Client.connect(directory / "s") as client:
        with pytest.raises(DaemonHung):
            await create(client)


async def test_a_descriptor_that_is_no_memory(directory: Path) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.read_request()
        await peer.reply(created())
        left, right = socket.socketpair()
        with left, right:
            peer.hand_over([left.fileno()])

    async with hostile_peer(directory / "s", script), await Client.connect(directory / "s") as client:
        with pytest.raises(ProtocolError, match="cannot be mapped"):
            await create(client)


async def test_a_flood_of_descriptors_is_cut_off(directory: Path, store: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.read_request()
        await peer.say(frame(b"", 200))  # a frame that never becomes whole, so only the descriptors can be too many
        for _ in range(50):
            peer.hand_over([store])

    async with hostile_peer(directory / "s", script), await Client.connect(directory / "s") as client:
        with pytest.raises(ProtocolError, match="more than any reply holds"):
            await create(client)


async def test_a_refusal_keeps_the_connection_and_its_text_short(directory: Path) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.read_request()
        await peer.reply({"code": 41, "message": "full " * 10_000})
        await peer.read_request()
        await peer.reply({"type": "seal_reply"})

    async with hostile_peer(directory / "s", script), await Client.connect(directory / "s") as client:
        with pytest.raises(StoreFull) as caught:
            await create(client)
        assert len(str(caught.value)) < 700
        await client.seal(BLOB)


async def test_closing_ends_a_request_in_flight(directory: Path) -> None:
    async with hostile_peer(directory / "s", saying(GREETED)):
        client = await Client.connect(directory / "s")
        request = asyncio.create_task(client.status(timeout_s=10.0))
        closed = asyncio.create_task(client.wait_closed())
        await asyncio.sleep(0)
        await client.aclose()
        async with asyncio.timeout(1.0):
            with pytest.raises(ConnectionGone, match="closed by this side"):
                await request
            await closed


@pytest.mark.parametrize("fd", [5, -1])
async def test_closing_wins_over_a_reply_that_has_just_arrived(directory: Path, store: int, fd: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.read_request()
        peer.hand_over([store], frame(json.dumps(created()).encode()) + b"\0")
        await peer.read_request()
        reply = frame(json.dumps(created(fd=fd)).encode())
        if fd == -1:
            await peer.say(reply)
        else:
            peer.hand_over([store], reply + b"\0")

    async with hostile_peer(directory / "s", script), await Client.connect(directory / "s") as client:
        await client.create(16)
        request = asyncio.create_task(client.create(16))
        async with asyncio.timeout(1.0):
            # ASYNC110: one turn of the loop at a time is the point, to be there before the request is.
            while not client._connection._inbox:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await client.aclose()
        with pytest.raises(ConnectionGone, match="closed by this side"):
            await request


async def test_a_received_descriptor_is_not_inherited_by_child_processes(directory: Path, store: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.read_request()
        peer.hand_over([store])

    async with hostile_peer(directory / "s", script):
        connection = await Connection.open(str(directory / "s"))
        connection.send(frame(b"{}"))
        async with asyncio.timeout(1.0):
            fd = await connection.receive_fd()
        assert not os.get_inheritable(fd)
        os.close(fd)
        connection.close(ConnectionGone, "done")
