"""A proxy that stands between a client and a server and fails as networks and hung processes do.

Carries bytes, and on Unix sockets the descriptors that travel with them. What it does can be changed while
connections are open.
"""

import array
import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path

_READ_BYTES = 64 * 1024
_MOST_FDS = 16
_FD_BYTES = array.array("i").itemsize
_BACKLOG = 128
_AGAIN_S = 0.05

Dial = Callable[[], Awaitable[socket.socket]]
"""Makes a connection to the server, or raises OSError."""


async def dial_unix(path: Path) -> socket.socket:
    """Connect to a Unix socket; wait, as connections do, while who listens there takes none. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX)
    sock.setblocking(False)
    try:
        while True:
            try:
                sock.connect(str(path))
            except BlockingIOError:  # its backlog is full, and nothing tells when it has room
                await asyncio.sleep(_AGAIN_S)
                continue
            return sock
    except BaseException:
        sock.close()
        raise


class Fault(StrEnum):
    """What the proxy does to the bytes."""

    NONE = "none"
    SILENCE = "silence"
    """Takes connections and bytes, and passes nothing on: as a stopped process."""
    RESET = "reset"
    """Ends every connection, and each new one."""
    SLOW = "slow"
    """Passes on what the server answers a while later."""
    HALF_OPEN = "half-open"
    """Connections that are open now are silent for good; new ones pass."""


class FaultProxy:
    """Serves one listening socket; use it with ``async with``."""

    def __init__(self, listener: socket.socket, dial: Dial, left: Callable[[], None] | None = None) -> None:
        """The listener is the proxy's from now on.

        ``left``: let it end with its server, and be called then; without it it stays, and ends connections meanwhile.
        """
        self._listener = listener
        self._dial = dial
        self._left = left
        self._fault = Fault.NONE
        self._delay_s = 0.0
        self._changed = asyncio.Event()
        self._links: dict[asyncio.Task[None], _Link] = {}
        self._serving: asyncio.Task[None] | None = None

    def set(self, fault: Fault, delay_s: float = 0.1) -> None:
        """Do this from now on; ``delay_s`` is for SLOW."""
        self._fault, self._delay_s = fault, delay_s
        for link in self._links.values():
            link.dead = link.dead or fault is Fault.HALF_OPEN
        if fault is Fault.RESET:
            for task in self._links:
                task.cancel()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def __aenter__(self) -> "FaultProxy":
        self._listener.setblocking(False)
        self._listener.listen(_BACKLOG)
        self._serving = asyncio.create_task(self._serve(), name="fault proxy")
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = {*self._links} | ({self._serving} if self._serving is not None else set())
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await self._accept(loop)
        finally:
            self._listener.close()

    async def _accept(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            client, _ = await loop.sock_accept(self._listener)
            if self._fault is Fault.RESET:
                client.close()
                continue
            link = _Link()
            task = asyncio.create_task(self._carry(client, link), name="proxied connection")
            self._links[task] = link
            task.add_done_callback(self._links.pop)

    def _leave(self) -> None:
        """Listen no longer: whoever listens here in vain keeps the server's next life from starting."""
        if self._left is not None and self._serving is not None and not self._serving.cancelling():
            self._serving.cancel()
            self._left()

    async def _carry(self, client: socket.socket, link: "_Link") -> None:
        with client:
            await self._let_through(link)
            try:
                server = await self._dial()
            except OSError:
                self._leave()
                return
            with server, contextlib.suppress(OSError):
                server.setblocking(False)
                ways = [
                    asyncio.create_task(self._pump(client, server, link, answers=False)),
                    asyncio.create_task(self._pump(server, client, link, answers=True)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.wait(ways)

    async def _pump(self, source: socket.socket, sink: socket.socket, link: "_Link", *, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while True:
                data, fds = await _receive(source)
                try:
                    if not data:
                        return
                    await self._let_through(link, answers=answers)
                    await _send(sink, data, fds)
                finally:
                    for fd in fds:
                        os.close(fd)

    async def _let_through(self, link: "_Link", *, answers: bool = False) -> None:
        """Return when bytes may pass."""
        while link.dead or self._fault is Fault.SILENCE:
            await self._changed.wait()
        if answers and self._fault is Fault.SLOW:
            await asyncio.sleep(self._delay_s)


class _Link:
    """One proxied connection; ``dead``: nothing passes any more, though it is open."""

    def __init__(self) -> None:
        self.dead = False


async def _readable(sock: socket.socket) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sock, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock)


async def _receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    space = socket.CMSG_SPACE(_MOST_FDS * _FD_BYTES) if sock.family is socket.AF_UNIX else 0
    while True:
        try:
            data, ancillary, _, _ = sock.recvmsg(_READ_BYTES, space, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            await _readable(sock)
            continue
        fds = array.array("i")
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(content[: len(content) - len(content) % _FD_BYTES])
        return data, fds.tolist()


async def _send(sock: socket.socket, data: bytes, fds: list[int]) -> None:
    """Send descriptors with the last byte: what was sent before them was read together with them, and must not be."""
    await asyncio.get_running_loop().sock_sendall(sock, memoryview(data)[: -1 if fds else None])
    if fds:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        sock.sendmsg([data[-1:]], [rights])  # a stream that is full ends the connection: who tells stories sends little
