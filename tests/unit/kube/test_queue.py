"""The work queue: bounded, never two at once for a key, errors stop nothing."""

import asyncio
from collections import Counter
from random import Random

import pytest

from kvberth.kube.errors import Throttled, Unreachable
from kvberth.kube.queue import WorkQueue
from kvberth.kube.settings import QueueSettings

QUICK = QueueSettings(workers=3, handle_s=0.2, retry_first_s=0.02, retry_most_s=0.1, per_second=1000, burst=1000)


async def run_until(queue: WorkQueue[str], handle, done: asyncio.Event) -> None:
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(queue.run(handle))
        await done.wait()
        task.cancel()


async def test_keys_are_worked_on_side_by_side_but_never_one_key_twice_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue("test", QUICK, random=Random(1))
    running: Counter[str] = Counter()
    most, handled, done = Counter(), [], asyncio.Event()

    async def handle(key: str) -> None:
        running[key] += 1
        most[key] = max(most[key], running[key])
        most["all"] = max(most["all"], running.total())
        queue.add("a") if len(handled) < 20 else None
        await asyncio.sleep(0.001)
        running[key] -= 1
        handled.append(key)
        if len(handled) >= 20 and len(queue) == 0 and not running.total():
            done.set()

    for key in "abcdefghijklmn":
        queue.add(key)
    await run_until(queue, handle, done)
    assert most["a"] == 1
    assert most["all"] == 3
    assert set(handled) == set("abcdefghijklmn")


@pytest.mark.parametrize("error", [Unreachable("reset"), RuntimeError("a bug"), TimeoutError()])
async def test_a_key_that_fails_comes_again_and_the_others_go_on(error: Exception) -> None:
    queue: WorkQueue[str] = WorkQueue("test", QUICK, random=Random(1))
    tries, done = Counter(), asyncio.Event()

    async def handle(key: str) -> None:
        tries[key] += 1
        if key == "bad" and tries[key] < 4:
            raise error
        if tries["bad"] == 4 and tries["good"]:
            done.set()

    queue.add("bad")
    queue.add("good")
    await run_until(queue, handle, done)
    assert tries == {"bad": 4, "good": 1}


async def test_a_key_that_hangs_is_given_up_at_its_deadline() -> None:
    queue: WorkQueue[str] = WorkQueue("test", QUICK, random=Random(1))
    tries, done = Counter(), asyncio.Event()

    async def handle(key: str) -> None:
        tries[key] += 1
        if tries[key] == 1:
            await asyncio.Event().wait()
        done.set()

    queue.add("hangs")
    await run_until(queue, handle, done)
    assert tries["hangs"] == 2


async def test_a_busy_server_is_given_the_time_it_asks_for() -> None:
    queue: WorkQueue[str] = WorkQueue("test", QUICK, random=Random(1))
    times, done = [], asyncio.Event()

    async def handle(key: str) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            raise Throttled("busy", status=429, retry_after_s=0.5)
        done.set()

    queue.add("a")
    await run_until(queue, handle, done)
    assert times[1] - times[0] >= 0.5


async def test_a_key_whose_work_was_cancelled_is_found_by_the_next_run() -> None:
    queue: WorkQueue[str] = WorkQueue("test", QUICK, random=Random(1))
    begun, done = asyncio.Event(), asyncio.Event()

    async def hang(key: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def finish(key: str) -> None:
        done.set()

    queue.add("a")
    await run_until(queue, hang, begun)
    await run_until(queue, finish, done)
