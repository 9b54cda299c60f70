"""The subscriber kit does what its page says, on a whole stack of real processes, with nothing of kvberth imported."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kvberth.bare.stack.layout import Address
from scenario.world import KVCACHE, REPOSITORY, World, world
from support.nats import nats_server

SHELL = REPOSITORY / "examples" / "subscribers" / "follow-a-move.sh"
RECORDED = Path(__file__).parent / "recorded"
"""What the NATS CLI 0.5 printed of a move of an engine with a gate: its `pod.scheduled` is said three times."""
FOLLOW = REPOSITORY / "examples" / "subscribers" / "follow_a_move.py"
PAGE = REPOSITORY / "docs" / "events.md"
LINE_WITHIN_S = 20.0
# What leads to the answer of the socket; and what others say of the move, perhaps only after that answer.
CHAIN = {"pod.scheduled", "want.dir", "socket.ready"}
BESIDE = {"want.engine", "want.cache", "cache.placed", "process.started"}


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path / "state") as made:
        yield made


@asynccontextmanager
async def program(url: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a Python program that finds only what is installed beside the tests, and knows nothing of kvberth's code."""
    pipe = asyncio.subprocess.PIPE
    argv = (sys.executable, "-W", "error", *arguments)
    process = await asyncio.create_subprocess_exec(*argv, env=os.environ | {"NATS_URL": url}, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(process: asyncio.subprocess.Process, words: str) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(LINE_WITHIN_S):
        while words not in (line := (await process.stdout.readline()).decode()):
            assert line, f"the program ended without saying '{words}'"
    return line


async def test_the_example_follows_a_move_by_its_causes_and_the_page_reads_the_state(stack: World) -> None:
    engine = await stack.start_engine()
    address = Address.read(stack.layout)
    assert address is not None
    snippet = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert snippet is not None
    assert await failing(address.nats_url, "--within", "0.5") == (1, "no engine was bound to a node within 0.5 s\n")
    async with (
        program(address.nats_url, "-c", snippet[1]) as reader,
        program(address.nats_url, str(FOLLOW), "--within", str(LINE_WITHIN_S)) as follower,
    ):
        assert f"default/{KVCACHE} on l20-a" in await line_with(reader, "1 caches answer")
        await line_with(follower, "listening")
        assert not (await stack.cordon("l20-a")).refused
        assert not (await stack.delete("Pod", engine.name)).refused

        async with asyncio.timeout(LINE_WITHIN_S):
            said, complaints = await follower.communicate()
        assert (follower.returncode, complaints.decode()) == (0, "")
        steps = [line.split()[3] for line in said.decode().splitlines() if " ms " in line]
        assert steps[0] == "pod.scheduled"
        assert CHAIN <= set(steps) <= CHAIN | BESIDE
        assert f"default/{KVCACHE} on l20-b" in await line_with(reader, "on l20-b")


async def test_the_example_says_where_no_kvberth_runs(tmp_path: Path, unused_tcp_port: int) -> None:
    async with nats_server(tmp_path) as without_streams:
        for url in (without_streams.url, f"nats://127.0.0.1:{unused_tcp_port}"):
            status, complaints = await failing(url)
            assert status == 1
            assert "Traceback" not in complaints
            assert re.fullmatch(rf"{url}: .+; is kvberth running there\?", complaints.splitlines()[-1])


async def failing(url: str, *arguments: str) -> tuple[int | None, str]:
    """Give exit code and complaints of a follower that does not succeed."""
    async with program(url, str(FOLLOW), *arguments) as follower, asyncio.timeout(LINE_WITHIN_S):
        _, complaints = await follower.communicate()
    return follower.returncode, complaints.decode()


def test_the_shell_example_begins_with_the_binding_and_not_with_what_is_said_of_it_again(tmp_path: Path) -> None:
    nats = tmp_path / "nats"
    nats.write_text(f'#!/bin/sh\ncat "{RECORDED}/$3.txt"\n')  # as it is called: nats sub --stream STREAM …
    nats.chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    told = subprocess.run(["sh", SHELL, "0"], env=env, capture_output=True, text=True, check=False, timeout=30)
    assert (told.returncode, told.stderr) == (0, "")
    steps = [line.split()[3] for line in told.stdout.splitlines()]
    assert steps[:2] == ["kvberth.pod.scheduled.v1", "kvberth.want.engine.v1"]
    assert steps.count("kvberth.pod.scheduled.v1") == 3
    assert "kvberth.socket.ready.v1" in steps
