"""Signs of life: who is fresh, for how long, and when a beat is withheld."""

import asyncio
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

from integration.bus.rig import SOCKETS, declaring, lost, make_bus, plain, socket, sockets_writer
from kvberth.bus import BusTimeout, Clock
from kvberth.bus.bus import Bus
from kvberth.bus.settings import BusSettings
from kvberth_schemas.alive import Alive
from kvberth_schemas.registry import encode
from kvberth_schemas.subjects import AliveSubject, Service
from support.waiting import seconds_until, until

AGENT = (Service.NODE_AGENT, "a")


class FastClock(Clock):
    """A clock that tests push forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


class WrongClock(Clock):
    """A clock of a machine that nobody set."""

    def now(self) -> datetime:
        return super().now() - timedelta(minutes=7)


async def test_a_writer_is_fresh_once_it_is_complete_and_not_before(server):
    async with (
        declaring(server.url) as reader,
        make_bus(server.url) as agent,
        reader.liveness() as live,
        sockets_writer(agent) as writer,
        agent.heart([writer]),
    ):
        await until(lambda: live.heard_s(*AGENT) is not None)
        assert not live.fresh(*AGENT)
        assert live.age_s(*AGENT) is None
        writer.put(socket(), lost())
        writer.ready()
        assert await seconds_until(lambda: live.fresh(*AGENT)) < 2.5
        assert live.nodes(Service.NODE_AGENT) == {"a"}
        assert (live.age_s(*AGENT) or 0) < 1.5


async def test_a_writer_whose_heart_stops_is_not_fresh_after_five_seconds(server):
    clock = FastClock()
    settings = BusSettings(url=server.url, service=Service.PLACEMENT, instance="x")
    async with Bus(settings, clock=clock) as reader, make_bus(server.url) as agent, reader.liveness() as live:
        await reader.declare()
        async with sockets_writer(agent) as writer, agent.heart([writer]):
            writer.ready()
            await until(lambda: live.fresh(*AGENT))
        while await live.changed(0.05):
            pass
        clock.ahead_s = 3.5
        assert live.fresh(*AGENT)
        clock.ahead_s = 5.1
        assert not live.fresh(*AGENT)
        assert await live.changed(1)
        assert (live.heard_s(*AGENT) or 0) > 5


async def test_no_beat_is_given_while_something_said_before_it_is_not_acknowledged(server):
    beats: list[Alive] = []
    release = asyncio.Event()

    async def never(*_: object) -> None:
        await release.wait()
        raise BusTimeout("lost")

    async with (
        declaring(server.url),
        make_bus(server.url) as agent,
        plain(server.url) as client,
        sockets_writer(agent) as writer,
        agent.heart([writer]),
    ):

        async def hear(message) -> None:
            beats.append(Alive.model_validate_json(message.data))

        await client.subscribe("kvberth.alive.v1.a.node_agent.*", cb=hear)
        writer.ready()
        await until(lambda: any(beat.complete for beat in beats))
        with patch("kvberth.bus.session.Session.publish_stored", never):
            writer.put(socket(), lost())
            await asyncio.sleep(1.2)  # a beat that had begun before
            heard = len(beats)
            await asyncio.sleep(2.5)
            assert len(beats) == heard
            assert not writer.complete
        release.set()
        await until(lambda: len(beats) > heard and writer.complete)


async def test_a_beat_waits_for_what_was_said_before_it_and_not_for_what_comes_after(server):
    """A writer that always has something to say still beats."""
    async with (
        declaring(server.url) as reader,
        make_bus(server.url) as agent,
        reader.liveness() as live,
        sockets_writer(agent) as writer,
        agent.heart([writer]),
    ):
        writer.ready()
        await until(lambda: live.fresh(*AGENT))
        start = asyncio.get_running_loop().time()
        number = 0
        while asyncio.get_running_loop().time() < start + 4:
            number += 1
            writer.put(socket(f"kv-{number % 5}"), lost(f"kv-{number % 5}", str(number)))
            await asyncio.sleep(0.001)
            assert (live.age_s(*AGENT) or 0) < 3


async def test_the_owners_word_counts_in_the_beat(server):
    fine = True
    async with declaring(server.url) as reader, reader.liveness() as live, make_bus(server.url) as agent:
        async with agent.heart(complete=lambda: fine):
            await until(lambda: live.fresh(*AGENT))
            fine = False
            await until(lambda: (live.age_s(*AGENT) or 0) > 2)
            assert (live.heard_s(*AGENT) or 9) < 2


async def test_a_word_about_another_stream_does_not_count_and_makes_the_reader_ask(server):
    subject = str(AliveSubject(Service.NODE_AGENT, "x", "a"))
    other = encode(Alive(term=1, complete=True, stream_created=datetime(2020, 1, 1, tzinfo=UTC)))
    async with (
        declaring(server.url, created_check_s=60) as reader,
        reader.liveness() as live,
        plain(server.url) as client,
    ):
        await until(lambda: reader.streams.events_created)
        with patch.object(reader.streams, "ask", wraps=reader.streams.ask) as ask:
            await client.publish(subject, other)
            await until(lambda: live.heard_s(*AGENT) is not None)
            assert not live.fresh(*AGENT)
            assert ask.called


async def test_freshness_ends_with_the_stream_it_was_about_and_comes_back_with_the_new_one(server):
    async with (
        declaring(server.url) as reader,
        make_bus(server.url) as agent,
        reader.liveness() as live,
        reader.view(SOCKETS) as view,
        sockets_writer(agent) as writer,
        agent.heart([writer]),
    ):
        writer.put(socket(), lost())
        writer.ready()
        await until(lambda: live.fresh(*AGENT))
        await server.kill()
        server.wipe()
        await server.start()
        await until(lambda: reader.streams.events_created)
        assert not live.fresh(*AGENT)
        assert await seconds_until(lambda: live.fresh(*AGENT)) < 5
        assert view.complete
        assert socket() in view.rows


async def test_a_clock_that_is_minutes_off_is_told_and_decides_nothing(server, capsys):
    settings = BusSettings(url=server.url, service=Service.NODE_AGENT, instance="h", node="a")
    async with (
        declaring(server.url) as reader,
        Bus(settings, clock=WrongClock()) as agent,
        reader.liveness() as live,
        sockets_writer(agent) as writer,
        agent.heart([writer]),
    ):
        writer.ready()
        await until(lambda: live.skews)
        assert live.fresh(*AGENT)
        assert {str(subject): round(ahead_s) for subject, ahead_s in live.skews.items()} == {
            str(AliveSubject(Service.NODE_AGENT, "h", "a")): -420
        }
        await until(lambda: "the clock of node_agent on a (h) is 420 s behind" in "".join(capsys.readouterr()))
