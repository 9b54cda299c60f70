"""Why a connection does not come about, each cause told apart; all against the kernel's own answers."""

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvberth.vineyard import (
    Client,
    DaemonHung,
    NotASocket,
    SocketDenied,
    SocketMissing,
    SocketPathTooLong,
    SocketStale,
    VineyardError,
    probe,
)
from support.descriptors import open_descriptors

pytestmark = pytest.mark.integration


def stale(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    return path


@contextmanager
def nobody() -> Iterator[None]:
    """Drops root's right to go everywhere, which would hide every missing permission."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


async def failure(path: Path | str) -> VineyardError:
    with pytest.raises(VineyardError) as caught:
        await Client.connect(path, timeout_s=0.5)
    assert caught.value.path == str(path)
    assert str(caught.value).startswith(f"{path}: ")
    return caught.value


async def test_a_missing_socket_directory_or_path(directory: Path) -> None:
    (directory / "file").touch()
    for path in (
        directory / "s",
        directory / "none" / "s",
        directory / "file" / "s",
        "",
        "\0abstract",
        f"{directory}\0",
    ):
        assert type(await failure(path)) is SocketMissing


async def test_a_socket_without_a_listener_is_stale(directory: Path) -> None:
    assert type(await failure(stale(directory / "s"))) is SocketStale


async def test_what_is_no_socket_of_a_daemon(directory: Path) -> None:
    (directory / "file").touch()
    (directory / "link").symlink_to(directory / "file")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(directory / "datagram"))
        for path, word in (
            (directory, "a directory"),
            (directory / "file", "no socket"),
            (directory / "link", "no socket"),
        ):
            error = await failure(path)
            assert type(error) is NotASocket
            assert word in str(error)
        assert type(await failure(directory / "datagram")) is NotASocket


async def test_a_loop_of_links_is_named(directory: Path) -> None:
    (directory / "loop").symlink_to(directory / "loop")
    assert "symbolic links" in str(await failure(directory / "loop"))


async def test_a_forbidden_socket_or_directory_is_denied(directory: Path) -> None:
    path = stale(directory / "s")
    path.chmod(0)
    directory.chmod(0o755)
    with nobody():
        assert type(await failure(path)) is SocketDenied
    path.chmod(0o777)
    directory.chmod(0o600)
    with nobody():
        assert type(await failure(path)) is SocketDenied
    directory.chmod(0o700)


async def test_107_bytes_are_a_path_and_108_are_not(directory: Path) -> None:
    longest = directory / ("é" * ((106 - len(str(directory))) // 2) + "x" * ((106 - len(str(directory))) % 2))
    assert len(os.fsencode(longest)) == 107
    assert type(await failure(longest)) is SocketMissing
    assert type(await failure(stale(longest))) is SocketStale
    error = await failure(f"{longest}x")
    assert type(error) is SocketPathTooLong
    assert "108 bytes" in str(error)


async def test_a_full_backlog_is_hung_at_the_deadline_and_served_when_it_empties(directory: Path) -> None:
    path = str(directory / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(path)
            begun = time.monotonic()
            with pytest.raises(DaemonHung):
                await Client.connect(path, timeout_s=0.2)
            assert 0.15 <= time.monotonic() - begun < 0.6
            waiting = asyncio.create_task(Client.connect(path, timeout_s=5.0))
            await asyncio.sleep(0.05)  # it finds the backlog full, more than once
            assert not waiting.done()
            listener.setblocking(False)
            accepted = [listener.accept()[0]]  # makes room
            accepted.append((await asyncio.get_running_loop().sock_accept(listener))[0])
            for sock in accepted:
                sock.close()
            with pytest.raises(VineyardError, match="the daemon"):
                await waiting


async def test_a_probe_can_be_cancelled_while_it_connects(directory: Path) -> None:
    path = str(directory / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        before = open_descriptors()
        waiting = asyncio.create_task(probe(path, timeout_s=10.0))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert open_descriptors() == before


async def test_descriptors_stay_constant_over_a_thousand_failed_probes(directory: Path) -> None:
    paths = [directory, directory / "none", stale(directory / "s"), directory / ("x" * 120)]
    before = open_descriptors()
    for number in range(1000):
        with pytest.raises(VineyardError):
            await probe(paths[number % len(paths)], timeout_s=1.0)
    assert open_descriptors() == before
