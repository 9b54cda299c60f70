"""Workers killed and engines paused at any moment: no wrong byte, no false receipt, nothing leaked or waiting on."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from kvberth.store.layout import pages
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.slots import SlotState
from kvberth.store.locks import LINGER_S
from kvberth.store.vineyard_memory import attach
from kvberth.store.walk import walk
from support.transfer_worker import BLOCK, RunningWorker, running_engine, running_worker
from support.vineyardd import RunningVineyardd, running_vineyardd
from support.waiting import until

pytestmark = pytest.mark.integration
HERE = Path(__file__).parent
MORTAL = HERE / "mortal_worker.py"


@pytest.mark.parametrize("writes", [1, 3, 6, 9, 12, 15, 18, 25, 60, 130])
async def test_a_worker_killed_before_a_write_costs_no_more_than_blocks_that_say_so(
    daemon: RunningVineyardd, directory: Path, writes: int
) -> None:
    async with running_engine(directory) as engine:
        async with running_worker(directory, MORTAL, KVBERTH_TEST_WRITES=str(writes)) as mortal:
            await engine.tell("connect")
            engine.begin("put", 0, 16)
            async with asyncio.timeout(20):
                await mortal.process.wait()
        async with running_worker(directory) as worker:
            told = await engine.answer()
            assert sum(told.values()) == 16
            assert set(told) <= {"STORED", "DEGRADED", "PRESENT"}
            assert (await engine.tell("connect"))["connected"]
            got = await engine.tell("get", 0, 16)
            assert got["wrong"] == 0
            assert got["right"] >= told.get("STORED", 0)
            again = await engine.tell("put", 0, 16)
            assert (again.get("PRESENT", 0), again.get("STORED", 0)) == (got["right"], 16 - got["right"])
            assert await engine.tell("get", 0, 16) == {"found": 16, "right": 16, "wrong": 0}
            await adds_up(worker)


async def test_an_engine_paused_in_its_copy_past_its_time_writes_into_nobodys_block(
    daemon: RunningVineyardd, directory: Path
) -> None:
    settings = {"KVBERTH_GRANT_S": "2", "KVBERTH_CHECKSUMS": "false"}
    async with running_worker(directory, **settings) as worker:
        async with running_engine(directory) as paused, running_engine(directory) as other:
            await paused.tell("connect")
            await other.tell("connect")
            name = str((await paused.tell("name"))["name"])
            paused.begin("pause", 0, 16)
            await paused.stopped()
            await until(lambda: held_by(worker, name) == {SlotState.QUARANTINED})
            assert await other.tell("put", 1000, 400) == {"STORED": 400}, "under pressure: everything is cut anew"
            paused.signal(signal.SIGCONT)
            told = await paused.answer()
            assert told.get("EXPIRED", 0) > 0
            assert sum(told.values()) == 16
            for engine in (paused, other):
                got = await engine.tell("get", 1000, 400)
                assert got["wrong"] == 0
                assert got["right"] > 100
            assert (await other.tell("get", 0, 16))["wrong"] == 0
            await until(lambda: not_quarantined(worker))
            await adds_up(worker)


async def test_a_worker_restarted_while_an_engine_is_paused_in_its_copy_keeps_its_slots_apart(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_engine(directory) as paused, running_engine(directory) as other:
        async with running_worker(directory, KVBERTH_CHECKSUMS="false"):
            await paused.tell("connect")
            await other.tell("connect")
            paused.begin("pause", 0, 16)
            await paused.stopped()
        async with running_worker(directory, KVBERTH_CHECKSUMS="false") as worker:
            await until(lambda: quarantined(worker))
            assert (await other.tell("connect"))["connected"]
            assert await other.tell("put", 1000, 400) == {"STORED": 400}
            paused.signal(signal.SIGCONT)
            told = await paused.answer()
            assert sum(told.values()) == 16
            got = await other.tell("get", 1000, 400)
            assert got["wrong"] == 0
            assert got["right"] > 100
            got = await paused.tell("get", 0, 16)
            assert got["wrong"] == 0
            assert got["right"] >= told.get("STORED", 0)
            await until(lambda: not_quarantined(worker))
            await adds_up(worker)


async def test_a_daemon_killed_in_the_middle_of_a_copy_is_no_cache_and_no_crash(directory: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_worker(directory) as worker, running_engine(directory) as engine:
        async with running_vineyardd(path):
            await engine.tell("connect")
            engine.begin("pause", 0, 16)
            await engine.stopped()
        engine.signal(signal.SIGCONT)
        assert await engine.answer() == {"NO_CACHE": 16}
        async with running_vineyardd(path):
            assert (await engine.tell("connect"))["connected"]
            assert await engine.tell("put", 0, 16) == {"STORED": 16}
            assert await engine.tell("run", 0, 16) == {"found": 16, "loaded": 16, "wrong": 0}
            await adds_up(worker)


async def test_a_block_that_was_damaged_in_its_slot_is_not_loaded(daemon: RunningVineyardd, directory: Path) -> None:
    async with running_worker(directory), running_engine(directory) as engine:
        await engine.tell("connect")
        await engine.tell("put", 0, 8)
        held = attach(directory / "vineyard.sock", directory / "store.json", writable=True)
        memory = held.memory
        slots = [at for at in range(memory.geometry.slots) if memory.header(at).state is SlotState.PUBLISHED]
        memory.data(slots[3], BLOCK, BLOCK)[100] ^= 1
        held.close()
        assert await engine.tell("get", 0, 8) == {"found": 8, "right": 7, "wrong": 0}
        run = await engine.tell("run", 0, 8)
        assert run["wrong"] == 0
        assert run["loaded"] < 8, "the leading run ends before it"


async def test_no_block_is_called_stored_while_the_daemon_does_not_answer(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_worker(directory) as worker, running_engine(directory) as engine:
        await engine.tell("connect")
        assert await engine.tell("put", 0, 8) == {"STORED": 8}
        await daemon.freeze()
        assert await engine.tell("put", 8, 8) == {"DEGRADED": 8}
        daemon.thaw()
        await until(lambda: stores(engine, 8, 8), what="a block stored again")
        assert (await engine.tell("get", 0, 16))["wrong"] == 0
        await adds_up(worker)


async def test_three_times_what_the_store_takes_is_refused_at_once_and_never_above_the_budget(
    daemon: RunningVineyardd, directory: Path
) -> None:
    budget = 4 << 20
    async with running_worker(directory, KVBERTH_BUDGET_MIB="4") as worker:
        async with running_engine(directory) as one, running_engine(directory) as two:
            for engine in (one, two):
                await engine.tell("connect")
            for first, engine in ((0, one), (10**6, two)):
                engine.begin("storm", 3, first)
            watching = asyncio.create_task(look_at_the_use(worker, budget))
            for engine in (one, two):
                told = await engine.answer()
                assert told["settled"]
            watching.cancel()
            with pytest.raises(asyncio.CancelledError):
                await watching
            now = await worker.metrics()
            assert now["kvberth_transfer_over_budget"] == 0
            assert now["kvberth_transfer_used_bytes.budget"] == budget
            assert now["kvberth_transfer_outcomes.queue_full"] > now["kvberth_transfer_outcomes.stored"] > 100
            for engine in (one, two):
                counts = await engine.tell("counts")
                assert counts.pop("admitted") == sum(counts.values())
            assert (await one.tell("get", 0, 200))["wrong"] == 0
            await adds_up(worker)


async def look_at_the_use(worker: RunningWorker, budget: int) -> None:
    """Looks as a third process, while engines do their worst, at what their words and the headers say.

    The worker is stopped for each look, so that all headers are of one moment.
    """
    held = attach(worker.directory / "vineyard.sock", worker.directory / "store.json")
    memory, in_use = held.memory, {SlotState.GRANTED, SlotState.QUARANTINED, SlotState.COMMITTED}
    seen = 0
    try:
        while True:
            await worker.freeze()
            pages_of = [memory.client_page(place)[:PAGE].cast("Q") for place in range(memory.geometry.clients)]
            queued = sum(page[pages.QUEUED] for page in pages_of)
            states = Counter(memory.header(slot).state for slot in range(memory.geometry.slots))
            granted = BLOCK * sum(states[state] for state in in_use)
            worker.process.send_signal(signal.SIGCONT)
            assert queued + granted <= budget
            seen = max(seen, queued)
            assert await worker.metric("kvberth_store_faults") == 0
            await asyncio.sleep(0.02)
    finally:
        worker.process.send_signal(signal.SIGCONT)  # this look may end while the worker stands still for it
        held.close()
        assert seen > budget // 4, "the engines let something wait"


def held_by(worker: RunningWorker, client: str) -> set[SlotState]:
    """In which states the headers say that this client's slots are which it may write into."""
    held = attach(worker.directory / "vineyard.sock", worker.directory / "store.json")
    try:
        headers = map(held.memory.header, range(held.memory.geometry.slots))
        may_write = (SlotState.GRANTED, SlotState.QUARANTINED)
        return {each.state for each in headers if each.state in may_write and each.holder.hex() == client}
    finally:
        held.close()


async def quarantined(worker: RunningWorker) -> bool:
    return await worker.metric("kvberth_store_slots_bytes.quarantined") > 0


async def not_quarantined(worker: RunningWorker) -> bool:
    return await worker.metric("kvberth_store_slots_bytes.quarantined") == 0


async def stores(engine: object, first: int, count: int) -> bool:
    told = await engine.tell("put", first, count)
    return set(told) <= {"STORED", "PRESENT"}


async def adds_up(worker: RunningWorker) -> None:
    """The books hold, and a walk of the memory finds the same."""
    now = await worker.metrics()
    assert now["kvberth_store_faults"] == 0
    assert now["kvberth_transfer_over_budget"] == 0
    held = attach(worker.directory / "vineyard.sock", worker.directory / "store.json")
    try:
        assert walk(held.memory).complaints == ()
    finally:
        held.close()


async def test_slots_of_a_dead_engine_whose_gpu_may_write_still_stay_apart_for_a_second_more(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_worker(directory) as worker, running_engine(directory, LINGERS="1") as engine:
        await engine.tell("connect")
        assert await engine.tell("put", 0, 4) == {"STORED": 4}
        await until(lambda: _granted(worker))  # a scrape may be 200 ms old
        begin = asyncio.get_running_loop().time()
        engine.signal(signal.SIGKILL)
        await until(lambda: _freed(worker))
        assert asyncio.get_running_loop().time() - begin >= LINGER_S


async def _granted(worker: RunningWorker) -> bool:
    return await worker.metric("kvberth_transfer_used_bytes.granted") > 0


async def _freed(worker: RunningWorker) -> bool:
    told = await worker.metrics()
    return told["kvberth_transfer_used_bytes.granted"] == 0 and told["kvberth_transfer_clients"] == 0
