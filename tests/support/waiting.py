"""Waits for a condition that nothing announces, always with a deadline."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.01

T = TypeVar("T")


async def until(look: Callable[[], T], within_s: float = 15.0, what: str = "what is waited for") -> T:
    """Wait until `look` gives something true, and return it. Raises TimeoutError."""
    try:
        async with asyncio.timeout(within_s):
            while not (found := look()):  # noqa: ASYNC110 -- the condition is somebody else's: there is no event
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise TimeoutError(f"{what} did not come within {within_s:g} s") from None
    return found


async def seconds_until(look: Callable[[], object], within_s: float = 15.0) -> float:
    """Wait likewise, and return how long it took."""
    began = time.monotonic()
    await until(look, within_s)
    return time.monotonic() - began
