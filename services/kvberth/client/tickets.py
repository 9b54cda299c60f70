"""What an engine holds of an offload: when its memory is its own again, and what became of each block."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from kvberth.store.layout.rings import Outcome


class Ticket:
    """One offload of some blocks. `outcomes` has one for each block, in their order; None: not known yet."""

    __slots__ = ("_cancel", "_changed", "_unreleased", "_unsettled", "outcomes")

    def __init__(self, blocks: int, changed: threading.Condition, cancel: Callable[["Ticket"], None]) -> None:
        self.outcomes: list[Outcome | None] = [None] * blocks
        self._changed = changed
        self._cancel = cancel
        self._unreleased = self._unsettled = blocks

    @property
    def released(self) -> bool:
        """Whether the blocks may be overwritten: each is copied, or will not be."""
        return not self._unreleased

    @property
    def settled(self) -> bool:
        """Whether the outcome of every block is known."""
        return not self._unsettled

    def wait_released(self, timeout_s: float) -> bool:
        """Waits until the blocks may be overwritten; False: not yet."""
        return self._wait(lambda: self.released, timeout_s)

    def wait(self, timeout_s: float) -> bool:
        """Waits until every outcome is known; False: not yet."""
        return self._wait(lambda: self.settled, timeout_s)

    def cancel(self) -> None:
        """Drops what is not being copied yet; the rest goes on. Does not wait: see `wait_released`."""
        self._cancel(self)

    def _wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s
        with self._changed:
            while not done():
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    # --- for the client, which holds the lock of `changed` ------------------------------------------------------------

    def release(self) -> bool:
        """One more block is copied; whether it was the last one."""
        self._unreleased -= 1
        return not self._unreleased

    def settle(self, block: int, outcome: Outcome) -> bool:
        """The last word on a block; whether it was the last block."""
        self.outcomes[block] = outcome
        self._unsettled -= 1
        return not self._unsettled

    def refuse_from(self, block: int, outcome: Outcome) -> None:
        """From this block on none is taken in."""
        refused = len(self.outcomes) - block
        self.outcomes[block:] = [outcome] * refused
        self._unreleased -= refused
        self._unsettled -= refused


@dataclass(slots=True, eq=False)
class Job:
    """One block on its way."""

    ticket: Ticket
    at: int
    """Its number in the ticket."""
    key: bytes
    block: int
    priority: int
    deadline_ns: int
    copied: bool = False
