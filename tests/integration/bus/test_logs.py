"""Log events and following them."""

import asyncio
from contextlib import aclosing

import pytest

from integration.bus.rig import Counts, declaring, history, lost, plain, say, socket
from kvberth.bus import BodyTooLong, NotOurs
from kvberth_schemas import subjects
from kvberth_schemas.envelope import MAX_BODY_BYTES
from kvberth_schemas.events import CachePlacedV1
from kvberth_schemas.subjects import Entity
from support.waiting import until

SUBJECT = subjects.cache("default", "kv")
PATTERN = subjects.events_of(Entity.CACHE)


def placed(plan: str) -> CachePlacedV1:
    return CachePlacedV1(cache="kv", namespace="default", to="a", reason="add", message="", plan=plan)


async def take(rows, count):
    found = []
    async with asyncio.timeout(10):
        async for row in rows:
            found.append(row)
            if len(found) == count:
                return found
    raise AssertionError("the tail ended")


async def test_log_events_are_stored_once_each_and_in_order(server):
    async with declaring(server.url) as bus:
        async with aclosing(bus.log_tail(PATTERN, "all")) as rows:
            ids = [await bus.publish_log(SUBJECT, placed(str(number)), "cause-1") for number in range(20)]
            found = await take(rows, 20)
        assert [row.envelope.id for row in found] == ids
        assert {row.envelope.cause for row in found} == {"cause-1"}


async def test_log_events_wait_for_a_server_that_is_away(server):
    async with declaring(server.url) as bus:
        await until(lambda: bus.streams.events_created)
        await server.kill()
        for number in range(3):
            await bus.publish_log(SUBJECT, placed(str(number)), None)
        await asyncio.sleep(1)
        await server.start()
        async with aclosing(bus.log_tail(PATTERN, "all")) as rows:
            found = await take(rows, 3)
        assert [row.message.plan for row in found] == ["0", "1", "2"]
        async with plain(server.url) as client:
            assert len(await history(client, SUBJECT)) == 3


async def test_log_events_are_dropped_and_counted_when_too_many_or_too_old(server):
    counts = Counts()
    await server.kill()
    async with declaring(server.url, counts) as bus:
        for number in range(1024 + 7):
            await bus.publish_log(SUBJECT, placed(str(number)), None, tried_for_s=0.2)
        assert bus.logs_waiting == 1024
        assert counts.counted["dropped:full"] == 7
        await asyncio.sleep(0.3)
        await bus.publish_log(SUBJECT, placed("in time"), None)
        await server.start()
        async with aclosing(bus.log_tail(PATTERN, "all")) as rows:
            (row,) = await take(rows, 1)
        assert row.message.plan == "in time"
        assert counts.counted["dropped:full"] == 8
        assert counts.counted["dropped:too_late"] == 1023


async def test_a_log_event_that_is_wrong_is_refused(server):
    async with declaring(server.url) as bus:
        with pytest.raises(BodyTooLong):
            await bus.publish_log(SUBJECT, placed("x" * MAX_BODY_BYTES), None)
        with pytest.raises(NotOurs):
            await bus.publish_log(SUBJECT, lost(), None)


async def test_a_tail_shows_the_last_of_each_or_only_what_is_new(server):
    async with declaring(server.url) as bus, plain(server.url) as client:
        await until(lambda: bus.streams.events_created)
        for number in range(3):
            await say(client, socket(), lost(message=str(number)), str(number))
        async with aclosing(bus.log_tail(subjects.EVENTS_PATTERN)) as rows:
            (last,) = await take(rows, 1)
        assert last.message == lost(message="2")
        async with aclosing(bus.log_tail(subjects.EVENTS_PATTERN, "new")) as rows:
            taking = asyncio.create_task(take(rows, 1))
            number = 2
            while not taking.done():
                number += 1
                await say(client, socket(), lost(message=str(number)), str(number))
                await asyncio.sleep(0.05)
        assert int(taking.result()[0].message.message) > 2


async def test_a_tail_goes_on_after_a_restart_and_repeats_nothing(server):
    async with declaring(server.url) as bus:
        async with aclosing(bus.log_tail(PATTERN, "all")) as rows:
            await bus.publish_log(SUBJECT, placed("before"), None)
            first = await take(rows, 1)
            await server.restart()
            await bus.publish_log(SUBJECT, placed("after"), None)
            second = await take(rows, 1)
        assert [row.message.plan for row in first + second] == ["before", "after"]
