"""No false alarm: a healthy daemon on a machine without a free processor, and one that is busy for seconds."""

import asyncio
import multiprocessing
import os
import sys
from collections import Counter
from datetime import UTC, datetime

import pytest

from integration.node_agent.proving import proving
from kvberth.node_agent.evidence import Evidence
from kvberth.node_agent.health.prober import Prober
from kvberth.node_agent.health.verdict import Cache, Standing, judge
from kvberth.service import LagWatchdog, Telemetry
from kvberth.vineyard import BlockingClient
from kvberth_schemas.events import HealthReason
from support.vineyardd import running_vineyardd
from support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.long]

PROOFS = 10_000
BLOBS = 100_000
_LISTS = "import sys, vineyard; vineyard.connect(sys.argv[1]).list_metadatas('*', limit=10**6, nobuffer=True)"


def _burn():
    while True:
        pass


@pytest.fixture
def busy_machine():
    """Every processor has something else to do."""
    context = multiprocessing.get_context("spawn")
    burning = [context.Process(target=_burn, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in burning:
        process.start()
    yield
    for process in burning:
        process.kill()
        process.join()


@pytest.mark.timeout(900)
async def test_in_ten_thousand_proofs_of_a_healthy_daemon_nothing_else_is_said(root, busy_machine):
    telemetry = Telemetry("node_agent")
    lag = LagWatchdog(telemetry, 0.05)
    lag.start()
    said, seen, standing = Counter(), Counter(), Standing()
    async with running_vineyardd(root / "vineyard.sock") as daemon:
        prober = Prober(str(daemon.path), Evidence(lag, telemetry))
        for _ in range(PROOFS):
            observation = await prober.probe()
            seen[type(observation).__name__] += 1
            standing, event = judge(
                Cache("l20-a", "default", "k", str(daemon.path)), standing, observation, datetime.now(UTC)
            )
            if event is not None:
                said[event.reason] += 1
        await prober.aclose()
    lag.stop()
    telemetry.shutdown()
    assert set(said) == {HealthReason.PROVEN}, f"seen was {seen}"
    assert seen["Proven"] >= 0.99 * PROOFS


@pytest.mark.timeout(300)
async def test_a_daemon_that_lists_a_hundred_thousand_blobs_is_slow_and_never_said_to_hang(root):
    async with running_vineyardd(root / "vineyard.sock", size="512Mi") as daemon:
        await asyncio.to_thread(_fill, str(daemon.path))
        async with proving(daemon.path) as proof:
            await proof.until("healthy Proven")
            async with asyncio.timeout(200):
                while "degraded Slow" not in proof.words:  # one list keeps a daemon busy for seconds, or hardly
                    lister = await asyncio.create_subprocess_exec(sys.executable, "-c", _LISTS, str(daemon.path))
                    assert await lister.wait() == 0
            await until(lambda: proof.words[-1] == "healthy Proven")
            assert set(proof.words) == {"healthy Proven", "degraded Slow"}


def _fill(path):
    with BlockingClient.connect(path) as client:
        for _ in range(BLOBS):
            client.seal(client.create(64, timeout_s=10).object_id, timeout_s=10)
