"""Requests and answers: whatever goes wrong is a sentence."""

import asyncio
import contextlib
from functools import partial

import pytest

from integration.bus.rig import Counts, make_bus, plain
from kvberth.bus import BusError, BusTimeout, NoResponder
from kvberth_schemas.envelope import MAX_BODY_BYTES
from kvberth_schemas.requests import (
    ApplyRequest,
    NodeRequest,
    Outcome,
    Reply,
    Result,
    ScaleRequest,
    WorkloadReply,
    WorkloadRequest,
)
from kvberth_schemas.subjects import Service, Verb, api
from support.waiting import until

ACCEPTED = Reply(results=(Result(kind="Node", namespace=None, name="a", outcome=Outcome.ACCEPTED),))
WORKLOAD = WorkloadRequest(namespace="default", kind="Deployment", name="engine")


@contextlib.asynccontextmanager
async def asking(server, verb, request_type, handler, counts=None, **options):
    """A responder that has subscribed, and a bus to ask it on."""
    async with make_bus(server.url, Service.SCHEDULER, counts) as scheduler, make_bus(server.url, Service.CLI) as cli:
        async with scheduler.respond(verb, request_type, handler, **options):
            for bus in (scheduler, cli):
                await until(lambda bus=bus: bus.connected)
            await (await scheduler._connection.session())._client.flush()
            yield cli


async def test_a_request_is_answered(server):
    async def cordon(request: NodeRequest) -> Reply:
        assert request == NodeRequest(node="a")
        return ACCEPTED

    async with asking(server, Verb.CORDON, NodeRequest, cordon) as cli:
        assert await cli.request(Verb.CORDON, NodeRequest(node="a"), Reply) == ACCEPTED


async def test_nobody_who_answers_is_an_error_with_a_sentence(server):
    async with make_bus(server.url, Service.CLI) as cli:
        with pytest.raises(NoResponder, match=r"asking kvberth\.api\.v1\.cordon: nobody listens there"):
            await cli.request(Verb.CORDON, NodeRequest(node="a"), Reply)


async def test_no_server_is_a_timeout_with_a_sentence(server):
    await server.kill()
    async with make_bus(server.url, Service.CLI) as cli:
        with pytest.raises(BusTimeout, match=r"cordon: no answer within 0\.3 s from nats://127"):
            await cli.request(Verb.CORDON, NodeRequest(node="a"), Reply, timeout_s=0.3)


async def test_a_slow_answer_is_a_timeout(server):
    async def slow(_: NodeRequest) -> Reply:
        await asyncio.sleep(5)
        return ACCEPTED

    async with asking(server, Verb.CORDON, NodeRequest, slow) as cli:
        with pytest.raises(BusTimeout, match="no answer"):
            await cli.request(Verb.CORDON, NodeRequest(node="a"), Reply, timeout_s=0.3)


@pytest.mark.parametrize("body", [b"", b"{", b'{"replicas": 3}', b'{"name": "x", "replicas": -1}', b"\xff"])
async def test_a_bad_request_is_answered_with_a_sentence_and_counted(server, body):
    async def never(_: ScaleRequest) -> Reply:
        raise AssertionError("the handler saw a bad request")

    counts = Counts()
    async with asking(server, Verb.SCALE, ScaleRequest, never, counts), plain(server.url) as client:
        answer = Reply.model_validate_json((await client.request(api(Verb.SCALE), body, timeout=2)).data)
        assert answer.refused
        assert answer.results[0].sentence.startswith("the request can't be read: ")
        assert counts.counted["failed_requests:bad_request"] == 1


async def test_an_oversized_request_is_refused_on_both_sides(server):
    async def never(_: ApplyRequest) -> Reply:
        raise AssertionError("the handler saw an oversized request")

    async with asking(server, Verb.APPLY, ApplyRequest, never) as cli, plain(server.url) as client:
        with pytest.raises(BusError, match=f"it would be {MAX_BODY_BYTES} at most"):
            await cli.request(Verb.APPLY, ApplyRequest(text="x" * MAX_BODY_BYTES), Reply)
        answer = await client.request(api(Verb.APPLY), b"x" * (MAX_BODY_BYTES + 1), timeout=2)
        assert f"would be {MAX_BODY_BYTES} at most" in Reply.model_validate_json(answer.data).results[0].sentence


async def test_a_failing_handler_is_answered_counted_and_serves_on(server):
    async def sometimes(request: NodeRequest) -> Reply:
        if request.node == "bad":
            raise RuntimeError("no such node in my book")
        return ACCEPTED

    counts = Counts()
    async with asking(server, Verb.CORDON, NodeRequest, sometimes, counts) as cli:
        answer = await cli.request(Verb.CORDON, NodeRequest(node="bad"), Reply)
        assert answer.results[0].sentence == "RuntimeError: no such node in my book"
        assert counts.counted["failed_requests:error"] == 1
        assert await cli.request(Verb.CORDON, NodeRequest(node="a"), Reply) == ACCEPTED


async def test_a_fault_where_no_reply_can_say_it_is_raised(server):
    async def broken(_: WorkloadRequest) -> WorkloadReply:
        raise RuntimeError("the store is broken")

    async with asking(server, Verb.WORKLOAD, WorkloadRequest, broken) as cli:
        with pytest.raises(BusError, match="workload: RuntimeError: the store is broken"):
            await cli.request(Verb.WORKLOAD, WORKLOAD, WorkloadReply)


async def test_an_answer_of_another_kind_is_an_error(server):
    async def odd(_: WorkloadRequest) -> Reply:
        return ACCEPTED

    async with asking(server, Verb.WORKLOAD, WorkloadRequest, odd) as cli:
        with pytest.raises(BusError, match="the answer is no WorkloadReply"):
            await cli.request(Verb.WORKLOAD, WORKLOAD, WorkloadReply)


async def test_a_handler_that_takes_too_long_is_ended_and_says_so(server):
    async def endless(_: NodeRequest) -> Reply:
        await asyncio.Event().wait()
        return ACCEPTED

    async with asking(server, Verb.CORDON, NodeRequest, endless, handler_timeout_s=0.2) as cli:
        answer = await cli.request(Verb.CORDON, NodeRequest(node="a"), Reply)
        assert answer.results[0].sentence == "it was not done within 0.2 s"


async def test_too_many_waiting_requests_are_turned_away_at_once(server):
    open_up = asyncio.Event()

    async def slow(_: NodeRequest) -> Reply:
        await open_up.wait()
        return ACCEPTED

    async with asking(server, Verb.CORDON, NodeRequest, slow) as cli, asyncio.TaskGroup() as group:
        asking_cordon = partial(cli.request, Verb.CORDON, NodeRequest(node="a"), Reply, timeout_s=10)
        asked = [group.create_task(asking_cordon()) for _ in range(80)]
        await until(lambda: sum(task.done() for task in asked) >= 80 - 1 - 64)
        open_up.set()
    refused = [task.result().results[0].sentence for task in asked if task.result().refused]
    assert len(refused) in {15, 16}, "one is at work and 64 wait, or 64 wait"
    assert set(refused) == {"64 requests wait already; ask again later"}


async def test_requests_are_answered_after_a_restart_of_the_server(server):
    async def cordon(_: NodeRequest) -> Reply:
        return ACCEPTED

    async with asking(server, Verb.CORDON, NodeRequest, cordon) as cli:
        await server.restart()

        async def answered() -> None:
            while True:
                with contextlib.suppress(BusError):
                    assert await cli.request(Verb.CORDON, NodeRequest(node="a"), Reply) == ACCEPTED
                    return

        await asyncio.wait_for(answered(), 5)


async def test_a_lost_connection_does_not_cut_a_handler_in_the_middle(server):
    done, begun, go_on = [], asyncio.Event(), asyncio.Event()

    async def slow(_: NodeRequest) -> Reply:
        begun.set()
        await go_on.wait()
        done.append(True)
        return ACCEPTED

    counts = Counts()
    async with asking(server, Verb.CORDON, NodeRequest, slow, counts) as cli:
        asked = asyncio.create_task(cli.request(Verb.CORDON, NodeRequest(node="a"), Reply))
        await begun.wait()
        await server.kill()
        await asyncio.wait([asked])
        assert isinstance(asked.exception(), BusError)
        go_on.set()
        await until(lambda: done)
        await until(lambda: counts.counted["failed_requests:not_answered"] == 1)
