"""The litmus test of the store's two fences: two processes store, fence and load; never may both miss the other.

Without fences they do miss each other here, which is what makes the other tests worth anything. Both sides must
really run at the same time: these tests want two idle cores, and stand with the long ones, which run one by one.
"""

import asyncio
import sys
import tempfile
import time
from array import array
from itertools import pairwise
from pathlib import Path

import pytest

from kvberth.store import fences

PROGRAM = Path(__file__).with_name("litmus.py")
ROUNDS = 200_000
ENOUGH = 300_000
"""Rounds that really ran beside rounds of the other side; without a fence they hold several misses."""
LIMIT_S = 120.0


@pytest.mark.long
@pytest.mark.timeout(2 * LIMIT_S)
async def test_two_processes_without_a_fence_miss_each_other() -> None:
    until = time.monotonic() + LIMIT_S
    misses = 0
    while not misses and time.monotonic() < until:
        misses += (await litmus("none", "none"))[0]
    assert misses, "no fence was needed here: either this test is blind, or the machine has one core"


@pytest.mark.long
@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize(("worker", "client"), [("worker", "client"), ("client", "worker"), ("lock", "lock")])
async def test_fenced_processes_never_miss_each_other(worker: str, client: str) -> None:
    until = time.monotonic() + LIMIT_S
    together = 0
    while together < ENOUGH and time.monotonic() < until:
        misses, beside = await litmus(worker, client)
        assert misses == 0
        together += beside
    assert together >= ENOUGH, f"only {together} rounds ran beside each other, the test has not looked enough"


async def test_a_word_is_never_torn_and_never_goes_back() -> None:
    for seen in await run_sides("none", "none"):
        assert all(before <= after <= ROUNDS for before, after in pairwise(seen))


def test_this_machine_gives_a_fence() -> None:
    kind = fences.choose_fence()
    fences.worker_fence(kind)()
    fences.client_fence(kind)()


async def litmus(first: str, second: str) -> tuple[int, int]:
    """Runs both sides once; returns how often both missed the other, and how many rounds ran beside each other."""
    a, b = await run_sides(first, second)
    misses = sum(1 for number in range(1, ROUNDS + 1) if a[number] < ROUNDS and b[a[number] + 1] < number)
    return misses, sum(1 for value in a if 0 < value < ROUNDS)


async def run_sides(first: str, second: str) -> list["array[int]"]:
    """Runs two sides at the same time; returns what each saw, round by round."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.truncate(4 * 4096)
        return list(await asyncio.gather(run_side(file.name, 0, first), run_side(file.name, 1, second)))


async def run_side(path: str, side: int, kind: str) -> "array[int]":
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), path, str(side), kind, str(ROUNDS), stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    return array("Q", output)
