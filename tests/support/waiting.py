"""Waits for a condition that nothing announces, always with a deadline."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

LOOK_EVERY_S = 0.01
ASK_EVERY_S = 0.05


async def until(look: Callable[[], Any], within_s: float = 20.0, what: str = "what is waited for") -> Any:
    """Wait until `look`, maybe a coroutine function, gives something true, and return it. Raises TimeoutError."""
    try:
        async with asyncio.timeout(within_s):
            while True:
                found, pause_s = look(), LOOK_EVERY_S
                if inspect.isawaitable(found):
                    found, pause_s = await found, ASK_EVERY_S
                if found:
                    return found
                await asyncio.sleep(pause_s)
    except TimeoutError:
        raise TimeoutError(f"{what} did not come within {within_s:g} s") from None


async def seconds_until(look: Callable[[], Any], within_s: float = 20.0) -> float:
    """Wait likewise, and return how long it took."""
    began = time.monotonic()
    await until(look, within_s)
    return time.monotonic() - began
