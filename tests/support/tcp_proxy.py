"""A TCP proxy before a TLS server: plain HTTP on our side, so that a test can do to the bytes what networks do.

It forwards; it can fall silent, reset, refuse, cut an answer short, or give a canned answer (429, 502) to chosen
requests. It knows heads and lengths of requests and nothing of what they mean.
"""

import asyncio
import contextlib
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

_CHUNK = 65536


def http_answer(status: str, body: bytes, *headers: str, content_type: str = "application/json") -> bytes:
    """The bytes of an answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass
class _Canned:
    pattern: re.Pattern[str]
    answer: bytes
    times: int


@dataclass(eq=False)
class Gate:
    """Holds the next request that its pattern finds."""

    pattern: re.Pattern[str]
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class _Pair:
    """One client's connection and ours to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter

    def reset(self) -> None:
        """RST to the client: no goodbye."""
        sock = self.client.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.client.transport.abort()
        self.server.transport.abort()


@dataclass
class TcpProxy:
    """A proxy that obeys; `requests` holds the first line of each request in order."""

    port: int
    certificate: Path
    requests: list[str] = field(default_factory=list)
    listen_port: int = 0
    cut_after: int | None = None
    """Bytes of answers that pass before the connection ends; None for all."""

    def __post_init__(self) -> None:
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._pairs: set[_Pair] = set()
        self._canned: list[_Canned] = []
        self._gates: list[Gate] = []
        self._context = ssl.create_default_context(cafile=self.certificate)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listen_port}"

    async def open(self) -> None:
        """Listen; on the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.listen_port)
        self.listen_port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse new connections and reset those that are open; nobody waits at a gate any more."""
        for gate in self._gates:
            gate.released.set()
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reset()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def silence(self) -> None:
        """Let nothing pass; connections stay open."""
        self._flowing.clear()

    def heal(self) -> None:
        """Let everything pass again, what waited included."""
        self._flowing.set()

    def reset(self) -> None:
        """Reset every open connection."""
        for pair in list(self._pairs):
            pair.reset()
        self._flowing.set()

    def answer(self, pattern: str, answer: bytes, times: int = 1) -> None:
        """Give this answer to the next requests whose first line the pattern finds."""
        self._canned.append(_Canned(re.compile(pattern), answer, times))

    def hold(self, pattern: str) -> Gate:
        """Let the next request whose first line the pattern finds wait until the gate is released."""
        gate = Gate(re.compile(pattern))
        self._gates.append(gate)
        return gate

    def count(self, pattern: str) -> int:
        """How many requests came whose first line the pattern finds."""
        return sum(1 for line in self.requests if re.search(pattern, line))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self._context)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(writer, far_writer)
        self._pairs.add(pair)
        try:
            async with asyncio.TaskGroup() as group:
                back = group.create_task(self._backward(far_reader, pair))
                await self._forward(reader, pair)
                back.cancel()
        except* (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._pairs.discard(pair)
            writer.transport.abort()
            far_writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, pair: _Pair) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            body = await reader.readexactly(int(length.group(1))) if length else b""
            first = head.split(b"\r\n", 1)[0].decode()
            self.requests.append(first)
            await self._pass_gate(first)
            await self._flowing.wait()
            canned = self._canned_for(first)
            if canned is None:
                pair.server.write(head + body)
                await pair.server.drain()
            else:
                pair.client.write(canned)
                await pair.client.drain()

    async def _backward(self, reader: asyncio.StreamReader, pair: _Pair) -> None:
        while data := await reader.read(_CHUNK):
            await self._flowing.wait()
            if self.cut_after is not None:
                data, left = data[: self.cut_after], self.cut_after - len(data)
                self.cut_after = max(0, left)
            pair.client.write(data)
            await pair.client.drain()
            if self.cut_after == 0:
                break
        pair.client.close()

    async def _pass_gate(self, first: str) -> None:
        for gate in self._gates:
            if not gate.reached.is_set() and gate.pattern.search(first):
                gate.reached.set()
                await gate.released.wait()

    def _canned_for(self, first: str) -> bytes | None:
        for canned in self._canned:
            if canned.times > 0 and canned.pattern.search(first):
                canned.times -= 1
                return canned.answer
        return None


@asynccontextmanager
async def tcp_proxy(port: int, certificate: Path) -> AsyncIterator[TcpProxy]:
    """A listening proxy, closed afterwards."""
    proxy = TcpProxy(port, certificate)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
