"""The runner as a process, with real vineyardd and the engine stand-in, on a real bus."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kvberth.bare.process import procfs
from kvberth.vineyard import Client, probe
from kvberth_schemas import subjects
from kvberth_schemas.subjects import WantKind
from kvberth_schemas.wants import RestartPolicy, Why
from support.waiting import until

from .runner_rig import CACHE, NAMESPACE, NODE, MiB, Rig, is_gone, rig


@pytest.fixture
async def bed() -> AsyncIterator[Rig]:
    async with rig() as made:
        yield made


async def test_a_wanted_cache_is_started_answers_and_is_reported_with_its_cause(bed: Rig) -> None:
    await bed.start_runner()
    cause = bed.want_cache(memory_bytes=72 * MiB)
    said = await bed.started()
    _, status = await probe(bed.socket, timeout_s=1.0)
    assert status.deployment == said.incarnation
    assert status.memory_limit == 64 * MiB
    assert (said.memory_bytes, said.kvcache_uid, said.restarts) == (72 * MiB, "k1", 0)
    assert bed.cause(CACHE, "cache") == cause
    assert (bed.socket.parent.stat().st_mode & 0o777) == 0o700


async def test_a_cache_larger_than_the_machine_starts_because_its_memory_is_virtual(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache(size_bytes=68 * 1024 * MiB)
    await bed.started()
    _, status = await probe(bed.socket, timeout_s=1.0)
    assert status.memory_limit == 68 * 1024 * MiB


async def test_the_node_is_registered_with_what_its_file_says(bed: Rig) -> None:
    file = bed.directory / "node.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: l20-a, labels: {gpu: l20}}\n"
        "spec: {taints: [{key: k, effect: NoSchedule}]}\n"
        'status: {allocatable: {cpu: "2500m", memory: 1Gi, nvidia.com/gpu: "2"}}\n'
    )
    bed.env["KVBERTH_NODE_FILE"] = str(file)
    await bed.start_runner()
    await until(lambda: bed.registered)
    request = bed.registered[0]
    assert request.labels == {"gpu": "l20", "kubernetes.io/hostname": NODE}
    assert (request.allocatable.cpu_millis, request.allocatable.memory_bytes, request.allocatable.gpus) == (
        2500,
        1024 * MiB,
        2,
    )
    assert request.taints[0].effect == "NoSchedule"


async def test_the_node_is_registered_again_after_a_reconnect(bed: Rig) -> None:
    await bed.start_runner()
    await until(lambda: bed.registered)
    await bed.server.kill()
    await bed.server.start()
    await until(lambda: len(bed.registered) >= 2)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_new_runner_adopts_what_the_old_one_left_running(bed: Rig, how: signal.Signals) -> None:
    await bed.start_runner()
    bed.want_cache()
    bed.want_engine()
    cache, engine = await bed.started(), await bed.started("u1", "engine")
    await (bed.kill_runner() if how is signal.SIGKILL else bed.stop_runner())
    async with await Client.connect(bed.socket) as client:
        await client.status()
        await bed.start_runner()
        await until(lambda: bed.runner_log().count("process adopted") >= 2)
        bed.want_cache(cpu_millis=1)  # something to answer to
        await client.status()
    await asyncio.sleep(0.5)
    assert (await bed.started()).pid == cache.pid
    assert (await bed.started("u1", "engine")).pid == engine.pid
    record = json.loads(next(bed.records.glob("cache.*.json")).read_text())
    assert len(procfs.bearers(record["life"])) == 1


async def test_an_adopted_process_that_ends_is_restarted_and_its_exit_code_is_not_known(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_engine(restart_policy=RestartPolicy.NEVER, env={})
    first = await bed.started("u1", "engine")
    await bed.kill_runner()
    await bed.start_runner()
    await until(lambda: "process adopted" in bed.runner_log())
    os.kill(first.pid, signal.SIGKILL)
    said = await bed.ended("u1", "engine")
    assert (said.exit_code, said.restarting) == (None, False)


async def test_a_killed_cache_is_back_within_a_second_with_a_new_incarnation(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    first = await bed.started()
    killed = time.monotonic()
    os.kill(first.pid, signal.SIGKILL)
    second = await bed.started(where=lambda said: said.ready and said.incarnation != first.incarnation)
    took = time.monotonic() - killed
    assert took < 1.0
    assert second.restarts == 1


async def test_a_stopped_cache_that_hangs_is_ended_and_started_anew_when_its_incarnation_is_refused(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    first = await bed.started()
    os.kill(first.pid, signal.SIGSTOP)
    bed.want_cache(why=Why.HUNG, not_incarnation=first.incarnation)
    second = await bed.started(where=lambda said: said.ready and said.incarnation != first.incarnation)
    assert second.pid != first.pid
    assert is_gone(first.pid)


async def test_a_cache_is_not_stopped_under_a_living_engine_unless_it_moved_there_for_the_user(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    bed.want_engine(grace_s=1.0)
    cache = await bed.started()
    await bed.started("u1", "engine")
    bed.want_cache("stop", Why.MOVED)
    said = await bed.started(where=lambda said: "engine-u1" in said.message)
    assert said.pid == cache.pid
    await probe(bed.socket, timeout_s=1.0)
    bed.want_engine(state="stop", why=Why.MOVED, grace_s=1.0)
    await bed.ended("u1", "engine")
    ended = await bed.ended()
    assert not ended.restarting
    assert is_gone(cache.pid)


async def test_the_users_stop_of_a_cache_is_carried_out_under_a_living_engine_which_goes_on(bed: Rig) -> None:
    bed.env["KVBERTH_REREAD_S"] = "0.5"
    await bed.start_runner()
    bed.want_cache()
    bed.want_engine()
    await bed.started()
    engine = await bed.started("u1", "engine")
    bed.want_cache("stop", Why.USER)
    await bed.ended()
    await bed.purge(WantKind.CACHE, CACHE)
    await bed.gone()
    assert not list(bed.records.glob("cache.*"))
    assert (await bed.started("u1", "engine")).pid == engine.pid


async def test_what_runs_without_a_want_is_left_alone_and_reported_so(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    first = await bed.started()
    await bed.purge(WantKind.CACHE, CACHE)
    await bed.server.restart()  # a view is told of no purge, but reads everything anew on a new connection
    said = await bed.started(where=lambda said: not said.wanted)
    assert said.pid == first.pid
    await probe(bed.socket, timeout_s=1.0)


async def test_a_stop_of_what_never_ran_is_reported_ended(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache("stop", Why.USER)
    said = await bed.ended()
    assert (said.exit_code, said.restarting, said.message) == (None, False, "never ran on this node")


async def test_a_record_without_a_process_is_an_end_and_is_started_when_wanted(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    first = await bed.started()
    await bed.kill_runner()
    os.kill(first.pid, signal.SIGKILL)
    assert is_gone(first.pid)
    path = next(bed.records.glob("cache.*.json"))
    record = json.loads(path.read_text())
    # As if the runner had been killed after it wrote the record and before it forked.
    path.write_text(json.dumps({**record, "state": "starting", "pid": None, "start_ticks": None, "started": None}))
    await bed.start_runner()
    second = await bed.started(where=lambda said: said.ready and said.pid != first.pid)
    assert second.incarnation != first.incarnation


async def test_a_process_whose_pid_was_not_recorded_is_found_by_its_environment(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    first = await bed.started()
    await bed.kill_runner()
    path = next(bed.records.glob("cache.*.json"))
    record = json.loads(path.read_text())
    # As if the runner had been killed after it forked and before it wrote the pid.
    path.write_text(json.dumps({**record, "state": "starting", "pid": None, "start_ticks": None, "started": None}))
    await bed.start_runner()
    await until(lambda: "process adopted" in bed.runner_log())
    assert (await bed.started()).pid == first.pid


async def test_caches_are_restarted_while_the_bus_is_away(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    first = await bed.started()
    await bed.server.kill()
    os.kill(first.pid, signal.SIGKILL)
    await until(lambda: bed.runner_log().count("process is ready") >= 2)
    _, status = await probe(bed.socket, timeout_s=1.0)
    assert status.deployment != first.incarnation
    await bed.server.start()
    said = await bed.started(where=lambda said: said.incarnation == status.deployment)
    assert said.restarts == 1


async def test_an_engine_that_crashes_waits_longer_each_time_and_says_so(bed: Rig) -> None:
    bed.env |= {"KVBERTH_ENGINE_COMMAND": "/bin/false", "KVBERTH_ENGINE_BACKOFF_S": "0.2"}
    await bed.start_runner()
    bed.want_engine()
    said = await bed.ended("u1", "engine", lambda said: said.restarts >= 3 and "waits 0.8 s" in said.message)
    assert (said.exit_code, said.restarting) == (1, True)
    assert said.last_end is not None
    assert said.last_end.exit_code == 1


async def test_a_restarted_engine_tells_how_the_life_before_ended_and_where_its_log_is(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_engine(env={})
    first = await bed.started("u1", "engine")
    assert first.last_end is None
    assert Path(first.log).exists()
    os.kill(first.pid, signal.SIGKILL)
    second = await bed.started("u1", "engine", lambda said: said.restarts == 1)
    assert second.last_end is not None
    assert second.last_end.exit_code == 128 + signal.SIGKILL
    assert second.log == first.log


async def test_a_missing_engine_program_is_a_sentence_and_the_runner_goes_on(bed: Rig) -> None:
    bed.env["KVBERTH_ENGINE_COMMAND"] = "/nonexistent/engine"
    await bed.start_runner()
    bed.want_engine()
    said = await bed.ended("u1", "engine", lambda said: "waits" in said.message)
    assert "/nonexistent/engine can't be started: No such file or directory" in said.message
    bed.want_cache()
    await bed.started()


async def test_an_engine_gets_the_socket_of_its_node_in_place_of_its_mount(bed: Rig) -> None:
    bed.env["KVBERTH_ENGINE_COMMAND"] = "/usr/bin/env"
    await bed.start_runner()
    bed.want_engine(
        env={"AIBRIX_LLM_KV_CACHE_SOCKET": "/var/run/vineyard.sock", "LD_PRELOAD": "/evil.so", "X": "1"},
        restart_policy=RestartPolicy.NEVER,
    )
    said = await bed.ended("u1", "engine")
    assert said.exit_code == 0
    lines = next(bed.logs.glob("engine.*.log")).read_text().splitlines()
    assert f"AIBRIX_LLM_KV_CACHE_SOCKET={bed.socket}" in lines
    assert "X=1" in lines
    assert not [line for line in lines if line.startswith("LD_PRELOAD")]


async def test_a_second_runner_of_a_node_refuses_to_start_with_a_sentence(bed: Rig) -> None:
    first = await bed.start_runner()
    bed.want_cache()
    await bed.started()
    second = await bed.start_runner()
    assert await second.wait() == 1
    assert f"Another runner of the node {NODE} (pid " in bed.runner_log()
    bed.runner = first


async def test_children_that_an_engine_leaves_behind_are_ended_with_it(bed: Rig) -> None:
    bed.env["KVBERTH_ENGINE_COMMAND"] = "/bin/sh -c 'setsid sleep 1000 & echo child $!; exec sleep 1000'"
    await bed.start_runner()
    bed.want_engine(env={}, restart_policy=RestartPolicy.NEVER)
    engine = await bed.started("u1", "engine", lambda _: True)
    log = bed.logs / "engine.default.u1.log"
    await until(lambda: "child" in log.read_text())
    child = int(log.read_text().split()[1])
    os.kill(engine.pid, signal.SIGKILL)
    assert (await bed.ended("u1", "engine")).exit_code == 128 + signal.SIGKILL
    assert is_gone(child)


async def test_ending_by_record_leaves_no_process_and_no_record(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    bed.want_engine()
    cache, engine = await bed.started(), await bed.started("u1", "engine")
    await bed.kill_runner()
    assert await asyncio.to_thread(bed.end_processes, 3.0) == []
    assert is_gone(cache.pid)
    assert is_gone(engine.pid)
    assert not list(bed.records.iterdir())  # vineyardd may leave its socket file behind: `down` removes the whole root


async def test_ending_by_record_ends_a_stopped_process_after_its_grace(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    cache = await bed.started()
    await bed.kill_runner()
    os.kill(cache.pid, signal.SIGSTOP)
    assert await asyncio.to_thread(bed.end_processes, 0.3) == []
    assert is_gone(cache.pid)


async def test_a_runner_that_was_taken_over_ends_with_a_sentence_and_its_processes_live_on(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    cache = await bed.started()
    async with bed.rival(term=2_000_000_000) as rival:
        rival.put(subjects.process(NODE, NAMESPACE, CACHE, "cache"), cache.model_copy(update={"message": "mine"}))
        rival.ready()
        assert bed.runner is not None
        async with asyncio.timeout(15.0):
            assert await bed.runner.wait() == 3
    assert f"Another runner of the node {NODE} with a higher term speaks on the bus" in bed.runner_log()
    assert "Traceback" not in bed.runner_log()
    _, status = await probe(bed.socket, timeout_s=1.0)
    assert status.deployment == cache.incarnation


async def test_an_engine_that_ended_for_good_is_not_started_by_its_old_want_not_even_by_the_next_runner(
    bed: Rig,
) -> None:
    bed.env["KVBERTH_REREAD_S"] = "0.5"
    await bed.start_runner()
    bed.want_engine(env={})
    first = await bed.started("u1", "engine")
    bed.want_engine(state="stop", why=Why.MOVED, env={})
    await bed.ended("u1", "engine")
    await bed.purge(WantKind.ENGINE, "u1")
    await bed.gone("u1", "engine")
    assert is_gone(first.pid)
    # As a NATS server does that was killed: the overwritten and purged want is there again.
    bed.want_engine(env={})
    said = await bed.ended("u1", "engine")
    assert (said.restarting, "has ended for good" in said.message) == (False, True)
    await bed.kill_runner()
    await bed.start_runner()
    bed.want_engine("u2", env={})
    await bed.started("u2", "engine")
    assert "has ended for good" in (await bed.ended("u1", "engine")).message
    assert len(list(bed.records.glob("engine.*.json"))) == 1


async def test_an_end_that_the_disk_does_not_take_is_forgotten_later_and_leaves_no_record(bed: Rig) -> None:
    bed.env["KVBERTH_REREAD_S"] = "0.5"
    await bed.start_runner()
    in_the_way = bed.records.parent / "ended.json.new"
    in_the_way.mkdir(parents=True)
    bed.want_engine(env={})
    await bed.started("u1", "engine")
    bed.want_engine(state="stop", why=Why.MOVED, env={})
    await bed.ended("u1", "engine")
    await bed.purge(WantKind.ENGINE, "u1")
    await until(lambda: "can't be forgotten yet" in bed.runner_log())
    in_the_way.rmdir()
    await bed.gone("u1", "engine")
    assert list(bed.records.iterdir()) == []


async def test_a_cache_whose_socket_was_removed_is_told_and_started_anew(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    first = await bed.started()
    bed.socket.unlink()
    said = await bed.started(where=lambda said: not said.ready and bool(said.message))
    assert (said.pid, said.message) == (first.pid, "its socket file was removed")
    second = await bed.started(where=lambda said: said.ready and said.incarnation != first.incarnation)
    _, status = await probe(bed.socket, timeout_s=1.0)
    assert status.deployment == second.incarnation


async def test_a_cache_whose_socket_was_removed_goes_on_under_an_engine_until_that_has_ended(bed: Rig) -> None:
    await bed.start_runner()
    bed.want_cache()
    bed.want_engine(grace_s=1.0)
    first = await bed.started()
    await bed.started("u1", "engine")
    bed.socket.unlink()
    said = await bed.started(where=lambda said: not said.ready and "engine-u1" in said.message)
    assert said.pid == first.pid
    await asyncio.sleep(6.0)  # longer than a cache without engines is waited for
    assert (await bed.started(where=lambda said: not said.ready)).pid == first.pid
    bed.want_engine(state="stop", why=Why.MOVED, grace_s=1.0)
    await bed.started(where=lambda said: said.ready and said.incarnation != first.incarnation)


async def test_a_link_in_the_place_of_a_caches_directory_is_not_followed(bed: Rig) -> None:
    elsewhere = bed.directory / "elsewhere"
    elsewhere.mkdir()
    bed.socket.parent.parent.mkdir(parents=True, exist_ok=True)
    bed.socket.parent.symlink_to(elsewhere)
    await bed.start_runner()
    bed.want_cache()
    await until(lambda: "is a symbolic link" in bed.runner_log())
    assert list(elsewhere.iterdir()) == []
