"""Ctrl-C and SIGTERM for commands that must clean up: the first ends the work, a further one changes nothing."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def on_signals() -> asyncio.Event:
    """Give the event that SIGINT and SIGTERM set from now on; they interrupt nothing by themselves any more.

    Called before anything is started, so that a signal during the start still leads to a clean end.
    """
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled.set)
    return signalled


async def until_signal(signalled: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run ``work`` to its end, or cancel it at the first signal; True when a signal ended it."""
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
