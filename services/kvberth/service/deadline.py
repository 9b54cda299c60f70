"""Ends a process that should have ended by itself, naming what holds it.

A thread of its own keeps the time: neither a task that swallows its cancellation nor a call that blocks the loop can
stop it.
"""

import asyncio
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable

import structlog

_log = structlog.get_logger(__name__)


class ExitDeadline:
    """From `start(seconds)` on the process has that long to exit by itself; then it is ended with `exit_code`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, exit_code: int, before_exit: Callable[[], None]) -> None:
        """`before_exit` is called last thing, on whatever thread it happens."""
        self._loop = loop
        self._exit_code = exit_code
        self._before_exit = before_exit
        # put() of a SimpleQueue is reentrant, which makes start() safe in a signal handler; Event.set() is not.
        self._orders: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        threading.Thread(target=self._keep, name="exit-deadline", daemon=True).start()

    def start(self, seconds: float) -> None:
        """Begin to count; the first call wins."""
        self._orders.put(seconds)

    def cancel(self) -> None:
        """The process is about to exit by itself."""
        self._orders.put(None)

    def expire(self, reason: str) -> None:
        """End the process now, naming its unfinished tasks, its threads and the place where the main thread is."""
        try:
            _log.error(
                reason,
                tasks=_unfinished_tasks(self._loop),
                threads=_live_threads(),
                main_thread_at=_main_thread_at(),
            )
            self._before_exit()
            sys.stderr.flush()
        finally:
            os._exit(self._exit_code)

    def _keep(self) -> None:
        order = self._orders.get()
        if order is None:
            return
        ends = time.monotonic() + order
        while order is not None:
            try:
                order = self._orders.get(timeout=max(0.0, ends - time.monotonic()))
            except queue.Empty:
                self.expire("service did not end in time and is ended by force")


def _unfinished_tasks(loop: asyncio.AbstractEventLoop) -> list[str]:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    return [_describe_task(task) for task in tasks]


def _describe_task(task: "asyncio.Task[object]") -> str:
    frames = task.get_stack(limit=1)
    where = f" at {frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else ""
    coroutine = getattr(task.get_coro(), "__qualname__", "?")
    return f"{task.get_name()} ({coroutine}{where})"


def _live_threads() -> list[str]:
    own = {threading.main_thread(), threading.current_thread()}
    return sorted(thread.name for thread in threading.enumerate() if thread not in own)


def _main_thread_at() -> str:
    """Where the main thread is: in the selector when the loop is idle, elsewhere when a call blocks it."""
    frames = sys._current_frames()  # noqa: SLF001 -- the documented way to see another thread
    frame = frames.get(threading.main_thread().ident or 0)
    if frame is None:
        return "?"
    last = traceback.extract_stack(frame, limit=1)[-1]
    return f"{last.name} at {last.filename}:{last.lineno}"
