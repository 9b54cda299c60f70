"""The program of a cache's container, with a real vineyardd in a directory of the test's own."""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kvberth.placement.apply.kubernetes.script import cache_script
from kvberth.vineyard import VineyardError, find_vineyardd, probe

SIZE = 2**26


@asynccontextmanager
async def running(directory: Path, path: str | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    script = cache_script(SIZE, rpc=False, directory=str(directory), group=os.getgid())
    programs = path or f"{find_vineyardd().parent}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", script, env={"PATH": programs}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(10):
            await process.communicate()


async def incarnation(directory: Path) -> str | None:
    try:
        _, status = await probe(directory / "vineyard.sock", timeout_s=1)
    except (VineyardError, OSError):
        return None
    return status.deployment


async def incarnation_other_than(directory: Path, known: str | None, timeout_s: float = 10) -> str:
    async with asyncio.timeout(timeout_s):
        while (found := await incarnation(directory)) in {None, known}:  # noqa: ASYNC110 - a daemon's moment
            await asyncio.sleep(0.02)
    assert found is not None
    return found


def daemons(directory: Path) -> list[int]:
    """Pids of the vineyardd whose socket is in the directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if command and command[0].endswith(b"vineyardd") and f"--socket={directory}/vineyard.sock".encode() in command:
            found.append(int(entry.name))
    return found


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short: the kernel takes 107 bytes for a socket's path."""
    with tempfile.TemporaryDirectory(prefix="kvb-") as found:
        yield Path(found)


async def test_a_dead_daemon_is_started_anew_as_another_incarnation_and_term_ends_both(directory: Path) -> None:
    async with running(directory) as process:
        first = await incarnation_other_than(directory, None)
        (pid,) = daemons(directory)
        os.kill(pid, signal.SIGKILL)
        second = await incarnation_other_than(directory, first)
        assert second != first
        process.terminate()
        async with asyncio.timeout(5):
            assert await process.wait() == 0
        assert daemons(directory) == []


async def test_the_next_life_waits_until_the_one_before_has_ended(directory: Path) -> None:
    async with running(directory) as first:
        one = await incarnation_other_than(directory, None)
        async with running(directory) as second:
            assert await incarnation(directory) == one
            assert len(daemons(directory)) == 1
            assert second.returncode is None
            first.terminate()
            await first.wait()
            assert await incarnation_other_than(directory, one) != one


async def test_a_daemon_that_never_lasts_ends_the_container(directory: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bin"
    bad.mkdir()
    (bad / "vineyardd").write_text("#!/bin/sh\nexit 3\n")
    (bad / "vineyardd").chmod(0o755)
    async with running(directory, f"{bad}:{os.environ['PATH']}") as process:
        async with asyncio.timeout(10):
            said, _ = await process.communicate()
        assert process.returncode == 1
        assert said.decode().count("vineyardd ended with 3") == 5


async def test_an_image_without_vineyardd_says_so(directory: Path) -> None:
    async with running(directory, "/usr/bin:/bin") as process:
        async with asyncio.timeout(10):
            said, _ = await process.communicate()
        assert process.returncode == 1
        assert "no vineyardd" in said.decode()
