"""The gate before an engine on a bare node: a real runner, the real program, real vineyardd."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator

import pytest

from kvberth.bare.process import procfs
from kvberth_schemas.events import ProcessStartedV1
from kvberth_schemas.wants import RestartPolicy, Why
from support.waiting import until

from .runner_rig import CACHE, Rig, is_gone, rig


@pytest.fixture
async def bed() -> AsyncIterator[Rig]:
    async with rig() as made:
        made.env["KVBERTH_ENGINE_BACKOFF_S"] = "0.2"
        yield made


def want(bed: Rig, **changes: object) -> str:
    return bed.want_engine(gate=True, **changes)


async def at_gate(bed: Rig, why: str = "SocketMissing") -> ProcessStartedV1:
    return await bed.started("u1", "engine", lambda said: said.at_gate and why in said.message)


async def engine(bed: Rig) -> ProcessStartedV1:
    return await bed.started("u1", "engine", lambda said: not said.at_gate and said.ready)


def rule(bed: Rig, **told: object) -> None:
    """Say what a node agent would say for the KVCache."""
    bed.socket.parent.mkdir(parents=True, exist_ok=True)
    fresh = bed.socket.parent / "gate.json.new"
    fresh.write_text(json.dumps(told))
    fresh.rename(bed.socket.parent / "gate.json")


def bearers(bed: Rig) -> list[int]:
    record = json.loads(next(bed.records.glob("engine.*.json")).read_text())
    return procfs.bearers(record["life"])


def log(bed: Rig) -> str:
    return next(bed.logs.glob("engine.*.log")).read_text()


async def test_an_engine_waits_at_its_gate_for_its_cache_and_starts_once(bed: Rig) -> None:
    await bed.start_runner()
    want(bed)
    waiting = await at_gate(bed)
    assert str(bed.socket) in waiting.message
    assert "serving" not in log(bed)
    bed.want_cache()
    said = await engine(bed)
    assert said.pid != waiting.pid
    assert (said.restarts, said.gate is not None and said.gate.outcome) == (0, "open")
    assert log(bed).count("engine: serving") == 1
    assert log(bed).count("try 1 of") == 0
    assert log(bed).index("kvberth-gate: open after") < log(bed).index("engine: serving")


async def test_a_gate_runs_once_for_a_pod_and_not_before_each_life_of_its_engine(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    want(bed)
    first = await engine(bed)
    os.kill(first.pid, signal.SIGKILL)
    second = await bed.started("u1", "engine", lambda said: said.ready and said.pid != first.pid)
    assert (second.restarts, log(bed).count("kvberth-gate: open")) == (1, 1)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_new_runner_adopts_a_waiting_gate_and_starts_its_engine_once(bed: Rig, how: signal.Signals) -> None:
    await bed.start_runner()
    want(bed)
    waiting = await at_gate(bed)
    await (bed.kill_runner() if how is signal.SIGKILL else bed.stop_runner())
    assert not is_gone(waiting.pid, 0.3)
    await bed.start_runner()
    await until(lambda: "process adopted" in bed.runner_log())
    assert (await at_gate(bed)).pid == waiting.pid
    bed.want_cache()
    said = await engine(bed)
    assert (said.restarts, said.gate is not None and said.gate.outcome) == (0, "open")
    assert (log(bed).count("kvberth-gate: open"), log(bed).count("engine: serving")) == (1, 1)


async def test_a_gate_that_opened_while_no_runner_lived_lets_the_next_one_start_the_engine(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    cache = await bed.started(CACHE)
    os.kill(cache.pid, signal.SIGSTOP)
    want(bed)
    waiting = await at_gate(bed, "DaemonHung")
    await bed.kill_runner()
    os.kill(cache.pid, signal.SIGCONT)
    assert await asyncio.to_thread(is_gone, waiting.pid)
    await bed.start_runner()
    said = await engine(bed)
    assert (said.restarts, said.gate is not None and said.gate.outcome) == (0, "open")
    assert (log(bed).count("kvberth-gate: open"), log(bed).count("engine: serving")) == (1, 1)


async def test_a_frozen_runner_starts_the_engine_once_when_it_goes_on(bed: Rig) -> None:
    runner = await bed.start_runner()
    bed.want_cache()
    cache = await bed.started(CACHE)
    os.kill(cache.pid, signal.SIGSTOP)
    want(bed)
    waiting = await at_gate(bed, "DaemonHung")
    runner.send_signal(signal.SIGSTOP)
    os.kill(cache.pid, signal.SIGCONT)
    assert await asyncio.to_thread(is_gone, waiting.pid)
    runner.send_signal(signal.SIGCONT)
    said = await engine(bed)
    assert (said.restarts, log(bed).count("engine: serving")) == (0, 1)


async def test_a_kvcache_that_says_wait_keeps_the_gate_failing_and_coming_back_until_the_cache_is_there(
    bed: Rig,
) -> None:
    rule(bed, policy="wait", timeout_s=0.2)
    await bed.start_runner()
    want(bed)
    said = await bed.ended("u1", "engine", lambda said: said.at_gate and said.exit_code == 1)
    assert (said.restarting, said.restarts) == (True, 0)
    assert "the KVCache says wait" in said.message
    await until(lambda: log(bed).count("kvberth-gate: closed") >= 3)
    bed.want_cache()
    assert (await engine(bed)).restarts == 0


async def test_a_closed_gate_of_a_pod_that_is_never_restarted_ends_the_pod(bed: Rig) -> None:
    rule(bed, policy="wait", timeout_s=0.2)
    await bed.start_runner()
    want(bed, restart_policy=RestartPolicy.NEVER)
    said = await bed.ended("u1", "engine")
    assert (said.restarting, said.exit_code) == (False, 1)


async def test_an_engine_that_started_without_its_cache_says_so(bed: Rig) -> None:
    rule(bed, policy="startWithoutCache", timeout_s=0.2)
    await bed.start_runner()
    want(bed, env={})
    said = await engine(bed)
    assert said.gate is not None
    assert (said.gate.outcome, said.gate.reason) == ("timeout", "SocketMissing")


async def test_a_killed_gate_is_started_anew_and_never_taken_for_an_open_one(bed: Rig) -> None:
    await bed.start_runner()
    want(bed)
    first = await at_gate(bed)
    os.kill(first.pid, signal.SIGKILL)
    second = await bed.started("u1", "engine", lambda said: said.at_gate and said.pid != first.pid)
    await bed.kill_runner()
    os.kill(second.pid, signal.SIGKILL)
    await bed.start_runner()
    third = await bed.started("u1", "engine", lambda said: said.at_gate and said.pid not in {first.pid, second.pid})
    assert third.restarts == 0
    assert "engine: serving" not in log(bed)


async def test_a_stop_ends_a_waiting_gate_and_no_engine_starts(bed: Rig) -> None:
    await bed.start_runner()
    want(bed)
    waiting = await at_gate(bed)
    want(bed, state="stop", why=Why.USER)
    said = await bed.ended("u1", "engine")
    assert not said.restarting
    assert is_gone(waiting.pid)
    assert bearers(bed) == []
    assert "engine: serving" not in log(bed)


async def test_a_cache_that_crashes_while_an_engine_waits_opens_the_gate_when_it_is_back(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    cache = await bed.started(CACHE)
    os.kill(cache.pid, signal.SIGSTOP)
    want(bed)
    await at_gate(bed, "DaemonHung")
    os.kill(cache.pid, signal.SIGKILL)
    said = await engine(bed)
    assert (said.restarts, said.gate is not None and said.gate.outcome) == (0, "open")
