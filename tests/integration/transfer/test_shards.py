"""An engine of two ranks and a scheduler, each a process of its own: a block is there when both ranks stored theirs."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kvberth.store.layout.slots import SlotState
from kvberth.store.vineyard_memory import attach
from kvberth.store.walk import Walked, walk
from support.transfer_worker import BLOCK, Engine, RunningWorker, running_engine, running_worker
from support.vineyardd import RunningVineyardd
from support.waiting import until

pytestmark = pytest.mark.integration
MORTAL = Path(__file__).parent / "mortal_worker.py"


@asynccontextmanager
async def running_ranks(directory: Path) -> AsyncIterator[tuple[Engine, Engine]]:
    async with running_engine(directory, SHARD="0", SHARDS="2") as one:
        async with running_engine(directory, SHARD="1", SHARDS="2") as two:
            yield one, two


async def both(ranks: tuple[Engine, Engine], *words: object) -> list[dict[str, int]]:
    """Has both do something at once."""
    for rank in ranks:
        rank.begin(*words)
    return [await rank.answer() for rank in ranks]


async def connect(ranks: tuple[Engine, Engine]) -> None:
    await until(lambda: are_connected(ranks), within_s=60)


async def are_connected(ranks: tuple[Engine, Engine]) -> bool:
    return all(told["connected"] for told in await both(ranks, "connect", 5))


async def store_all(ranks: tuple[Engine, Engine], first: int, count: int) -> None:
    """Has both store until all is there: one that comes seconds after the other one has to come again."""
    async with asyncio.timeout(60):
        while not all(set(told) <= {"STORED", "PRESENT"} for told in await both(ranks, "put", first, count)):
            pass


def walked(worker: RunningWorker) -> Walked:
    held = attach(worker.directory / "vineyard.sock", worker.directory / "store.json")
    try:
        return walk(held.memory)
    finally:
        held.close()


async def adds_up(worker: RunningWorker) -> None:
    now = await worker.metrics()
    assert now["kvberth_store_faults"] == now["kvberth_transfer_over_budget"] == 0
    assert walked(worker).complaints == ()


async def loads(scheduler: Engine, ranks: tuple[Engine, Engine], first: int, count: int) -> int:
    """Has found blocks loaded by both ranks; how many there were. Asks again where a lookup ended with its time."""
    found = 0
    while (told := await scheduler.tell("find", first + found, count - found))["found"]:
        for rank in ranks:
            taken = await rank.tell("take", told["parts"], first + found)
            assert taken == {"leased": told["found"], "loaded": told["found"], "wrong": 0}
        found += told["found"]
    return found


async def test_what_two_ranks_stored_is_found_by_their_scheduler_and_loaded_by_each(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with (
        running_worker(directory, KVBERTH_SHARD_WAIT_S="30") as worker,
        running_engine(directory, SHARDS="2") as scheduler,
    ):
        async with running_engine(directory, SHARD="0", SHARDS="2") as one:
            await until(lambda: is_alone(one))
            await until(lambda: counts_a_refusal(worker))
            async with running_engine(directory, SHARD="1", SHARDS="2") as two:
                ranks = one, two
                await connect(ranks)
                assert (await scheduler.tell("connect"))["connected"]
                assert await both(ranks, "put", 0, 32) == [{"STORED": 32}] * 2
                assert await loads(scheduler, ranks, 0, 40) == 32
                assert await both(ranks, "put", 24, 16) == [{"PRESENT": 8, "STORED": 8}] * 2
                assert await both(ranks, "put", 100, 200) == [{"STORED": 200}] * 2, "more than fit"
                assert await loads(scheduler, ranks, 290, 10) == 10
                await until(lambda: the_books_say_what_is_found(worker))
                await adds_up(worker)


async def counts_a_refusal(worker: RunningWorker) -> bool:
    """Whether a scrape tells it, which may be 200 ms older than the refusal."""
    return (await worker.metrics()).get("kvberth_transfer_refused.layout", 0) > 0


async def is_alone(rank: Engine) -> bool:
    """Whether it has heard that it is not let in as yet, and why."""
    told = await rank.tell("connect", 0)
    assert not told["connected"]
    return "have no rank on this node: 1" in str(told["why"])


async def the_books_say_what_is_found(worker: RunningWorker) -> bool:
    """Once the last grants have found room, for which whole blocks go."""
    told, found = await worker.metrics(), walked(worker)
    assert found.states[SlotState.PUBLISHED].blocks == 2 * len(found.keys)
    return told["kvberth_store_slots_bytes.published"] == len(found.keys) * (BLOCK + BLOCK // 2)


async def test_where_one_rank_fails_nothing_is_found_and_nothing_is_left(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_worker(directory) as worker, running_engine(directory, SHARDS="2") as scheduler:
        await scheduler.tell("connect")
        async with running_engine(directory, SHARD="0", SHARDS="2") as one:
            async with running_engine(directory, SHARD="1", SHARDS="2") as two:
                await connect((one, two))
                one.begin("put", 0, 8)
                await until(lambda: waiting(worker))
                two.signal(signal.SIGKILL)
                assert await one.answer() == {"SHARD": 8}
                assert (await scheduler.tell("find", 0, 8))["found"] == 0
                assert not await waiting(worker)
                await adds_up(worker)
            async with running_engine(directory, SHARD="1", SHARDS="2") as two:
                await connect((one, two))
                await store_all((one, two), 0, 8)
                assert await loads(scheduler, (one, two), 0, 8) == 8
                await adds_up(worker)


async def test_ranks_that_cut_the_blocks_otherwise_than_those_before_them_find_none_and_store_theirs(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with (
        running_worker(directory, KVBERTH_SHARD_WAIT_S="30") as worker,
        running_engine(directory, SHARDS="2") as scheduler,
    ):
        await scheduler.tell("connect")
        async with running_ranks(directory) as ranks:
            await connect(ranks)
            assert await both(ranks, "put", 0, 8) == [{"STORED": 8}] * 2
        async with (
            running_engine(directory, SHARD="0", SHARDS="2", CUT="1") as one,
            running_engine(directory, SHARD="1", SHARDS="2", CUT="0") as two,
        ):
            ranks = one, two
            await connect(ranks)
            assert await both(ranks, "get", 0, 8) == [{"found": 0, "right": 0, "wrong": 0}] * 2
            assert await both(ranks, "put", 0, 8) == [{"STORED": 8}] * 2
            assert await loads(scheduler, ranks, 0, 8) == 8
            await adds_up(worker)


async def waiting(worker: RunningWorker) -> bool:
    return await worker.metric("kvberth_store_slots_bytes.committed") > 0


@pytest.mark.parametrize("writes", [3, 9, 40])
async def test_a_worker_killed_while_shards_come_leaves_whole_blocks_or_none(
    daemon: RunningVineyardd, directory: Path, writes: int
) -> None:
    async with running_ranks(directory) as ranks, running_engine(directory, SHARDS="2") as scheduler:
        async with running_worker(
            directory, MORTAL, KVBERTH_TEST_FROM="commit", KVBERTH_TEST_WRITES=str(writes)
        ) as mortal:
            await connect(ranks)
            for rank in ranks:
                rank.begin("put", 0, 8)
            async with asyncio.timeout(20):
                await mortal.process.wait()
        async with running_worker(directory) as worker:
            told = [Counter(await rank.answer()) for rank in ranks]
            assert [each.total() for each in told] == [8, 8]
            assert set(told[0] | told[1]) <= {"STORED", "DEGRADED", "PRESENT", "SHARD"}
            await connect(ranks)
            await scheduler.tell("connect")
            there = sum([await loads(scheduler, ranks, number, 1) for number in range(8)])
            assert there >= max(each["STORED"] for each in told)
            await store_all(ranks, 0, 8)
            assert await loads(scheduler, ranks, 0, 8) == 8
            await adds_up(worker)
