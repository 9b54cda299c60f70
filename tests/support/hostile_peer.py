"""A hostile peer on a Unix socket: it says the bytes that a test gives it. No imitation of vineyardd."""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

GREETING = {"type": "register_reply", "instance_id": 0, "version": "0.24.2", "ipc_socket": "/x", "store_match": True}


class Peer:
    """The peer's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()

    async def read_request(self) -> Any:
        (length,) = struct.unpack("<Q", await self._read(8))
        return json.loads(await self._read(length))

    async def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = await self._loop.sock_recv(self._sock, count - len(data))
            if not chunk:
                raise ConnectionResetError("the client left")
            data += chunk
        return data

    async def say(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._sock, data)

    async def reply(self, value: Any) -> None:
        await self.say(frame(json.dumps(value).encode()))

    def hand_over(self, fds: list[int], data: bytes = b"\0") -> None:
        socket.send_fds(self._sock, [data], fds)

    async def greet(self) -> None:
        await self.read_request()
        await self.reply(GREETING)

    async def until_left(self) -> None:
        with contextlib.suppress(OSError):
            while await self._loop.sock_recv(self._sock, 65536):
                pass


Script = Callable[[Peer], Awaitable[None]]


def frame(body: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(body) if length is None else length) + body


@asynccontextmanager
async def hostile_peer(path: Path, script: Script, *, leave: bool = False) -> AsyncIterator[None]:
    """Runs `script` for every connection; afterwards the peer leaves at once, or listens until the client leaves."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.setblocking(False)
        listener.bind(str(path))
        listener.listen(16)
        serving = asyncio.create_task(_serve(listener, script, leave=leave))
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            if not serving.cancelled():
                serving.result()


async def _serve(listener: socket.socket, script: Script, *, leave: bool) -> None:
    loop = asyncio.get_running_loop()
    while True:
        sock, _ = await loop.sock_accept(listener)
        with sock:
            sock.setblocking(False)
            peer = Peer(sock)
            with contextlib.suppress(OSError):
                await script(peer)
                if not leave:
                    await peer.until_left()
