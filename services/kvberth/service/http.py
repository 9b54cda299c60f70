"""A tiny HTTP/1.1 server for probes and metrics: GET and HEAD of fixed paths, one request per connection.

Every connection has a deadline and a bound on what it may send; when too many are open, the oldest gives way, so
clients that dawdle can't keep a probe out. It owns sockets and bytes; what a path answers is the caller's.
"""

import asyncio
import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import structlog

from kvberth.service.errors import ServiceError

MAX_HEADER_BYTES: Final = 8192
MAX_CONNECTIONS: Final = 32
REQUEST_TIMEOUT_S: Final = 5.0
_CLOSE_TIMEOUT_S: Final = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Response:
    """What a path answers."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Route = Callable[[], Response]


class HttpServer:
    """Serves `routes` on one address between `start` and `close`."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Route]) -> None:
        self._host = host
        self._port = port
        self._routes = routes
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}  # oldest first

    @property
    def address(self) -> str:
        """`host:port` as bound, with the port that the system chose for 0."""
        if self._server is None:
            raise RuntimeError("the HTTP server has no address before start() and after close()")
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def start(self) -> None:
        """Bind and listen. Raises `ServiceError` when the address can't be had."""
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, self._port, limit=MAX_HEADER_BYTES, backlog=MAX_CONNECTIONS
            )
        except OSError as error:
            reason = "is taken by another process" if error.errno == errno.EADDRINUSE else f"can't be bound ({error})"
            raise ServiceError(
                f"The HTTP address {self._host}:{self._port} {reason}; "
                "set KVBERTH_HTTP_PORT to a free port (0 picks one), KVBERTH_HTTP_HOST to an address of this machine."
            ) from error

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for writer in self._open.values():
            writer.transport.abort()
        if self._open:
            await asyncio.wait(self._open, timeout=_CLOSE_TIMEOUT_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # the streams server runs this in a task of its own
        if len(self._open) >= MAX_CONNECTIONS:
            oldest = next(iter(self._open))
            self._open.pop(oldest).transport.abort()
        self._open[task] = writer
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await self._exchange(reader, writer)
        except OSError:  # TimeoutError is one too
            _log.debug("HTTP client was too slow or went away", peer=writer.get_extra_info("peername"))
        finally:
            self._open.pop(task, None)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, then let the client close: closing first could reset what it still has to read."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            method, response = "GET", _plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            method, response = self._answer(head)
        writer.write(_encode(method, response))
        await writer.drain()
        writer.write_eof()
        while await reader.read(MAX_HEADER_BYTES):
            pass

    def _answer(self, head: bytes) -> tuple[str, Response]:
        parts = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return "GET", _plain(HTTPStatus.BAD_REQUEST)
        method, target, _ = parts
        if method not in {"GET", "HEAD"}:
            return method, _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        route = self._routes.get(target.partition("?")[0])
        if route is None:
            return method, _plain(HTTPStatus.NOT_FOUND, f"paths are {' '.join(self._routes)}")
        try:
            return method, route()
        except Exception:  # noqa: BLE001 -- one broken path must not take down the probes
            _log.exception("HTTP path failed", path=target)
            return method, _plain(HTTPStatus.INTERNAL_SERVER_ERROR)


def _plain(status: HTTPStatus, detail: str = "") -> Response:
    return Response(status, f"{status.value} {status.phrase}{': ' if detail else ''}{detail}\n".encode())


def _encode(method: str, response: Response) -> bytes:
    status = response.status
    allow = "Allow: GET, HEAD\r\n" if status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        f"{allow}Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (b"" if method == "HEAD" else response.body)
