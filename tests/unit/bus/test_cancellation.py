"""A cancellation that a library swallowed comes back, whatever the library then did."""

import asyncio

import pytest

from kvberth.bus.session import cancellable


async def _swallow(what_then: str) -> str:
    with cancellable():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if what_then == "raises":
                raise RuntimeError("hides the cancellation") from None
        return "a result that hides the cancellation"


@pytest.mark.parametrize("what_then", ["returns", "raises"])
async def test_a_swallowed_cancellation_comes_back(what_then):
    task = asyncio.create_task(_swallow(what_then))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_swallowed_timeout_is_a_timeout():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await _swallow("returns")


async def test_without_a_cancellation_results_and_errors_pass():
    with cancellable():
        result = await asyncio.sleep(0, "fine")
    assert result == "fine"
    with pytest.raises(RuntimeError, match="mine"), cancellable():
        raise RuntimeError("mine")


async def test_clean_up_of_a_cancelled_task_may_still_use_the_bus():
    cleaned = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            with cancellable():
                await asyncio.sleep(0)
                cleaned.append(True)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert cleaned
