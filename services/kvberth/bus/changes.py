"""Tells waiters that something changed, without a queue: what matters is only that the present state is another."""

import asyncio


class Changes:
    """A flag that wakes all who wait for it, and is cleared by whoever returns."""

    def __init__(self) -> None:
        """Nothing has changed yet."""
        self._changed = False
        self._waiters: set[asyncio.Future[None]] = set()

    def mark(self) -> None:
        """Something changed."""
        self._changed = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout_s: float) -> bool:
        """True as soon as anything changed since the last return; False when nothing did in time."""
        if not self._changed and not await self._woken(timeout_s):
            return False
        self._changed = False
        return True

    async def _woken(self, timeout_s: float) -> bool:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
        return True
