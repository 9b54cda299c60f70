"""The gate as an engine meets it: a process before it, real caches, every start order."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvberth.gate import manifest, program
from kvberth.vineyard import Client
from support.vineyardd import RunningVineyardd, running_vineyardd

from .conftest import Rules, gate_process

pytestmark = pytest.mark.integration


async def memory_usage(path: Path) -> int:
    async with await Client.connect(path) as client:
        return (await client.status()).memory_usage


async def test_a_cache_that_is_there_lets_an_engine_start_at_once_and_keeps_nothing(
    directory: Path, daemon: RunningVineyardd
) -> None:
    before = await memory_usage(daemon.path)
    async with gate_process(directory) as gate:
        code, told = await gate.ended()
    assert code == 0
    assert (told["kvberth"], told["outcome"], told["reason"]) == ("gate", "open", "SocketAnswered")
    assert told["waited_s"] < 5
    assert await memory_usage(daemon.path) == before


async def test_an_engine_that_comes_first_waits_for_its_cache(directory: Path) -> None:
    async with gate_process(directory) as gate:
        assert "SocketMissing" in await gate.until_said("waiting")
        async with running_vineyardd(directory / "vineyard.sock"):
            code, told = await gate.ended()
    assert (code, told["outcome"]) == (0, "open")
    assert told["waited_s"] > 0


async def test_a_dead_and_a_hung_cache_hold_an_engine_until_they_answer(directory: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_vineyardd(path) as first:
        await first.kill()
    async with gate_process(directory) as gate:
        assert "SocketStale" in await gate.until_said("waiting")
        async with running_vineyardd(path):
            assert (await gate.ended())[1]["outcome"] == "open"
    async with running_vineyardd(path) as hung:
        await hung.freeze()
        async with gate_process(directory) as gate:
            assert "DaemonHung" in await gate.until_said("waiting")
            hung.thaw()
            assert (await gate.ended())[1]["outcome"] == "open"


async def test_a_cache_that_crashes_while_an_engine_waits_lets_it_start_when_it_is_back(directory: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_vineyardd(path) as hung:
        await hung.freeze()
        async with gate_process(directory) as gate:
            assert "DaemonHung" in await gate.until_said("waiting")
            await hung.kill()
            async with running_vineyardd(path):
                assert (await gate.ended())[1]["outcome"] == "open"


async def test_a_cache_that_still_reserves_its_memory_holds_an_engine_until_it_answers(directory: Path) -> None:
    async with gate_process(directory) as gate:
        await gate.until_said("SocketMissing")
        async with running_vineyardd(directory / "vineyard.sock", "512Mi", flags=("--reserve_memory=true",)):
            code, told = await gate.ended()
    assert (code, told["outcome"], told["reason"]) == (0, "open", "SocketAnswered")


@pytest.mark.parametrize(("env", "patched"), [({}, "TIMEOUT_S"), ({"AIBRIX_LLM_KV_CACHE": "1"}, "LEGACY_TIMEOUT_S")])
async def test_where_nothing_of_kvberth_is_an_engine_starts_when_its_default_time_is_over(
    directory: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], patched: str
) -> None:
    """Neither a cache nor its directory nor a node agent is there; the defaults themselves are asserted below."""
    monkeypatch.setattr(program, patched, 0.3)
    ending = await asyncio.to_thread(program.Gate(str(directory / "none" / "vineyard.sock"), env, print).wait)
    assert (ending.outcome, ending.reason, ending.code) == ("timeout", "SocketMissing", 0)
    assert 0.3 <= ending.waited_s < 5


async def test_an_engine_starts_without_its_cache_once_its_time_is_over(directory: Path, rule: Rules) -> None:
    rule(policy="startWithoutCache", timeout_s=0.5)
    async with gate_process(directory) as gate:
        code, told = await gate.ended()
    assert (code, told["outcome"], told["reason"]) == (0, "timeout", "SocketMissing")
    assert 0.5 <= told["waited_s"] < 5


async def test_a_kvcache_that_says_wait_lets_no_engine_start_without_it(directory: Path, rule: Rules) -> None:
    rule(policy="wait", timeout_s=0.5)
    async with gate_process(directory) as gate:
        code, told = await gate.ended()
    assert (code, told["outcome"], told["reason"]) == (1, "closed", "SocketMissing")


@pytest.mark.parametrize(
    ("env", "most"),
    [({}, "of 30 s"), ({"AIBRIX_LLM_KV_CACHE_SOCKET": "/var/run/vineyard.sock"}, "of 600 s")],
)
async def test_without_a_rule_the_defaults_hold(directory: Path, env: dict[str, str], most: str) -> None:
    async with gate_process(directory, **env) as gate:
        assert most in await gate.until_said("waiting")


async def test_a_rule_that_comes_while_an_engine_waits_is_followed(directory: Path, rule: Rules) -> None:
    async with gate_process(directory, AIBRIX_LLM_KV_CACHE="1") as gate:
        await gate.until_said("of 600 s")
        rule(policy="startWithoutCache", timeout_s=0)
        code, told = await gate.ended()
    assert (code, told["outcome"]) == (0, "timeout")


async def test_a_rule_that_nobody_renews_holds_nobody(directory: Path, rule: Rules) -> None:
    rule(policy="wait")
    async with gate_process(directory) as gate:
        await gate.until_said("without end")
        long_ago = time.time() - 3600
        os.utime(directory / "gate.json", (long_ago, long_ago))
        await gate.until_said("not renewed")
        assert "of 30 s" in await gate.until_said("waiting")


@pytest.mark.parametrize("kind", ["garbage", "directory", "pipe", "loop", "bytes"])
async def test_a_rule_that_is_none_is_said_and_holds_nobody(directory: Path, kind: str) -> None:
    path = directory / "gate.json"
    match kind:
        case "garbage":
            path.write_text('{"policy": "nver"}')
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path)
        case "bytes":
            path.write_bytes(b"\xff\x00")
    async with gate_process(directory) as gate:
        assert "defaults hold" in await gate.until_said("gate.json")
        assert "of 30 s" in await gate.until_said("waiting")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_gate_and_says_so(directory: Path, number: signal.Signals) -> None:
    async with gate_process(directory) as gate:
        await gate.until_said("waiting")
        gate.process.send_signal(number)
        code, told = await gate.ended()
    assert (code, told["outcome"]) == (128 + number, "stopped")


async def test_nobody_who_reads_its_lines_is_needed(directory: Path, daemon: RunningVineyardd) -> None:
    assert await asyncio.to_thread(unheard, daemon.path) == 0


def unheard(path: Path) -> int:
    """The exit code of a gate whose every line is lost."""
    command = [sys.executable, "-IS", str(manifest.PROGRAM), str(path)]
    with Path("/dev/full").open("w") as full:
        return subprocess.run(command, stdout=full, check=False, timeout=20).returncode


def started(directory: Path, path: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """The gate as a pod starts it, from the texts of its policy."""
    log = directory / "log"
    start = manifest.START.read_text().replace("/dev/termination-log", str(log))
    command = ["/bin/sh", "-c", start, manifest.PROGRAM.read_text(), str(directory / "vineyard.sock"), str(log)]
    log.touch()
    done = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False, timeout=20)
    return done, log.read_text()


async def test_a_pod_starts_it_by_its_texts(directory: Path, daemon: RunningVineyardd) -> None:
    assert daemon.process.returncode is None
    done, message = await asyncio.to_thread(started, directory, str(Path(sys.executable).parent))
    assert (done.returncode, done.stderr) == (0, "")
    assert '"outcome": "open"' in message


@pytest.mark.parametrize("python", [None, "exit 1", "exit 139"])
def test_an_image_without_a_fit_python_has_no_gate_and_its_engine_starts(directory: Path, python: str | None) -> None:
    if python is not None:
        broken = directory / "python3"
        broken.write_text(f"#!/bin/sh\n{python}\n")
        broken.chmod(0o755)
    done, message = started(directory, str(directory))
    assert done.returncode == 0
    assert "there is no gate" in done.stdout
    assert '"outcome": "skipped", "reason": "NoPython"' in message
