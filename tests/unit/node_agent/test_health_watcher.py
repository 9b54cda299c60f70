"""How a cache's proofs follow one another, whatever they see."""

import asyncio
from datetime import UTC, datetime

import pytest

from kvberth.node_agent.health.verdict import Cache, Late, NoEvidence
from kvberth.node_agent.health.watcher import HealthWatcher, Pace

CACHE = Cache("l20-a", "default", "k", "/r/default/k/vineyard.sock")
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


async def no_worker():
    return None


@pytest.mark.parametrize("seen", [(LATE, BLIND), (BLIND,), (LATE,)])
async def test_no_look_keeps_the_loop_from_others(seen):
    looks = Looks(*seen)
    pace = Pace(period_s=0.02, least_s=0.01)
    told = (lambda _event, _detail: None, lambda _seen: None)
    watcher = HealthWatcher(CACHE, looks, pace, *told, no_worker, lambda: datetime.now(UTC))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.25):
            await watcher.run()
    assert 2 <= looks.count <= 30
