"""Proves one cache again and again, and at once when something happens to its socket; says what `verdict` decides.

Meanwhile the transfer worker beside it is asked: what it said last goes with each verdict, and no proof waits for it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from kvberth.node_agent.health.blocks import BlocksQuestion
from kvberth.node_agent.health.prober import Prober
from kvberth.node_agent.health.verdict import (
    Cache,
    Failed,
    NoEvidence,
    Observation,
    Standing,
    ended,
    judge,
    recalled,
    unsaid_end,
)
from kvberth_schemas.events import CacheHealthV1

PROBE_S = 30.0
"""For a whole proof, whatever it waits for: each of its calls has a deadline of its own, far below this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often, in seconds."""

    period_s: float = 0.8
    """From the begin of a proof to the begin of the next."""
    least_s: float = 0.05
    """Between two proofs, whatever happens."""
    stands_s: float = 0.3
    """How long the word of a death that was over before it was seen stands: the bus keeps one word, the last."""


class HealthWatcher:
    """One cache's watcher; ``say`` gets every event with a detail for the log, ``observed`` every observation."""

    def __init__(
        self,
        cache: Cache,
        prober: Prober,
        pace: Pace,
        say: Callable[[CacheHealthV1, str], None],
        observed: Callable[[Observation], None],
        question: BlocksQuestion,
        now: Callable[[], datetime],
    ) -> None:
        self.standing = Standing()
        self._cache = cache
        self._prober = prober
        self._pace = pace
        self._say = say
        self._observed = observed
        self._question = question
        self._now = now
        self._stir = asyncio.Event()

    def stir(self) -> None:
        """Let the next proof come at once."""
        self._stir.set()

    def recall(self, earlier: CacheHealthV1) -> None:
        """Go on from what an earlier life of this agent proved, where this one has proven nothing yet."""
        proof = earlier.last_proof
        if proof is not None and proof <= self._now() and self.standing.proof is None:
            self.standing = recalled(self.standing, earlier, lives=self._prober.recall(proof))

    async def run(self) -> None:
        """Prove until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._question.run(self._pace.period_s, self._heard), name="ask the transfer worker")
            await asyncio.sleep(0)  # lets it begin: that nobody listens is known at once, and goes with the first proof
            await self._prove()

    async def _prove(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                began = loop.time()
                self._stir.clear()
                if self._prober.ended():
                    self.standing = ended(self.standing)
                stands_s = self._judge(await self._probe())
                await self._pause(began, stands_s)
        finally:
            await self._prober.aclose()

    def _heard(self) -> None:
        """Let the next proof say the transfer worker's word at once, where the last one said another."""
        said = self.standing.said
        if said is not None and said.blocks != self._question.word:
            self.stir()

    async def _probe(self) -> Observation:
        try:
            async with asyncio.timeout(PROBE_S):
                return await self._prober.probe()
        except TimeoutError:
            return NoEvidence(f"a proof did not end within {PROBE_S:g} s")

    def _judge(self, seen: Observation) -> float:
        """Say what there is to say; return for how long it stands, whatever comes."""
        self._observed(seen)
        self.standing = replace(self.standing, blocks=self._question.word)
        end = unsaid_end(self._cache, self.standing, seen, closed=self._prober.closed())
        if end is not None:
            seen = end
            self._stir.set()  # for who is there now
        self.standing, event = judge(self._cache, self.standing, seen, self._now())
        if event is not None:
            self._say(event, seen.detail if isinstance(seen, Failed | NoEvidence) else "")
        return self._pace.least_s if end is None else self._pace.stands_s

    async def _pause(self, began: float, least_s: float) -> None:
        """Wait for the next proof: a moment where it decides, else until something stirs or the period is over."""
        await asyncio.sleep(least_s)  # in any case: a look that fails at once would keep the loop for itself
        if self.standing.doubtful:
            return
        left = began + self._pace.period_s - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(0.0, left)):
                await self._stir.wait()
        except TimeoutError:
            return
