"""Ctrl-C and SIGTERM for commands that must clean up: the first ends the work, a further one changes nothing."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def until_signal(work: Coroutine[Any, Any, None]) -> bool:
    """Run ``work`` to its end, or cancel it at the first signal; True when a signal ended it.

    What comes after it (leaving context managers) is not interrupted by further signals.
    """
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled.set)
    task = asyncio.create_task(work, name="the command's work")
    waiting = asyncio.create_task(signalled.wait(), name="wait for a signal")
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return False
        return True
    finally:
        task.cancel()
        waiting.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)
