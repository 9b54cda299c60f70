"""Tasks that run while an ``async with`` block is open, and end it with what goes wrong in them."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

Work = Callable[[], Awaitable[None]]


class Background:
    """Base of everything that works on its own. An error of its tasks cancels the block and is raised at its end."""

    def _tasks(self) -> Sequence[Work]:
        """What runs, each until it is cancelled."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Start."""
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._running = [self._start(work) for work in self._tasks()]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and raise what went wrong in the background; the block's own error goes on as it is."""
        for task in self._running:
            task.cancel()
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as faults:
            if faults.exceptions != (error,):
                raise

    def _start(self, work: Work) -> asyncio.Task[None]:
        async def run() -> None:
            await work()

        # nats-py's callbacks inherit the context of whoever subscribed: an empty one has no span in it.
        return self._group.create_task(run(), context=contextvars.Context())
