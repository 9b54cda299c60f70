"""Lets a command follow a stack for as long as that runs, and says when its bus is away. Owns no connection."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from kvberth.bare.stack.layout import Address, Layout

LOOK_EVERY_S = 0.5
AWAY_AFTER_LOOKS = 4
"""A bus that is back within two seconds is not worth a word."""


@dataclass(slots=True)
class Watch:
    """What looks at the bus and at the stack's address file make of it. Pure but for that file."""

    layout: Layout
    address: Address | None
    """As found at the beginning; None where the bus is named by its URL, which may come back at any time."""
    away: int = 0

    def look(self, connected: bool) -> str | None:
        """Take one more look; give what is to be said now."""
        before, self.away = self.away, 0 if connected else self.away + 1
        if self.away == AWAY_AFTER_LOOKS:
            return "the bus is away; what it says is shown when it is back"
        return "the bus is back" if before >= AWAY_AFTER_LOOKS and connected else None

    @property
    def ended(self) -> bool:
        """Whether the stack is gone, or another one runs in its place."""
        return self.address is not None and Address.read(self.layout) != self.address

    @property
    def end(self) -> str:
        """Say that it is gone."""
        return f"the kvberth with the state directory {self.layout.state} has ended"


async def while_it_runs(
    watch: Watch, connected: Callable[[], bool], say: Callable[[str], None], work: Coroutine[Any, Any, None]
) -> None:
    """Run ``work`` until it ends or its stack has ended, which is said, as is that the bus is away."""
    task = asyncio.create_task(work, name="the command's work")
    try:
        while not (await asyncio.wait((task,), timeout=LOOK_EVERY_S))[0]:
            if watch.ended:
                say(watch.end)
                return
            if (sentence := watch.look(connected())) is not None:
                say(sentence)
        task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
