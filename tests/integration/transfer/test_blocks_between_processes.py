"""Blocks of one engine read by another, through a real vineyardd and a real worker; every byte compared."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from support.transfer_worker import BLOCK, TESTS, Engine, RunningWorker, running_engine, running_worker
from support.vineyardd import RunningVineyardd, running_vineyardd
from support.waiting import until

pytestmark = pytest.mark.integration
STRANGER = TESTS / "integration/store/stranger.py"


async def test_what_one_engine_stored_another_one_reads_byte_by_byte(daemon: RunningVineyardd, directory: Path) -> None:
    async with running_worker(directory), running_engine(directory) as one, running_engine(directory) as two:
        assert await one.tell("connect") == {"connected": True, "why": None}
        assert await one.tell("put", 0, 48) == {"STORED": 48}
        assert await one.tell("put", 32, 32) == {"PRESENT": 16, "STORED": 16}
        assert (await two.tell("connect"))["connected"]
        assert await two.tell("run", 0, 60) == {"found": 60, "loaded": 60, "wrong": 0}
        assert await two.tell("run", 60, 8) == {"found": 4, "loaded": 4, "wrong": 0}, "the leading run, up to a miss"
        await two.tell("reset")
        assert await two.tell("run", 0, 8) == {"found": 0, "loaded": 0, "wrong": 0}


async def test_blocks_that_cost_more_to_store_than_they_save_are_shed_and_counted(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_worker(directory) as worker, running_engine(directory) as engine:
        await engine.tell("connect")
        assert await engine.tell("put", 0, 16) == {"STORED": 16}, "nobody has said what computing costs"
        told = await engine.tell("computed", 0)
        assert "Storing a block takes" in str(told["why"])
        assert await engine.tell("put", 16, 16) == {"BREAK_EVEN": 16}
        await until(lambda: worker_says(worker, "kvberth_transfer_outcomes.break_even", 16))
        assert await engine.tell("run", 0, 16) == {"found": 16, "loaded": 16, "wrong": 0}, (
            "what is there is still loaded"
        )


async def test_an_engine_of_another_model_finds_nothing(daemon: RunningVineyardd, directory: Path) -> None:
    async with running_worker(directory), running_engine(directory) as one:
        async with running_engine(directory, MODEL="other") as two:
            await one.tell("connect")
            await two.tell("connect")
            assert await one.tell("put", 0, 8) == {"STORED": 8}
            assert await two.tell("run", 0, 8) == {"found": 0, "loaded": 0, "wrong": 0}
            assert await two.tell("put", 0, 8) == {"STORED": 8}, "the same keys, other blocks"
            assert await one.tell("run", 0, 8) == {"found": 8, "loaded": 8, "wrong": 0}


async def test_without_a_worker_there_is_no_cache_and_nothing_fails(directory: Path) -> None:
    async with running_engine(directory) as engine:
        told = await engine.tell("connect", 0.5)
        assert not told["connected"]
        assert "no transfer worker listens" in str(told["why"])
        assert await engine.tell("put", 0, 8) == {"NO_CACHE": 8}
        assert await engine.tell("run", 0, 8) == {"found": 0, "loaded": 0, "wrong": 0}


async def test_a_stranger_with_the_official_client_finds_what_the_books_say(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_worker(directory) as worker, running_engine(directory) as engine:
        await engine.tell("connect")
        assert await engine.tell("put", 0, 300) == {"STORED": 300}, "more than fit: some are evicted"
        await engine.tell("close")
        await until(lambda: worker_says(worker, "kvberth_transfer_used_bytes.granted", 0))
        told = await worker.metrics()
        blobs = [str(blob) for blob in json.loads((directory / "store.json").read_text())["blobs"]]
        found = await stranger(daemon.path, blobs)
        assert found["complaints"] == []
        for state, (_, held) in found["states"].items():
            assert told[f"kvberth_store_slots_bytes.{state.lower()}"] == held, state
        flows = {flow: told[f"kvberth_store_blocks.{flow}"] for flow in ("attached", "published", "evicted", "removed")}
        assert flows["published"] == 300
        assert len(found["keys"]) == flows["attached"] + flows["published"] - flows["evicted"] - flows["removed"]
        assert told["kvberth_transfer_admitted"] == 300 == told["kvberth_transfer_outcomes.stored"]
        assert told["kvberth_transfer_in_flight"] == told["kvberth_store_faults"] == 0


async def test_an_engine_that_dies_frees_its_grants_and_leases_within_two_seconds(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_worker(directory) as worker:
        async with running_engine(directory) as engine:
            await engine.tell("connect")
            await engine.tell("put", 0, 32)
            assert await engine.tell("hold", 0, 32) == {"found": 32}
            await until(lambda: worker_says(worker, "kvberth_transfer_used_bytes.leased", 32 * 65536))
            assert await worker.metric("kvberth_transfer_used_bytes.granted") > 0
            engine.signal(signal.SIGKILL)
            await engine.process.wait()
        async with asyncio.timeout(2.0):
            for what in ("granted", "leased", "queued"):
                await until(lambda what=what: worker_says(worker, f"kvberth_transfer_used_bytes.{what}", 0))
            await until(lambda: worker_says(worker, "kvberth_transfer_clients", 0))
        assert list((directory / "clients").iterdir()) == []
        assert await worker.metric("kvberth_store_faults") == 0


async def test_a_forked_child_keeps_no_lock_and_has_no_cache(daemon: RunningVineyardd, directory: Path) -> None:
    async with running_worker(directory), running_engine(directory) as engine:
        await engine.tell("connect")
        await engine.tell("put", 0, 4)
        assert await engine.tell("fork") == {"status": 7}
        assert await engine.tell("run", 0, 4) == {"found": 4, "loaded": 4, "wrong": 0}


async def test_the_end_of_the_daemon_is_no_cache_and_the_next_one_serves_the_same_engine(directory: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_worker(directory), running_engine(directory) as engine:
        async with running_vineyardd(path):
            await engine.tell("connect")
            assert await engine.tell("put", 0, 8) == {"STORED": 8}
        assert await engine.tell("put", 8, 8) in ({"NO_CACHE": 8}, {"DEGRADED": 8})
        async with running_vineyardd(path):
            assert (await engine.tell("connect"))["connected"]
            assert await engine.tell("run", 0, 8) == {"found": 0, "loaded": 0, "wrong": 0}
            assert await engine.tell("put", 0, 8) == {"STORED": 8}
            assert await engine.tell("run", 0, 8) == {"found": 8, "loaded": 8, "wrong": 0}


async def test_an_engine_leaves_the_store_of_a_daemon_that_was_replaced_together_with_its_worker(
    directory: Path,
) -> None:
    """The worker dies first, so that nobody says in the old memory that its daemon is gone."""
    path = directory / "vineyard.sock"
    async with running_engine(directory) as engine:
        async with running_vineyardd(path), running_worker(directory):
            await engine.tell("connect")
            assert await engine.tell("put", 0, 16) == {"STORED": 16}
        await until(lambda: has_no_cache(engine))
        async with running_vineyardd(path), running_worker(directory):
            assert (await engine.tell("connect", 10))["connected"]
            assert await engine.tell("get", 0, 16) == {"found": 0, "right": 0, "wrong": 0}
            assert await engine.tell("put", 0, 16) == {"STORED": 16}
            assert await engine.tell("run", 0, 16) == {"found": 16, "loaded": 16, "wrong": 0}


async def test_a_store_of_other_sizes_is_made_only_when_no_engine_maps_the_last_one(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_engine(directory) as paused, running_engine(directory) as engine:
        async with running_worker(directory):
            for each in (paused, engine):
                await each.tell("connect")
            assert await engine.tell("put", 0, 16) == {"STORED": 16}
        await until(lambda: has_no_cache(engine))
        paused.signal(signal.SIGSTOP)
        async with running_worker(directory, KVBERTH_EXTENT_MIB="2"):
            await until(lambda: says(engine, "waits for 1 client that maps"))
            assert not (await engine.tell("connect", 1))["connected"]
            paused.signal(signal.SIGCONT)
            assert (await engine.tell("connect", 10))["connected"]
            assert await engine.tell("put", 100, 16) == {"STORED": 16}
            assert await engine.tell("run", 100, 16) == {"found": 16, "loaded": 16, "wrong": 0}
            assert (await paused.tell("connect", 10))["connected"]


async def test_a_lookup_that_raises_keeps_no_engine_out_of_the_next_store(directory: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_worker(directory), running_engine(directory) as engine:
        async with running_vineyardd(path):
            await engine.tell("connect")
            assert await engine.tell("put", 0, 16) == {"STORED": 16}
            assert "32 bytes" in str(await engine.tell("misuse", 0))
        await until(lambda: has_no_cache(engine))
        async with running_vineyardd(path):
            assert (await engine.tell("connect", 10))["connected"]


async def test_a_view_that_is_left_delays_the_next_store_and_no_more(directory: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_worker(directory), running_engine(directory) as engine:
        async with running_vineyardd(path):
            await engine.tell("connect")
            await engine.tell("peek")
        await until(lambda: says(engine, "a view of the store's memory is left"))
        async with running_vineyardd(path):
            assert not (await engine.tell("connect", 1))["connected"]
            await engine.tell("let_go")
            assert (await engine.tell("connect", 10))["connected"]
            assert await engine.tell("put", 0, 16) == {"STORED": 16}


async def says(engine: Engine, why: str) -> bool:
    return why in str((await engine.tell("connect", 0))["why"])


async def has_no_cache(engine: Engine) -> bool:
    return not (await engine.tell("connect", 0))["connected"]


async def test_the_next_store_waits_for_an_engine_that_still_maps_the_last_one(directory: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_worker(directory) as worker, running_engine(directory) as engine:
        async with running_vineyardd(path):
            await engine.tell("connect")
            engine.signal(signal.SIGSTOP)
            await engine.stopped()
        async with running_vineyardd(path), running_engine(directory) as other:
            assert not (await other.tell("connect", 2))["connected"]
            assert "waits for 1 client that maps" in str((await other.tell("connect", 0.1))["why"])
            engine.signal(signal.SIGCONT)
            assert (await other.tell("connect"))["connected"]
            assert (await engine.tell("connect"))["connected"]
            await until(lambda: worker_says(worker, "kvberth_transfer_clients", 2))


async def worker_says(worker: RunningWorker, name: str, value: float) -> bool:
    return await worker.metric(name) == value


async def stranger(socket: Path, blobs: list[str]) -> dict[str, object]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(STRANGER), str(socket), *blobs),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    async with asyncio.timeout(30):
        output, _ = await process.communicate()
    found: dict[str, object] = json.loads(output)
    return found


async def test_a_block_that_differs_from_its_checksum_is_found_and_taken_out_before_anybody_reads_it(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_worker(directory, KVBERTH_SCRUB_MIB_S="256") as worker, running_engine(directory) as engine:
        await engine.tell("connect")
        assert await engine.tell("put", 0, 16) == {"STORED": 16}
        await until(lambda: _is(worker, "kvberth_store_scrubbed", at_least=16 * BLOCK))
        await engine.tell("damage", 5)
        await until(lambda: _is(worker, "kvberth_store_corrupt", at_least=1))
        told = await worker.metrics()
        assert (told["kvberth_store_corrupt"], told["kvberth_store_blocks.removed"]) == (1, 1)
        assert told["kvberth_store_faults"] == 0
        assert await engine.tell("get", 5, 1) == {"found": 0, "right": 0, "wrong": 0}
        assert (await engine.tell("get", 0, 16))["wrong"] == 0


async def _is(worker: RunningWorker, name: str, at_least: float) -> bool:
    return await worker.metric(name) >= at_least
