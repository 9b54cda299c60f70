"""Blocks are really in Vineyard's memory: a process with the official client reconciles the books with it."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from kvberth.vineyard import BlockingClient
from support.transfer_worker import BLOCK, LIMIT_S, TESTS, RunningWorker, running_engine, running_worker
from support.vineyardd import RunningVineyardd, running_vineyardd
from support.waiting import until

STRANGER = TESTS / "integration" / "store" / "stranger.py"


async def stranger(daemon: RunningVineyardd, *blobs: int) -> dict[str, Any]:
    """What he counts in blobs, and what the daemon tells him of its memory."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(STRANGER), str(daemon.path), *map(str, blobs)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    async with asyncio.timeout(LIMIT_S):
        output, _ = await process.communicate()
    assert process.returncode == 0
    told: dict[str, Any] = json.loads(output)
    return told


def named(journal: Path) -> list[int]:
    """The blobs of the store, once it is ready."""
    said = json.loads(journal.read_text()) if journal.exists() else {}
    return list(said["blobs"]) if said.get("ready") else []


async def published(worker: RunningWorker) -> list[float]:
    """Blocks and bytes that are there by one scrape: what came and did not go."""
    told = await worker.metrics()
    flows = [("attached", 1), ("published", 1), ("evicted", -1), ("removed", -1)]
    return [sum(sign * told[f"kvberth_store_{unit}.{flow}"] for flow, sign in flows) for unit in ("blocks", "bytes")]


async def test_a_stranger_sees_the_memory_grow_by_the_store_and_finds_in_it_what_the_books_say(
    daemon: RunningVineyardd, directory: Path
) -> None:
    before = await stranger(daemon)
    async with running_worker(directory) as worker, running_engine(directory) as engine:
        blobs = await until(lambda: named(directory / "store.json"))
        made = await stranger(daemon, *blobs)
        assert made["memory_usage"] - before["memory_usage"] > 17 << 20  # its arena, and the index beside it
        assert made["keys"] == []
        await engine.tell("connect")
        offered = {"stored": 0}
        for first in (0, 16, 32):
            told = await engine.tell("put", first, 16)
            offered["stored"] += told.get("STORED", 0)
        found = await stranger(daemon, *blobs)
        assert found["memory_usage"] == made["memory_usage"]
        assert found["complaints"] == []
        assert found["states"]["PUBLISHED"] == await published(worker)
        assert found["states"]["PUBLISHED"] == [offered["stored"], offered["stored"] * BLOCK]
        assert len(found["keys"]) == offered["stored"] > 0


async def test_the_memory_of_a_dead_daemons_store_is_freed_although_a_stranger_still_holds_it(directory: Path) -> None:
    path, journal = directory / "vineyard.sock", directory / "store.json"

    def epoch() -> str | None:
        return json.loads(journal.read_text())["epoch"] if journal.exists() else None

    async with running_worker(directory):
        async with running_vineyardd(path):
            first = await until(lambda: named(journal))
            ended = epoch()
            with BlockingClient.connect(path) as client:
                held = client.share(first[1])  # its arena; all blobs of a daemon lie in one memory
        try:
            touched = os.fstat(held.fd).st_blocks * 512
            assert touched > 17 << 20
            async with running_vineyardd(path):
                await until(lambda: epoch() not in {None, ended} and named(journal))
                assert os.fstat(held.fd).st_blocks * 512 < touched // 8
        finally:
            os.close(held.fd)
