"""What dies: the server, its store, its answers, a stream under an open consumer, the client's own read loop."""

import asyncio
import contextlib
import resource
import socket as socketlib
import struct
import time
from unittest.mock import patch

import pytest
from nats.js.api import PubAck

from integration.bus.rig import (
    DIRS,
    SOCKETS,
    Counts,
    declaring,
    directory,
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
from kvberth.bus import Absent, BusSettings, BusTimeout
from kvberth.bus.connection import Connection
from kvberth.bus.consumer import Consumer
from kvberth.bus.errors import SessionLost
from kvberth.bus.metrics import Metrics
from kvberth.bus.readiness import lacks_saying
from kvberth.bus.session import Session
from kvberth_schemas.events import SocketGoneV1
from kvberth_schemas.subjects import EVENTS_STREAM, WANTS_STREAM, Service
from support.nats import NatsServer
from support.waiting import seconds_until, until


async def test_the_start_order_does_not_matter(tmp_path):
    server = NatsServer(tmp_path)
    async with make_bus(server.url) as agent, agent.view(SOCKETS) as view, sockets_writer(agent) as writer:
        writer.put(socket(), lost())
        writer.ready()
        await asyncio.sleep(0.7)
        assert not agent.connected
        await server.start()
        try:
            async with declaring(server.url):
                assert await seconds_until(lambda: writer.complete and view.complete and socket() in view.rows) < 5
        finally:
            await server.kill()


@pytest.mark.parametrize(
    "greeting",
    [b"INFO []\r\n", b"INFO {\r\n", b"INFO 1\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\x00", b"x" * 3_000_000],
    ids=["list", "broken", "number", "http", "bytes", "endless"],
)
async def test_a_peer_that_speaks_no_nats_is_tried_again_until_it_is_a_nats_server(tmp_path, greeting):
    server = NatsServer(tmp_path)
    greeted = asyncio.Event()

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(greeting)
            await writer.drain()
        writer.close()
        greeted.set()

    stranger = await asyncio.start_server(greet, "127.0.0.1", server.port)
    async with make_bus(server.url) as bus:
        await asyncio.wait_for(greeted.wait(), 5)
        greeted.clear()
        await asyncio.wait_for(greeted.wait(), 5)  # it tries again
        stranger.close()
        await stranger.wait_closed()
        await server.start()
        try:
            assert await seconds_until(lambda: bus.connected) < 5
        finally:
            await server.kill()


async def test_after_a_kill_views_and_writers_are_complete_again_within_five_seconds(server):
    async with (
        declaring(server.url) as reader,
        make_bus(server.url) as agent,
        reader.view(SOCKETS) as view,
        sockets_writer(agent) as writer,
    ):
        writer.put(socket("stays"), lost("stays"))
        writer.put(socket("changes"), lost("changes"))
        writer.put(socket("vanishes"), lost("vanishes"))
        writer.ready()
        await until(lambda: len(view.rows) == 3 and writer.complete)
        generation = view.generation
        await server.kill()
        assert (
            await seconds_until(lambda: not (agent.connected or reader.connected or view.complete or writer.complete))
            < 1
        )
        writer.put(socket("changes"), lost("changes", "meanwhile"))
        writer.forget(socket("vanishes"))
        await server.start()
        assert await seconds_until(lambda: view.complete and writer.complete) < 5
        await until(lambda: isinstance(view.rows[socket("vanishes")].message, SocketGoneV1))
        await until(lambda: "meanwhile" in messages_of(view.rows))
        assert view.generation > generation
    async with plain(server.url) as client:
        assert await history(client, socket("stays")) == ["kvberth.socket.lost.v1"]


async def test_after_an_orderly_stop_a_view_is_complete_again(server):
    async with declaring(server.url) as bus, bus.view(SOCKETS) as view:
        await until(lambda: view.complete)
        await server.stop()
        await until(lambda: not view.complete, within_s=1)
        await server.start()
        assert await seconds_until(lambda: view.complete) < 5


async def test_on_a_wiped_server_views_are_unknown_and_then_hold_the_writers_state_again(server):
    async with (
        declaring(server.url) as reader,
        make_bus(server.url) as agent,
        reader.view(SOCKETS) as view,
        sockets_writer(agent) as writer,
        plain_rows(server),
    ):
        name = writer.put(socket(), lost())
        writer.ready()
        await until(lambda: len(view.rows) == 2 and writer.complete)
        created = reader.streams.events_created
        await server.kill()
        server.wipe()
        await server.start()
        assert await seconds_until(lambda: view.complete and writer.complete and socket() in view.rows) < 5
        assert set(view.rows) == {socket()}, "what the old stream held is no more"
        assert view.rows[socket()].envelope.id == name
        assert created != reader.streams.events_created == agent.streams.events_created


@contextlib.asynccontextmanager
async def plain_rows(server):
    """A row of a node whose agent is dead by now."""
    async with plain(server.url) as client, declaring(server.url) as bus:
        await until(lambda: bus.streams.events_created)
        await say(client, socket(node="b"), lost(node="b"), "of-b")
    yield


async def test_a_frozen_server_is_noticed_within_three_seconds_and_nothing_is_lost(server):
    async with (
        declaring(server.url) as reader,
        make_bus(server.url) as agent,
        reader.view(SOCKETS) as view,
        sockets_writer(agent) as writer,
    ):
        writer.ready()
        await until(lambda: view.complete and writer.complete)
        server.freeze()
        for number in range(200):
            writer.put(socket(f"kv-{number}"), lost(f"kv-{number}", "frozen"))
        assert await seconds_until(lambda: not (agent.connected or reader.connected)) < 3.6
        assert not view.complete
        assert not writer.complete
        writer.put(socket("kv-0"), lost("kv-0", "changed"))
        await asyncio.sleep(2)
        server.resume()
        await until(lambda: view.complete and writer.complete, within_s=8)
        await until(lambda: len(view.rows) == 200 and view.rows[socket("kv-0")].message == lost("kv-0", "changed"))


async def test_a_bus_can_be_left_while_its_server_is_frozen(server):
    async with declaring(server.url) as bus, bus.view(SOCKETS) as view, sockets_writer(bus) as writer:
        await until(lambda: view.complete)
        writer.put(socket(), lost())
        server.freeze()
        start = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - start < 6
    server.resume()


async def test_a_stream_that_was_deleted_and_declared_again_under_open_views_is_read_anew(server):
    async with (
        declaring(server.url) as reader,
        make_bus(server.url) as agent,
        reader.view(SOCKETS) as view,
        reader.view(DIRS) as wants,
        reader.writer(DIRS, absent=Absent.KEEP) as dirs,
        sockets_writer(agent) as writer,
        plain(server.url) as client,
    ):
        for number in range(100):
            writer.put(socket(f"kv-{number}"), lost(f"kv-{number}"))
        dirs.put(directory(), keep())
        writer.ready()
        dirs.ready()
        await until(lambda: len(view.rows) == 100 and len(wants.rows) == 1)
        for stream in (EVENTS_STREAM, WANTS_STREAM):
            config = (await client.jsm().stream_info(stream)).config
            await client.jsm().delete_stream(stream)
            await client.jsm().add_stream(config)
        for number in range(100):
            writer.put(socket(f"kv-{number}"), lost(f"kv-{number}", "new"))
        await until(lambda: len(view.rows) == 100 and set(messages_of(view.rows)) == {"new"}, within_s=7)
        await until(lambda: view.complete and wants.complete and len(wants.rows) == 1, within_s=7)
        await until(lambda: writer.complete and dirs.complete)


async def test_a_deleted_stream_is_declared_again(server):
    async with declaring(server.url) as bus, bus.view(SOCKETS) as view, sockets_writer(bus) as writer:
        writer.put(socket(), lost())
        writer.ready()
        await until(lambda: socket() in view.rows)
        async with plain(server.url) as client:
            await client.jsm().delete_stream(EVENTS_STREAM)
        generation = view.generation
        await until(lambda: view.generation > generation and view.complete and socket() in view.rows, within_s=9)


async def test_a_stream_with_another_configuration_is_corrected(server):
    async with plain(server.url) as client:
        await client.jsm().add_stream(name=EVENTS_STREAM, subjects=["kvberth.evt.v1.>"], max_msgs_per_subject=2)
        async with declaring(server.url) as bus:
            await until(lambda: bus.streams.events_created and bus.streams.created(WANTS_STREAM))
        config = (await client.jsm().stream_info(EVENTS_STREAM)).config
        assert (config.max_msgs_per_subject, config.max_age, config.duplicate_window) == (32, 86400, 120)
        wants = (await client.jsm().stream_info(WANTS_STREAM)).config
        assert (wants.max_msgs_per_subject, wants.max_age) == (1, 0)


async def test_a_deleted_consumer_is_replaced(server):
    async with declaring(server.url) as bus, bus.view(SOCKETS) as view, plain(server.url) as client:
        await until(lambda: view.complete)
        generation = view.generation
        (consumer,) = await client.jsm().consumers_info(EVENTS_STREAM)
        await client.jsm().delete_consumer(EVENTS_STREAM, consumer.name)
        await until(lambda: view.generation > generation and view.complete)
        await say(client, socket(), lost(), "1")
        await until(lambda: socket() in view.rows)


@pytest.mark.parametrize("followed", [True, False], ids=["seen at the next message", "seen at the next heartbeat"])
async def test_a_message_that_never_came_is_noticed(server, followed):
    original, dropped = Consumer._take, []

    async def deaf(consumer):
        message = await original(consumer)
        if message.subject == str(socket("dropped")) and not dropped:
            dropped.append(message)
            return await original(consumer)
        return message

    with patch.object(Consumer, "_take", deaf):
        async with declaring(server.url) as bus, bus.view(SOCKETS) as view, plain(server.url) as client:
            await until(lambda: view.complete)
            await say(client, socket("dropped"), lost("dropped"), "1")
            if followed:
                await say(client, socket("next"), lost("next"), "2")
            await until(lambda: view.complete and len(view.rows) == 1 + followed)
            assert dropped
            assert view.generation == 2


async def test_a_dead_read_loop_is_noticed_and_replaced(server):
    counts = Counts()
    async with declaring(server.url, counts) as bus, bus.view(SOCKETS) as view, plain(server.url) as client:
        await until(lambda: view.complete)
        first = await bus._connection.session()

        async def broken(_data: bytes) -> None:
            raise TypeError("an exception that nobody expected")

        with patch.object(first._client._ps, "parse", broken):
            await until(lambda: first._client._reading_task.done())
            assert first._client.is_connected, "nats-py believes that all is well"
            assert await seconds_until(lambda: not bus.connected) < 4
        await say(client, socket(), lost(), "1")
        await until(lambda: view.complete and socket() in view.rows)
        assert counts.counted["disconnects"] == 1
        assert counts.counted["connections"] == 2


async def test_a_blocked_loop_is_no_lost_connection(server):
    counts = Counts()
    async with declaring(server.url, counts) as bus, bus.view(SOCKETS) as view:
        await until(lambda: view.complete)
        for _ in range(3):
            time.sleep(1.5)  # noqa: ASYNC251 - the blocked loop is what is tested
            await asyncio.sleep(0.3)
        assert bus.connected
        assert counts.counted["disconnects"] == 0


async def test_consumers_do_not_leak_over_thirty_reconnects(server):
    async with (
        declaring(server.url, reconnect_wait_s=0.02) as bus,
        bus.view(SOCKETS) as view,
        sockets_writer(bus) as writer,
        plain(server.url) as client,
    ):
        writer.ready()
        for _ in range(30):
            await until(lambda: view.complete and writer.complete)
            session = await bus._connection.session()
            session.lifetime.end("the test cuts the connection")
            await until(lambda: not view.complete)
        await until(lambda: view.complete and writer.complete)
        for _ in range(20):
            view.reread()
            await until(lambda: not view.complete)
            await until(lambda: view.complete)
        most = len(await client.jsm().consumers_info(EVENTS_STREAM))
        await asyncio.sleep(6)  # what a lost connection left behind is deleted by the server after 5 s
        assert most < 70
        assert len(await client.jsm().consumers_info(EVENTS_STREAM)) == 2


async def test_a_retry_after_a_lost_acknowledgement_finds_its_own_message(server):
    counts = Counts()
    original = Session.publish_stored
    swallowed: list[PubAck] = []

    async def deaf(session, subject, body, headers, timeout_s):
        ack = await original(session, subject, body, headers, timeout_s)
        if not swallowed:
            swallowed.append(ack)
            raise BusTimeout("the acknowledgement got lost")
        return ack

    async with declaring(server.url), plain(server.url) as client:
        async with make_bus(server.url, telemetry=counts) as agent, sockets_writer(agent) as writer:
            writer.ready()
            await until(lambda: writer.complete)
            with (
                patch.object(Session, "publish_stored", deaf),
                patch.object(writer._ledger, "received"),  # nor does it hear itself
            ):
                name = writer.put(socket(), lost())
                assert await writer.flushed(5)
            assert swallowed
            assert counts.counted["retries:BusTimeout"] == 1
            assert writer.put(socket(), lost()) == name
        assert await history(client, socket()) == ["kvberth.socket.lost.v1"]


@pytest.mark.parametrize("where", ["publish", "publish_stored"])
async def test_cancelling_a_task_that_publishes_works_every_time(server, where):
    """nats-py swallows a cancellation while it flushes; thirty tasks that publish all the time end at once."""
    async with declaring(server.url) as bus:
        await until(lambda: bus.streams.events_created)
        session = await bus._connection.session()

        async def publish_for_ever() -> None:
            while True:
                if where == "publish":
                    await session.publish("elsewhere", b"x" * 65536)  # fills nats-py's buffer, so that it must flush
                else:
                    await session.publish_stored(str(socket()), b"x", {}, 2)

        for _ in range(30):
            task = asyncio.create_task(publish_for_ever())
            await asyncio.sleep(0.005)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=1)
            assert done
            assert task.cancelled()


async def test_a_closed_connection_is_replaced_for_ever(server):
    counts = Counts()
    settings = BusSettings(url=server.url, service=Service.CLI, instance="x", reconnect_wait_s=0.05)
    async with Connection(settings, Metrics(counts)) as connection:
        for number in range(1, 4):
            session = await connection.session()
            await session._client.close()
            await until(lambda number=number: counts.counted["disconnects"] == number)
        await until(lambda: connection.connected)
        with pytest.raises(SessionLost):
            await session.publish("elsewhere")


async def test_why_somebody_is_not_let_in_outlives_the_tries_that_are_only_cut():
    tries = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1
        writer.write(b'INFO {"server_id":"x","version":"2.12.0","proto":1,"headers":true,"max_payload":1048576}\r\n')
        await reader.readline()
        if tries == 1:
            writer.write(b"-ERR 'Authorization Violation'\r\n")
            await writer.drain()
        else:
            cut = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socketlib.SOL_SOCKET, socketlib.SO_LINGER, cut)
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as refusing:
        port = refusing.sockets[0].getsockname()[1]
        settings = BusSettings(url=f"nats://127.0.0.1:{port}", service=Service.CLI, instance="x", reconnect_wait_s=0.05)
        async with Connection(settings, Metrics(Counts())) as connection:
            await until(lambda: tries > 5, within_s=10)
            assert "Authorization Violation" in connection.last_error


async def test_a_server_that_answers_and_stores_nothing_is_named(server):
    async with declaring(server.url) as bus, sockets_writer(bus) as writer:
        writer.put(socket(), lost())
        writer.ready()
        assert await writer.flushed(5)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))  # as a disk without room
        writer.put(socket(), lost(message="unsaid"))
        await until(lambda: "NATS stores nothing" in (lacks_saying("deposed", writer) or ""), within_s=15.0)
        assert bus.connected
        assert not writer.complete
        await server.restart()
        assert await writer.flushed(10)
        assert lacks_saying("deposed", writer) is None
