"""Blocking file work off the event loop, which says so when it takes too long."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import structlog

LATE_AFTER_S = 5.0

_log = structlog.get_logger(__name__)

T = TypeVar("T")


async def in_thread(work: Callable[[], T], what: str, late_after_s: float = LATE_AFTER_S) -> T:
    """Run `work` in a thread and give its result; after `late_after_s` seconds say once what is waited for.

    No thread can be ended: whoever is cancelled here goes on at once, and the work ends by itself, unobserved.
    """
    loop = asyncio.get_running_loop()
    late = loop.call_later(late_after_s, _say_late, what, late_after_s)
    try:
        return await loop.run_in_executor(None, work)
    finally:
        late.cancel()


def _say_late(what: str, waited_s: float) -> None:
    _log.warning(f"{what} has taken {waited_s:g} s and is waited for; the disk may be slow, full or gone")
