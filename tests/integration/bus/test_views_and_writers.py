"""Views and writers while the server lives: what is put is what is read."""

import asyncio
from unittest.mock import patch

import pytest
import structlog

from integration.bus.rig import (
    DIRS,
    SOCKETS,
    Counts,
    declaring,
    directory,
    gone,
    history,
    keep,
    lost,
    make_bus,
    messages_of,
    plain,
    say,
    socket,
    sockets_writer,
)
from kvberth.bus import Absent, BodyTooLong, BusError, NotOurs
from kvberth.bus.readiness import lacks_connection, lacks_saying, taken_over
from kvberth_schemas import subjects
from kvberth_schemas.envelope import MAX_BODY_BYTES
from kvberth_schemas.events import SocketGoneV1
from kvberth_schemas.registry import encode
from kvberth_schemas.subjects import EVENTS_STREAM, WANTS_STREAM, Entity, Service
from support.waiting import seconds_until, until


async def test_what_a_writer_puts_is_what_a_view_shows(server):
    async with (
        declaring(server.url) as reader,
        make_bus(server.url) as agent,
        reader.view(SOCKETS) as view,
        sockets_writer(agent) as writer,
    ):
        name = writer.put(socket(), lost(), cause="because", traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
        writer.ready()
        await until(lambda: socket() in view.rows)
        row = view.rows[socket()]
        assert (row.message, row.envelope.id, row.envelope.cause) == (lost(), name, "because")
        assert row.envelope.source == "/kvberth/node_agent/node_agent-1"
        assert (row.envelope.traceparent or "").startswith("00-aaa")
        assert await writer.flushed(2)
        assert writer.complete
        assert view.complete


async def test_a_view_of_an_empty_stream_is_complete(server):
    async with declaring(server.url) as bus, bus.view(SOCKETS) as sockets, bus.view(DIRS) as wants:
        assert await seconds_until(lambda: sockets.complete and wants.complete) < 2
        assert not sockets.rows
        assert not wants.rows


async def test_a_view_reads_several_patterns(server):
    patterns = [subjects.events_of(Entity.SOCKET, "a"), subjects.events_of(Entity.SOCKET, "b")]
    async with declaring(server.url) as bus, plain(server.url) as client, bus.view(patterns) as view:
        await until(lambda: view.complete)
        for node in "abc":
            await say(client, socket(node=node), lost(node=node), node)
        await until(lambda: len(view.rows) == 2)
        assert set(view.rows) == {socket(node="a"), socket(node="b")}


async def test_without_a_declared_stream_everybody_waits_and_says_so(server):
    async with make_bus(server.url) as agent, agent.view(SOCKETS) as view, sockets_writer(agent) as writer:
        writer.put(socket(), lost())
        writer.ready()
        await until(lambda: agent.connected)
        assert not await writer.flushed(0.3)
        assert not view.complete
        assert not writer.complete
        async with declaring(server.url):
            await until(lambda: view.complete and writer.complete and socket() in view.rows)


async def test_a_server_that_refuses_to_make_the_streams_is_told_once_and_makes_nobody_ready(server):
    with structlog.testing.capture_logs() as told:
        async with make_bus(server.url, Service.PLACEMENT) as bus:
            await bus.declare(3)  # of one server
            sentence = await until(lambda: bus.connected and lacks_connection(bus, "nats://here"))
            assert "replicas > 1 not supported" in sentence
            await until(lambda: bus.streams._pause_s == 2.0)
            assert [line["stream"] for line in told if line["event"] == "stream not known"] == [
                EVENTS_STREAM,
                WANTS_STREAM,
            ]
            await bus.declare(1)
            await until(lambda: bus.streams.events_created and lacks_connection(bus, "nats://here") is None)


async def test_a_thousand_subjects_with_many_updates_end_in_their_last_state(server):
    async with declaring(server.url) as reader, make_bus(server.url) as agent:
        async with reader.view(SOCKETS) as view, sockets_writer(agent) as writer:
            writer.ready()
            for turn in range(20):
                for number in range(1000):
                    writer.put(socket(f"kv-{number}"), lost(f"kv-{number}", f"turn {turn}"))
                await asyncio.sleep(0)
            assert await writer.flushed(30)
            await until(lambda: len(view.rows) == 1000 and set(messages_of(view.rows)) == {"turn 19"})
        async with reader.view(SOCKETS) as second:
            await until(lambda: second.complete)
            assert dict(second.rows) == dict(view.rows)


async def test_the_same_content_again_is_a_no_op_with_the_same_id(server):
    async with declaring(server.url), make_bus(server.url) as agent, plain(server.url) as client:
        async with sockets_writer(agent) as writer:
            writer.ready()
            first = writer.put(socket(), lost())
            assert await writer.flushed(5)
            assert writer.put(socket(), lost()) == first
            assert writer.put(socket(), lost(message="other")) != first
            assert await writer.flushed(5)
        assert await history(client, socket()) == ["kvberth.socket.lost.v1"] * 2


async def test_a_restarted_writer_says_what_vanished_and_nothing_about_what_is_unchanged(server):
    async with declaring(server.url) as reader, plain(server.url) as client, reader.view(SOCKETS) as view:
        async with make_bus(server.url) as agent, sockets_writer(agent) as writer:
            writer.put(socket("stays"), lost("stays"))
            writer.put(socket("vanishes"), lost("vanishes"))
            writer.ready()
            assert await writer.flushed(5)
        await until(lambda: len(view.rows) == 2)
        before = view.rows[socket("stays")]
        async with make_bus(server.url) as agent, sockets_writer(agent) as writer:
            writer.put(socket("stays"), lost("stays"))
            writer.ready()
            await until(lambda: writer.complete)
            await until(lambda: isinstance(view.rows[socket("vanishes")].message, SocketGoneV1))
            assert writer.put(socket("stays"), lost("stays")) == before.envelope.id
        assert view.rows[socket("stays")] == before
        assert await history(client, socket("stays")) == ["kvberth.socket.lost.v1"]
        assert await history(client, socket("vanishes")) == ["kvberth.socket.lost.v1", "kvberth.socket.gone.v1"]


async def test_nothing_is_gone_before_the_owner_is_ready(server):
    async with declaring(server.url), plain(server.url) as client, make_bus(server.url) as agent:
        await until(lambda: agent.streams.events_created)
        await say(client, socket(), lost(), "earlier")
        async with sockets_writer(agent) as writer:
            writer.put(socket("other"), lost("other"))
            assert await writer.flushed(5)
            assert not writer.complete
            assert await history(client, socket()) == ["kvberth.socket.lost.v1"]
            writer.ready()
            await until(lambda: writer.complete)
            assert await history(client, socket()) == ["kvberth.socket.lost.v1", "kvberth.socket.gone.v1"]


async def test_a_keeper_never_says_gone(server):
    async with declaring(server.url) as bus, plain(server.url) as client:
        await until(lambda: bus.streams.created(WANTS_STREAM))
        await say(client, directory("old"), keep("old"), "earlier")
        async with bus.writer(DIRS, absent=Absent.KEEP) as writer:
            writer.put(directory("new"), keep("new"))
            writer.ready()
            await until(lambda: writer.complete)
            writer.forget(directory("new"))
            await until(lambda: writer.complete)
        for name in ("old", "new"):
            assert await history(client, directory(name), WANTS_STREAM) == ["kvberth.want.dir.v1"]


async def test_forgetting_says_gone_where_the_writer_does(server):
    async with (
        declaring(server.url),
        plain(server.url) as client,
        make_bus(server.url) as agent,
        sockets_writer(agent) as writer,
    ):
        writer.ready()
        writer.put(socket(), lost())
        assert await writer.flushed(5)
        writer.forget(socket())
        assert await writer.flushed(5)
        assert await history(client, socket()) == ["kvberth.socket.lost.v1", "kvberth.socket.gone.v1"]
        writer.put(socket(), lost())
        assert await writer.flushed(5)
        assert (await history(client, socket()))[-1] == "kvberth.socket.lost.v1"


async def test_a_row_that_its_owner_leaves_alone_is_left_alone(server):
    async with declaring(server.url), plain(server.url) as client, make_bus(server.url) as agent:
        await until(lambda: agent.streams.events_created)
        await say(client, socket(), lost(), "earlier")
        pattern = subjects.events_of(Entity.SOCKET, "a")
        async with agent.writer([pattern], absent=Absent.GONE, gone=lambda _: None) as writer:
            writer.ready()
            await until(lambda: writer.complete)
        assert await history(client, socket()) == ["kvberth.socket.lost.v1"]


async def test_a_purged_want_is_out_of_the_stream_and_can_come_again(server):
    async with (
        declaring(server.url) as bus,
        plain(server.url) as client,
        bus.writer(DIRS, absent=Absent.KEEP) as writer,
    ):
        writer.ready()
        writer.put(directory(), keep())
        assert await writer.flushed(5)
        await writer.purge(directory())
        assert await history(client, directory(), WANTS_STREAM) == []
        assert await writer.flushed(5)
        writer.put(directory(), keep())
        assert await writer.flushed(5)
        assert await history(client, directory(), WANTS_STREAM) == ["kvberth.want.dir.v1"]


async def test_what_was_wanted_before_does_not_come_back_when_the_server_dies_after_a_purge(server):
    async with (
        declaring(server.url) as bus,
        plain(server.url) as client,
        bus.writer(DIRS, absent=Absent.KEEP) as writer,
    ):
        writer.ready()
        writer.put(directory("before"), keep("before"))  # what begins a file is overwritten for good, what follows not
        assert await writer.flushed(5)
        for mode in (0o700, 0o750, 0o770):
            writer.put(directory(), keep(mode=mode))
            assert await writer.flushed(5)
        assert await history(client, directory(), WANTS_STREAM) == ["kvberth.want.dir.v1"]
        await writer.purge(directory())
        writer.put(directory("after"), keep("after"))
        assert await writer.flushed(5)
    await server.kill()
    await server.start()
    async with plain(server.url) as client:
        for kept in ("before", "after"):
            assert await history(client, directory(kept), WANTS_STREAM) == ["kvberth.want.dir.v1"]
        assert await history(client, directory(), WANTS_STREAM) == []


async def test_an_old_row_is_said_again_under_a_new_id(server):
    async with (
        declaring(server.url) as reader,
        reader.view(SOCKETS) as view,
        make_bus(server.url, stale_after_s=0.5, reconcile_s=0.7) as agent,
        sockets_writer(agent) as writer,
    ):
        first = writer.put(socket(), lost())
        writer.ready()
        assert await writer.flushed(5)
        await until(lambda: socket() in view.rows and view.rows[socket()].envelope.id != first)
        assert view.rows[socket()].message == lost()


async def test_what_others_say_on_our_subjects_is_overwritten_at_once(server):
    counts = Counts()
    async with declaring(server.url) as reader, plain(server.url) as client, reader.view(SOCKETS) as view:
        async with make_bus(server.url, telemetry=counts) as agent, sockets_writer(agent) as writer:
            writer.put(socket(), lost())
            writer.ready()
            assert await writer.flushed(5)
            await say(client, socket(), lost(message="lies"), "foreign-1")
            await say(client, socket("unknown"), lost("unknown"), "foreign-2")
            await until(lambda: "lies" not in messages_of(view.rows) and socket("unknown") in view.rows, within_s=2)
            await until(lambda: isinstance(view.rows[socket("unknown")].message, SocketGoneV1), within_s=2)
            await until(lambda: writer.complete)
        assert counts.counted["overwritten"] == 2
        assert await history(client, socket()) == ["kvberth.socket.lost.v1"] * 3


async def test_two_equal_writers_do_not_fight_as_fast_as_they_can_and_starve_nothing_else(server):
    async with (
        declaring(server.url),
        plain(server.url) as client,
        make_bus(server.url) as one,
        make_bus(server.url, instance="two") as two,
        sockets_writer(one) as first,
        sockets_writer(two) as second,
        one.view(SOCKETS) as view,
    ):
        for number in range(20):  # more than a writer has workers
            first.put(socket(f"fought-{number}"), lost(f"fought-{number}", "one"))
            second.put(socket(f"fought-{number}"), lost(f"fought-{number}", "two"))
        first.ready()
        await until(lambda: len(view.rows) == 20)
        await asyncio.sleep(2)
        before = (await client.jsm().stream_info(EVENTS_STREAM)).state.last_seq
        first.put(socket("quiet"), lost("quiet", "still served"))
        await until(lambda: "still served" in messages_of(view.rows), within_s=1)
        await asyncio.sleep(2)
        after = (await client.jsm().stream_info(EVENTS_STREAM)).state.last_seq
        assert after - before < 20 * 2 * 10


async def test_a_deposed_writer_says_nothing_more(server):
    sentence = taken_over("placement", "a bus has one")
    async with (
        declaring(server.url, term=4) as old,
        plain(server.url) as client,
        old.writer(DIRS, absent=Absent.KEEP) as deposed,
    ):
        deposed.put(directory(), keep(term=4))
        deposed.ready()
        assert await deposed.flushed(5)
        assert lacks_saying(sentence, deposed) is None
        async with (
            make_bus(server.url, Service.PLACEMENT, term=5) as new,
            new.writer(DIRS, absent=Absent.KEEP) as writer,
        ):
            writer.put(directory(), keep(term=5, mode=0o750))
            writer.ready()
            assert await writer.flushed(5)
            assert not writer.deposed
        await until(lambda: deposed.deposed)
        assert not deposed.complete
        assert lacks_saying(sentence, deposed) == sentence
        deposed.put(directory(), keep(term=4, mode=0o711))
        deposed.put(directory("more"), keep("more", term=4))
        assert not await deposed.flushed(1)
        assert await history(client, directory("more"), WANTS_STREAM) == []
        message = await client.jsm().get_last_msg(WANTS_STREAM, str(directory()))
        assert message.data == encode(keep(term=5, mode=0o750))


async def test_an_event_writer_is_deposed_by_the_term_that_its_rival_sends_along(server):
    async with declaring(server.url), make_bus(server.url, term=1) as old, sockets_writer(old) as deposed:
        deposed.put(socket(), lost(message="old"))
        deposed.ready()
        assert await deposed.flushed(5)
        async with make_bus(server.url, term=2) as new, sockets_writer(new) as writer:
            writer.put(socket(), lost(message="new"))
            writer.ready()
            assert await writer.flushed(5)
            await until(lambda: deposed.deposed)
            assert writer.complete


async def test_a_publish_that_comes_late_is_refused_and_decided_anew(server):
    """Another one speaks between our read and our publish: error 10071, a look at the subject, deposed."""
    counts = Counts()
    async with (
        declaring(server.url, counts, term=1) as bus,
        plain(server.url) as client,
        bus.writer(DIRS, absent=Absent.KEEP) as writer,
    ):
        writer.ready()
        await until(lambda: writer.complete)
        with patch.object(writer._ledger, "received"):  # what the writer follows reaches it too late
            await say(client, directory(), keep(term=2), "rightful")
            writer.put(directory(), keep(term=1, mode=0o711))
            await until(lambda: writer.deposed)
        assert counts.counted["conflicts"] == 1
        message = await client.jsm().get_last_msg(WANTS_STREAM, str(directory()))
        assert message.data == encode(keep(term=2))


async def test_wants_of_a_lower_term_are_not_taken(server):
    counts = Counts()
    async with declaring(server.url, counts) as bus, plain(server.url) as client, bus.view(DIRS) as view:
        await until(lambda: view.complete)
        await say(client, directory("a"), keep("a", term=2), "1")
        await say(client, directory("b"), keep("b", term=3), "2")
        await say(client, directory("c"), keep("c", term=2), "3")
        await say(client, directory("b"), keep("b", term=1, mode=0), "4")
        await say(client, directory("d"), keep("d", term=3), "5")
        await until(lambda: directory("d") in view.rows)
        assert set(view.rows) == {directory("a"), directory("b"), directory("d")}
        assert view.rows[directory("b")].message == keep("b", term=3)
        assert counts.counted["outvoted"] == 2
        view.reread()
        generation = view.generation
        await until(lambda: view.complete and view.generation > generation)
        assert directory("a") in view.rows
        assert directory("c") not in view.rows


async def test_what_is_not_ours_or_too_long_is_refused_with_a_sentence(server):
    async with make_bus(server.url) as agent, sockets_writer(agent) as writer:
        with pytest.raises(NotOurs, match=r"kvberth\.evt\.v1\.b\.default\.kv\.socket is not written here"):
            writer.put(socket(node="b"), lost(node="b"))
        with pytest.raises(NotOurs, match="a DirWantV1 was said on"):
            writer.put(socket(), keep())
        with pytest.raises(BodyTooLong, match=f"it would be {MAX_BODY_BYTES} at most"):
            writer.put(socket(), lost(message="x" * MAX_BODY_BYTES))
        with pytest.raises(BusError, match="needs a `gone`"):
            agent.writer(SOCKETS, absent=Absent.GONE)
        with pytest.raises(BusError, match="needs a `gone`"):
            agent.writer(SOCKETS, absent=Absent.KEEP, gone=gone)
        with pytest.raises(NotOurs):
            agent.view([*SOCKETS, *DIRS])


async def test_listeners_hear_every_row_in_order(server):
    heard: list[int] = []
    async with declaring(server.url) as bus, plain(server.url) as client, bus.view(SOCKETS) as view:
        view.add_listener(lambda row: heard.append(row.sequence))
        await until(lambda: view.complete)
        for number in range(50):
            await say(client, socket(f"kv-{number % 3}"), lost(f"kv-{number % 3}", str(number)), str(number))
        await until(lambda: len(heard) == 50)
        assert heard == sorted(heard)


async def test_an_error_in_a_listener_ends_the_owner_and_is_not_swallowed(server):
    def broken(_row: object) -> None:
        raise RuntimeError("the listener is broken")

    async def owner() -> None:
        async with declaring(server.url) as bus, plain(server.url) as client, bus.view(SOCKETS) as view:
            view.add_listener(broken)
            await until(lambda: view.complete)
            await say(client, socket(), lost(), "1")
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(owner(), 5)
    assert caught.group_contains(RuntimeError, match="the listener is broken", depth=None)


async def test_an_error_of_the_block_itself_passes_as_it_is(server):
    with pytest.raises(KeyError, match="mine"):
        async with declaring(server.url) as bus, bus.view(SOCKETS), sockets_writer(bus), bus.liveness(), bus.heart():
            raise KeyError("mine")
