"""A disk that is free again lets `up` go on, also where NATS did not outlive the full one. Processes are stand-ins."""

import asyncio
import resource
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvberth.scenario.backend.bare import kernel
from kvberth.scenario.backend.bare.signals import Signals
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.facts import Life
from support.waiting import until

pytestmark = pytest.mark.integration

Process = asyncio.subprocess.Process


@pytest.fixture
async def up() -> AsyncIterator[Process]:
    async for process in sleeping():
        yield process


@pytest.fixture
async def nats() -> AsyncIterator[Process]:
    async for process in sleeping():
        yield process


async def sleeping() -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec("sleep", "60")
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


def signals_of(up: Process, nats: Process) -> Signals:
    def lives() -> list[Life]:
        return [Life("nats", nats.pid)] if kernel.is_alive(nats.pid) else []

    stack, looker = SimpleNamespace(up=up), SimpleNamespace(lives=lives, nodes=())
    return Signals(stack, looker)  # type: ignore[arg-type]


def state(process: Process) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0]


async def test_the_limit_is_put_and_lifted_while_up_is_held(up: Process, nats: Process) -> None:
    signals = signals_of(up, nats)
    await signals.disk("full")
    assert resource.prlimit(nats.pid, resource.RLIMIT_FSIZE)[0] == 1
    await until(lambda: state(up) == "T")
    await signals.disk("free")
    assert resource.prlimit(nats.pid, resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    await until(lambda: state(up) == "S")


async def test_up_goes_on_though_nats_died_of_the_full_disk(up: Process, nats: Process) -> None:
    signals = signals_of(up, nats)
    await signals.disk("full")
    await until(lambda: state(up) == "T")
    nats.kill()
    await nats.wait()
    assert "no NATS runs" in await signals.disk("free")
    await until(lambda: state(up) == "S")
    with pytest.raises(ScenarioError, match="is not full"):
        await signals.disk("free")


async def test_a_full_disk_needs_a_nats_and_holds_nothing_without_one(up: Process, nats: Process) -> None:
    nats.send_signal(signal.SIGKILL)
    await nats.wait()
    signals = signals_of(up, nats)
    with pytest.raises(ScenarioError, match="NATS is 0 processes"):
        await signals.disk("full")
    assert state(up) == "S"
