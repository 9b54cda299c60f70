"""Serves /health and /metrics of the stand-in. One short answer per connection."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_REQUEST_S = 5.0
_MAX_HEAD_BYTES = 8192


@asynccontextmanager
async def serve_health(host: str, port: int, metrics: Callable[[], str]) -> AsyncIterator[None]:
    """Serve while the block runs. Raises OSError when the address can't be had."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(head, metrics))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # the client was too slow, too long or went away; the next one is answered
        finally:
            writer.close()

    server = await asyncio.start_server(answer, host, port, limit=_MAX_HEAD_BYTES)
    try:
        yield
    finally:
        server.close()


def _response(head: bytes, metrics: Callable[[], str]) -> bytes:
    path = head.split(b"\r\n", 1)[0].split(b" ")[1:2]
    status, body = {b"/health": ("200 OK", "ok\n"), b"/metrics": ("200 OK", metrics())}.get(
        path[0] if path else b"", ("404 Not Found", "paths are /health and /metrics\n")
    )
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
