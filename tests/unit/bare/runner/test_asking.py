"""What a process of the node answers over HTTP, however it ends its answer."""

import asyncio

import pytest

from kvberth.bare.runner.asking import asked


async def ask(answer: bytes, *, ends: bool) -> tuple[int, bytes]:
    """Ask a server that says this; it ends the connection itself, or waits until the asking one does."""
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if not ends:
            await reader.read()
        writer.close()
        await writer.wait_closed()
        served.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        try:
            return await asked(server.sockets[0].getsockname()[1], "/health")
        finally:
            async with asyncio.timeout(10):
                await served.wait()


@pytest.mark.parametrize(
    ("answer", "ends", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", False, (200, b"")),
        (b"HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nbusy", False, (503, b"busy")),
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", True, (200, b"to the end")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ncut", True, (200, b"cut")),
    ],
    ids=["no body, kept open", "a body, kept open", "until the end", "cut off"],
)
async def test_an_answer_ends_where_it_says_or_with_its_connection(
    answer: bytes, ends: bool, expected: tuple[int, bytes]
) -> None:
    assert await ask(answer, ends=ends) == expected


async def test_what_is_no_http_is_a_fault() -> None:
    with pytest.raises(ValueError, match="many"):
        await ask(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", ends=True)
