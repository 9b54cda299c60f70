"""Asks a process of this node over HTTP: one short question, with a deadline. Judges nothing."""

import asyncio

_WITHIN_S = 1.0
_MOST_BYTES = 64 * 1024


async def asked(port: int | None, path: str) -> tuple[int, bytes]:
    """Give the status and the first bytes of the body of what a process answers on 127.0.0.1.

    The body ends at its Content-Length, else with the connection: an engine may keep that open.

    Raises:
        OSError: it does not answer within a second; or this process can't ask.
        ValueError: what it says is no HTTP.
    """
    async with asyncio.timeout(_WITHIN_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            words = (await reader.readline()).split(b" ")
            if len(words) < 2:
                raise ValueError("a first line without a status")
            length = _MOST_BYTES
            while header := (await reader.readline()).strip():
                name, _, value = header.partition(b":")
                if name.lower() == b"content-length":
                    length = min(int(value), _MOST_BYTES)
            return int(words[1]), await _up_to(reader, length)
        finally:
            writer.transport.abort()


async def _up_to(reader: asyncio.StreamReader, length: int) -> bytes:
    try:
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as cut:
        return cut.partial
