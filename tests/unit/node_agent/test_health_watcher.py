"""How a cache's proofs follow one another, whatever they see."""

import asyncio
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import pytest

from kvberth.node_agent.health.verdict import Cache, Late, NoEvidence, Proven
from kvberth.node_agent.health.watcher import HealthWatcher, Pace

CACHE = Cache("l20-a", "default", "k", "/r/default/k/vineyard.sock")
GOOD = Proven("i1", 0.002, 0.0002, 64, 1 << 26)
SELDOM = Pace(period_s=3600, least_s=0)
LATE, BLIND = Late(False, 0.4), NoEvidence("no descriptor is left")


class Looks:
    """Sees the given, then the last of it again and again, and never waits for anything itself."""

    def __init__(self, *seen):
        self.left = list(seen)
        self.count = 0

    async def probe(self):
        self.count += 1
        if self.count > 1000:
            raise RuntimeError("looks without end")
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def ended(self):
        return False

    def closed(self):
        return False

    async def aclose(self):
        pass


class Question:
    """Hears the given, one word after the other, when the test lets it."""

    def __init__(self):
        self.word = None
        self.words = asyncio.Queue()
        self.runs = False

    async def run(self, _period_s, heard):
        self.runs = True
        try:
            while True:
                self.word = await self.words.get()
                heard()
        finally:
            self.runs = False


@asynccontextmanager
async def watching(looks, question, pace):
    """A running watcher, and the queue of what it says."""
    said = asyncio.Queue()
    told = (lambda event, _detail: said.put_nowait(event), lambda _seen: None)
    watcher = HealthWatcher(CACHE, looks, pace, *told, question, lambda: datetime.now(UTC))
    task = asyncio.create_task(watcher.run())
    try:
        async with asyncio.timeout(10):
            yield said
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("seen", [(LATE, BLIND), (BLIND,), (LATE,)])
async def test_no_look_keeps_the_loop_from_others(seen):
    looks = Looks(*seen)
    pace = Pace(period_s=0.02, least_s=0.01)
    told = (lambda _event, _detail: None, lambda _seen: None)
    watcher = HealthWatcher(CACHE, looks, pace, *told, Question(), lambda: datetime.now(UTC))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.25):
            await watcher.run()
    assert 2 <= looks.count <= 30


async def test_a_worker_that_gives_no_answer_delays_no_verdict():
    question = Question()
    async with watching(Looks(GOOD), question, SELDOM) as said:
        assert (await said.get()).blocks is None
        assert question.runs
    assert not question.runs


async def test_another_word_of_the_worker_is_said_at_once():
    question = Question()
    async with watching(Looks(GOOD), question, SELDOM) as said:
        await said.get()
        question.words.put_nowait("Waiting.")
        assert (await said.get()).blocks == "Waiting."
