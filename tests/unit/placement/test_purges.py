"""Wants that are done leave the stream, whatever fails meanwhile, and never one that is asked for anew."""

import asyncio
from contextlib import asynccontextmanager

from kvberth.bus import BusTimeout
from kvberth.placement.apply.purges import Purges
from kvberth_schemas import subjects
from kvberth_schemas.subjects import WantKind
from support.waiting import until

A, B = (subjects.want(WantKind.CACHE, node, "default", "kv") for node in "ab")


class Stream:
    """A stream whose purges fail or hang as told; what was purged, in order."""

    def __init__(self):
        self.purged = []
        self.failures = 0
        self.open = asyncio.Event()
        self.open.set()
        self.begun = asyncio.Event()

    async def purge(self, subject):
        self.begun.set()
        await self.open.wait()
        if self.failures:
            self.failures -= 1
            raise BusTimeout(f"{subject} could not be purged")
        self.purged.append(subject)


@asynccontextmanager
async def running(stream):
    purges = Purges(stream, retry_s=0.01)
    task = asyncio.create_task(purges.run())
    try:
        yield purges
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_what_is_done_is_removed_once():
    stream = Stream()
    async with running(stream) as purges:
        purges.ask(A)
        purges.ask(A)
        purges.ask(B)
        await until(lambda: stream.purged == [A, B])


async def test_a_removal_that_fails_is_tried_again_and_holds_up_no_other():
    stream = Stream()
    stream.failures = 1
    async with running(stream) as purges:
        purges.ask(A)
        purges.ask(B)
        await until(lambda: stream.purged == [B, A])


async def test_what_is_asked_for_anew_is_not_removed():
    stream = Stream()
    stream.open.clear()
    async with running(stream) as purges:
        purges.ask(A)
        purges.ask(B)
        await stream.begun.wait()
        assert await purges.spare(B, 1)
        stream.open.set()
        await until(lambda: stream.purged == [A])
        purges.ask(B)
        await until(lambda: stream.purged == [A, B])


async def test_whoever_asks_anew_waits_for_a_removal_under_way_and_is_told_when_it_hangs():
    stream = Stream()
    stream.open.clear()
    async with running(stream) as purges:
        purges.ask(A)
        await stream.begun.wait()
        assert not await purges.spare(A, 0.01)
        stream.open.set()
        assert await purges.spare(A, 1)
