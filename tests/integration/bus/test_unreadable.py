"""Messages that nobody can read: counted, held Unknown, harmless to others, and overwritten by their owner."""

import json

import pytest

from integration.bus.rig import (
    SOCKETS,
    Counts,
    declaring,
    headers,
    history,
    lost,
    make_bus,
    messages_of,
    plain,
    say,
    socket,
    sockets_writer,
)
from kvberth_schemas import subjects
from kvberth_schemas.envelope import MAX_BODY_BYTES
from kvberth_schemas.events import NodeGoneV1
from kvberth_schemas.registry import encode
from kvberth_schemas.subjects import EVENTS_STREAM
from support.waiting import until

GOOD = headers(socket(), lost(), "bad-1")
KINDS = {
    "body": (GOOD, b"{not json"),
    "envelope": (None, encode(lost())),
    "unknown_type": (GOOD | {"ce-type": "kvberth.socket.lost.v9"}, encode(lost())),
    "oversized": (GOOD, b"x" * (MAX_BODY_BYTES + 1)),
    "foreign": (GOOD | {"ce-type": "kvberth.node.gone.v1"}, encode(NodeGoneV1(name="a", why="deleted"))),
}


@pytest.mark.parametrize(("reason", "message"), KINDS.items(), ids=KINDS.keys())
async def test_what_cannot_be_read_is_unknown_until_its_owner_overwrites_it(server, reason, message):
    counts = Counts()
    async with declaring(server.url, counts) as bus, plain(server.url) as client, bus.view(SOCKETS) as view:
        await until(lambda: view.complete)
        await say(client, socket(), lost(), "good-1")
        await until(lambda: socket() in view.rows)
        await client.jetstream().publish(str(socket()), message[1], headers=message[0] and dict(message[0]))
        await until(lambda: socket() in view.unreadable)
        assert socket() not in view.rows
        assert view.unreadable[socket()]
        assert counts.counted[f"unreadable:{reason}"] == 1
        assert view.complete
        await say(client, socket("other"), lost("other"), "good-2")
        await until(lambda: socket("other") in view.rows)
        async with bus.view(SOCKETS) as second:
            await until(lambda: second.complete)
            assert set(second.unreadable) == {socket()}
            assert set(second.rows) == {socket("other")}
        async with make_bus(server.url) as agent, sockets_writer(agent) as writer:
            for name in ("kv", "other"):
                writer.put(socket(name), lost(name))
            writer.ready()
            await until(lambda: writer.complete)
            await until(lambda: socket() in view.rows and not view.unreadable)


async def test_a_subject_that_is_none_of_ours_is_held_by_its_text(server):
    text = "kvberth.evt.v1.a.default.=zz.socket"
    async with declaring(server.url) as bus, plain(server.url) as client, bus.view(SOCKETS) as view:
        await until(lambda: view.complete)
        await client.jetstream().publish(text, b"?")
        await until(lambda: text in view.unreadable)
        assert view.complete


async def test_garbage_about_nothing_is_removed_by_its_owner_and_views_notice(server):
    async with (
        declaring(server.url, created_check_s=0.2) as bus,
        plain(server.url) as client,
        bus.view(SOCKETS) as view,
    ):
        await until(lambda: view.complete)
        await client.jetstream().publish(str(socket("ghost")), b"garbage")
        await client.jetstream().publish("kvberth.evt.v1.a.default.=zz.socket", b"garbage")
        await until(lambda: len(view.unreadable) == 2)
        async with make_bus(server.url) as agent, sockets_writer(agent) as writer:
            writer.ready()
            await until(lambda: writer.complete)
            await until(lambda: not view.unreadable)
        assert await history(client, socket("ghost")) == []


async def test_garbage_that_nobody_removes_hides_no_removal_of_other_garbage(server):
    async with (
        declaring(server.url, created_check_s=0.2) as bus,
        plain(server.url) as client,
        bus.view(SOCKETS) as view,
    ):
        await until(lambda: view.complete)
        stay = [str(socket(f"stays-{number}", node="nobody")) for number in range(150)]
        for subject in (*stay, str(socket("goes"))):
            await client.jetstream().publish(subject, b"garbage")
        await until(lambda: len(view.unreadable) == 151)
        await client.jetstream().purge_stream(EVENTS_STREAM, subject=str(socket("goes")))
        await until(lambda: socket("goes") not in view.unreadable)
        assert sorted(map(str, view.unreadable)) == sorted(stay)


async def test_garbage_over_a_living_row_is_overwritten_at_once(server):
    async with (
        declaring(server.url) as bus,
        plain(server.url) as client,
        bus.view(SOCKETS) as view,
        make_bus(server.url) as agent,
        sockets_writer(agent) as writer,
    ):
        writer.put(socket(), lost(message="true"))
        writer.ready()
        assert await writer.flushed(5)
        await client.jetstream().publish(str(socket()), b"garbage")
        await until(lambda: len(view.rows) == 1 and view.rows[socket()].sequence == 3, within_s=2)
        assert list(messages_of(view.rows)) == ["true"]


async def test_a_subject_outside_of_every_stream_harms_nobody(server):
    async with (
        declaring(server.url) as bus,
        plain(server.url) as client,
        bus.view(SOCKETS) as view,
        bus.liveness() as live,
    ):
        await until(lambda: view.complete)
        await client.publish("kvberth.alive.v1.a.node_agent.x", b"garbage")
        await client.publish("kvberth.alive.v1.garbage", b"{}")
        await client.publish("kvberth.alive.v1.a.nobody.x", b'{"term": 1, "complete": true, "stream_created": null}')
        await client.publish("elsewhere", b"garbage")
        await say(client, subjects.socket("a", "default", "kv"), lost(), "1")
        await until(lambda: socket() in view.rows)
        assert live.nodes(subjects.Service.NODE_AGENT) == frozenset()


@pytest.mark.parametrize("changed", ["said", "stream_created"])
async def test_a_sign_of_life_with_a_time_of_no_zone_is_counted_and_heard_of_nobody(server, changed):
    beat = {"term": 1, "complete": True, "stream_created": None, changed: "2026-11-30T12:00:00"}
    counts = Counts()
    async with declaring(server.url, counts) as bus, plain(server.url) as client, bus.liveness() as live:
        await until(lambda: bus.connected)

        async def counted():
            await client.publish("kvberth.alive.v1.a.node_agent.x", json.dumps(beat).encode())
            return counts.counted["unreadable:alive"] > 0

        await until(counted)
        assert live.nodes(subjects.Service.NODE_AGENT) == frozenset()
