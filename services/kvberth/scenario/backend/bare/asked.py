"""Runs `kvberth status` for a stack, one after the other while somebody waits for what it prints."""

import asyncio
from datetime import UTC, datetime

from kvberth.scenario.backend.bare.stack import BareStack
from kvberth.scenario.facts import Printed

WITHIN_S = 15.0
_MOST = 200


class StatusAsked:
    """What was printed so far; at most one command runs at a time."""

    def __init__(self, stack: BareStack) -> None:
        self._stack = stack
        self._running: asyncio.Task[None] | None = None
        self.printed: list[Printed] = []

    def ask(self) -> None:
        """Give the command, unless it runs. Raises OSError where the last one could not be given."""
        if self._running is None or self._running.done():
            if self._running is not None and not self._running.cancelled():
                self._running.result()
            self._running = asyncio.create_task(self._run(), name="kvberth status")

    async def close(self) -> None:
        """End the one that runs."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        began = datetime.now(UTC)
        text = await self._stack.asked("status", within_s=WITHIN_S)
        self.printed = [*self.printed[1 - _MOST :], Printed(began, text)]
