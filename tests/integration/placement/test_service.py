"""Placement on a real nats-server: the demo's trace, restarts, a wiped bus, a silent scheduler."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from integration.placement.actors import Cluster, cluster, placement
from kvberth.bus import Absent, Bus, BusSettings, Row
from kvberth.service import ServiceError
from kvberth_schemas import subjects
from kvberth_schemas.events import CacheMovedV1, CachePlacedV1, SocketLostReason
from kvberth_schemas.requests import WorkloadReply
from kvberth_schemas.subjects import Service, WantKind
from kvberth_schemas.wants import CacheWantV1, Why
from support.nats import NatsServer, nats_server
from support.placement_world import NAMESPACE
from support.waiting import until


@pytest.fixture
async def server(tmp_path) -> AsyncIterator[NatsServer]:
    async with nats_server(tmp_path) as running:
        yield running


@pytest.fixture
def state(tmp_path) -> Path:
    return tmp_path / "state"


def begin(found: Cluster) -> None:
    """Two nodes, a KVCache, an engine on `a`."""
    found.world.node("a")
    found.world.node("b")
    found.world.kvcache()
    found.world.engine("u1", "a")
    found.world.engine_process("u1", "a")
    found.publish()


async def serve(found: Cluster) -> None:
    """Begin, and let the cache on `a` answer."""
    begin(found)
    await until(lambda: found.wanted("a") == "run")
    found.world.cache_runs("a", incarnation="i1")
    found.publish()
    await until(lambda: found.ready() == "True AllServed")


async def test_a_move_runs_as_the_demo_tells_it(server, state):
    async with cluster(server.url) as found, placement(server.url, state):
        begin(found)
        await until(lambda: found.wanted("a") == "run")
        first = found.want_row(WantKind.CACHE, "a")
        pod = await _row_of(server, subjects.pod(NAMESPACE, "u1"))
        assert first.envelope.cause == pod.envelope.id
        assert found.want_row(WantKind.DIR, "a").sequence < first.sequence
        await until(lambda: found.ready() == "False NotAnswering")
        found.world.cache_runs("a", incarnation="i1")
        found.publish()
        await until(lambda: found.ready() == "True AllServed")

        found.world.engine("u1", "a", wanted=1, deleting=True)
        found.world.engine("u2", "b", wanted=1)
        found.publish()
        await until(lambda: found.wanted("b") == "run")
        assert found.wanted("a") == "run"
        found.world.cache_runs("b", incarnation="i2")
        found.world.engine_process_ended("u1", "a")
        found.world.engine_gone("u1", "a")
        found.publish()
        await until(lambda: found.wanted("a") == "stop")
        assert found.asked >= 1
        want = await until(lambda: (w := found.want(WantKind.DIR, "a")) and w.state == "drop" and w)
        assert want.why is Why.MOVED

        found.world.cache_ended("a")
        found.publish()
        status = await until(lambda: (s := found.status()) and s.moved and s)
        assert status.moved == "relocated from a to b"
        assert [(row.node, row.state) for row in status.nodes] == [("b", "serving")]
        assert (status.engines_served, status.engines) == (1, 1)
        assert found.ready() == "True AllServed"
        logs = await _logs(server, 3)
        assert [type(row.message) for row in logs] == [CachePlacedV1, CachePlacedV1, CacheMovedV1]
        bound = await _row_of(server, subjects.pod(NAMESPACE, "u2"))
        assert logs[2].envelope.cause == bound.envelope.id
        await _purged(server, "a")


async def test_scaling_to_zero_asks_the_scheduler_and_removes(server, state):
    async with cluster(server.url) as found, placement(server.url, state):
        await serve(found)
        found.workload = WorkloadReply(found=True, wanted=0, bound=0)
        found.world.engine_process_ended("u1", "a")
        found.world.engine_gone("u1", "a")
        found.publish()
        await until(lambda: found.wanted("a") == "stop")
        want = found.want(WantKind.CACHE, "a")
        assert want is not None
        assert want.why is Why.SCALED


async def test_a_cache_whose_engine_does_not_return_is_removed_when_its_linger_ends(server, state):
    """What a live read finds to be due may be due sooner than the next look at it."""
    async with cluster(server.url) as found, placement(server.url, state):
        await serve(found)
        found.world.kvcache(spec={"cacheSpec": {"memory": "72Gi"}, "lingerSeconds": 6})
        found.workload = WorkloadReply(found=True, wanted=1, bound=0)
        found.world.engine_process_ended("u1", "a")
        found.world.engine_gone("u1", "a")
        found.publish()
        await until(lambda: "kept for at most 6 s" in _message(found, "Placed"))
        await until(lambda: found.wanted("a") == "stop", within_s=8.0)  # looked at every 5 s, that would be after 10 s


async def test_a_cache_is_asked_for_with_the_variables_that_are_known_here(server, state):
    async with cluster(server.url) as found, placement(server.url, state):
        begin(found)
        env = [{"name": "GLOG_v", "value": "11"}, {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a"}}}]
        found.world.kvcache(spec={"cacheSpec": {"memory": "72Gi", "env": env}})
        found.publish()
        await until(lambda: found.wanted("a") == "run")
        assert found.want(WantKind.CACHE, "a").env == {"GLOG_v": "11"}
        await until(lambda: "env[1].valueFrom is resolved on Kubernetes only" in _message(found, "Accepted"))


async def test_where_no_cache_fits_the_directory_alone_is_asked_for_until_its_engine_is_gone(server, state):
    async with cluster(server.url) as found:
        found.world.node("a", free=10)
        found.world.node("b")
        found.world.kvcache(spec={"gate": {"policy": "wait", "timeoutSeconds": 20}})
        found.world.engine("u1", "a")
        found.publish()
        async with placement(server.url, state):
            want = await until(lambda: found.want(WantKind.DIR, "a"))
            assert (want.state, want.gate_policy, want.gate_timeout_s) == ("keep", "wait", 20)
            await until(lambda: found.ready() == "False CannotFit")
        found.world.socket_lost("a", reason=SocketLostReason.MISSING)
        found.publish()
        async with placement(server.url, state):
            again = await until(
                lambda: (row := found.want_row(WantKind.DIR, "a")) and row.message.term > want.term and row.message
            )
            assert again == want.model_copy(update={"term": again.term})
            await until(lambda: found.status().term == again.term and found.ready() == "False CannotFit")
            found.world.engine_gone("u1", "a")
            found.publish()
            await until(lambda: found.want(WantKind.DIR, "a").state == "drop")
        assert found.wanted("a") is None, "no cache was ever asked for"


async def test_a_restart_takes_over_what_was_asked_for_and_changes_nothing(server, state):
    async with cluster(server.url) as found:
        async with placement(server.url, state):
            await serve(found)
        before = found.want_row(WantKind.CACHE, "a").message
        conditions = found.status().conditions
        async with placement(server.url, state):
            after = await until(
                lambda: (row := found.want_row(WantKind.CACHE, "a")) and row.message.term > before.term and row.message
            )
            assert after == before.model_copy(update={"term": after.term})
            await until(lambda: found.status().term == after.term and found.ready() == "True AllServed")
            assert [item.since for item in found.status().conditions if item.type == "Accepted"] == [
                item.since for item in conditions if item.type == "Accepted"
            ]


async def test_a_move_that_happened_while_placement_was_away_is_made_up_for(server, state):
    async with cluster(server.url) as found:
        async with placement(server.url, state):
            await serve(found)
        found.world.engine_process_ended("u1", "a")
        found.world.engine_gone("u1", "a")
        found.world.engine("u2", "b")
        found.publish()
        async with placement(server.url, state):
            await until(lambda: found.wanted("b") == "run")
            await until(lambda: found.wanted("a") == "stop")


async def test_a_stop_that_was_said_by_half_is_said_whole_by_the_next_life(server, state):
    async with cluster(server.url) as found:
        async with placement(server.url, state):
            await serve(found)
        await _say(server, found.want(WantKind.CACHE, "a").model_copy(update={"state": "stop", "why": Why.USER}))
        found.world.kvcache(replicas=0)
        found.publish()
        async with placement(server.url, state):
            await until(lambda: found.want(WantKind.DIR, "a").state == "drop")
            assert found.want(WantKind.DIR, "a").why is Why.USER
            found.world.cache_ended("a")
            found.publish()
            await _purged(server, "a")


async def test_a_wiped_bus_gets_every_want_again_and_no_cache_is_stopped(server, state):
    async with cluster(server.url) as found, placement(server.url, state):
        await serve(found)
        await server.kill()
        server.wipe()
        await server.start()
        await until(lambda: found.states.complete and found.wants.complete and found.status(), within_s=30)
        await until(lambda: found.wanted("a") == "run", within_s=30)
        await until(lambda: found.ready() == "True AllServed", within_s=30)


async def test_a_silent_scheduler_turns_status_unknown_and_freezes(server, state):
    async with placement(server.url, state):
        async with cluster(server.url) as found:
            await serve(found)
        async with Bus(BusSettings(url=server.url, service=Service.CLI, instance="reader")) as bus:
            view = bus.view([subjects.events_of(subjects.Entity.STATUS)])
            async with view:
                reader = Cluster(found.world, view, view)
                await until(lambda: reader.ready() == "Unknown SourceStale", within_s=15)
                assert _message(reader, "Placed").startswith("the scheduler is silent, so pods")


async def test_a_kvcache_deleted_by_its_user_goes_with_its_status(server, state):
    async with cluster(server.url) as found, placement(server.url, state):
        await serve(found)
        found.world.kvcache_gone()
        found.publish()
        await until(lambda: found.wanted("a") == "stop")
        found.world.cache_ended("a")
        found.publish()
        await until(lambda: found.status() is None)
        await _purged(server, "a")


async def test_a_removal_without_an_answer_does_not_happen(server, state):
    async with cluster(server.url) as found, placement(server.url, state):
        await serve(found)
        found.mute = True
        found.world.engine_process_ended("u1", "a")
        found.world.engine_gone("u1", "a")
        found.publish()
        await until(lambda: found.asked >= 1)
        await until(lambda: "did not answer" in _message(found, "Placed"))
        assert found.wanted("a") == "run"


async def test_a_second_placement_on_the_same_directory_refuses_to_start(server, state):
    async with placement(server.url, state):
        await until(lambda: (state / "placement" / "term").exists())
        with pytest.raises(ExceptionGroup) as caught:
            async with placement(server.url, state):
                await asyncio.Event().wait()
        (error,) = caught.value.exceptions
        assert isinstance(error, ServiceError)
        assert f"Another placement (pid {os.getpid()}) works with" in str(error)


async def test_a_placement_that_was_taken_over_ends_with_a_sentence(server, tmp_path):
    term = tmp_path / "new" / "placement" / "term"
    term.parent.mkdir(parents=True)
    term.write_text(f"{int(time.time()) + 1000}")
    async with cluster(server.url) as found:
        with pytest.raises(ExceptionGroup) as caught:
            await _take_over(found, server.url, tmp_path)
        assert "Another placement with a higher term speaks on the bus" in str(_innermost(caught.value))
        assert found.wanted("a") == "run"


async def _take_over(found: Cluster, url: str, directory: Path) -> None:
    async with placement(url, directory / "old"):
        await serve(found)
        async with placement(url, directory / "new"):
            await asyncio.Event().wait()


def _innermost(error: BaseException) -> BaseException:
    return _innermost(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def test_from_bound_to_want_takes_a_few_milliseconds(server, state):
    async with cluster(server.url) as found, placement(server.url, state):
        await serve(found)
        found.world.engine("u2", "b")
        found.publish()
        await until(lambda: found.wanted("b") == "run")
        pod = await _row_of(server, subjects.pod(NAMESPACE, "u2"))
        taken = found.want_row(WantKind.CACHE, "b").envelope.time - pod.envelope.time
        assert taken.total_seconds() < 0.5


def _message(found: Cluster, kind: str) -> str:
    status = found.status()
    return next((item.message for item in status.conditions if item.type == kind), "") if status else ""


async def _say(server: NatsServer, want: CacheWantV1) -> None:
    """Say what an earlier life of placement said last."""
    settings = BusSettings(url=server.url, service=Service.PLACEMENT, instance="earlier", term=want.term)
    async with Bus(settings) as bus, bus.writer([subjects.wants_of(WantKind.CACHE)], absent=Absent.KEEP) as writer:
        writer.ready()
        writer.put(subjects.want(WantKind.CACHE, "a", want.namespace, want.kvcache), want)
        assert await writer.flushed(5)


async def _row_of(server: NatsServer, subject: subjects.EventSubject) -> Row:
    settings = BusSettings(url=server.url, service=Service.CLI, instance="witness")
    async with Bus(settings) as bus, bus.view([str(subject)]) as view:
        return await until(lambda: view.rows.get(subject))


async def _logs(server: NatsServer, count: int) -> list[Row]:
    rows = []
    async with Bus(BusSettings(url=server.url, service=Service.CLI, instance="witness")) as bus:
        async with asyncio.timeout(10):
            async for row in bus.log_tail(str(subjects.cache(NAMESPACE, "kv")), start="all"):
                rows.append(row)
                if len(rows) == count:
                    return rows
    return rows


async def _purged(server: NatsServer, node: str) -> None:
    """Wait until the wants of a node are no longer in the stream."""
    async with Bus(BusSettings(url=server.url, service=Service.CLI, instance="witness")) as bus:
        async with asyncio.timeout(10):
            while True:
                async with bus.view([subjects.wants_of(WantKind.CACHE, node)]) as view:
                    await until(lambda: view.complete)
                    if not view.rows:
                        return
                await asyncio.sleep(0.05)
