"""What was published and waits for the daemon's word: a receipt is given only after it. Pure.

Memory stays readable and writable when its daemon is dead or stopped. So a block counts as stored once the daemon has
answered a question that was asked after the block was published.
"""

from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

from kvberth.store.layout.rings import Outcome

LATE_NS = 1_000_000_000
"""After so long without an answer nothing is promised: the block is taken out again, dropped(degraded)."""


class Answer(NamedTuple):
    """The outcome of one commit, and when it came about (ns)."""

    client: bytes
    session: int
    grant: int
    generation: int
    key: bytes
    outcome: Outcome
    at_ns: int


class Answers:
    """Outcomes in the order in which they came about."""

    def __init__(self) -> None:
        self._waiting: deque[Answer] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, answers: Iterable[Answer]) -> None:
        self._waiting.extend(answers)

    def proved(self, asked_ns: int) -> list[Answer]:
        """Takes what came about before the daemon was asked."""
        return self._until(asked_ns)

    def late(self, now_ns: int) -> list[Answer]:
        """Takes what has waited too long."""
        return self._until(now_ns - LATE_NS)

    def of(self, client: bytes) -> list[Answer]:
        """Takes what one client waits for."""
        own = [answer for answer in self._waiting if answer.client == client]
        self._waiting = deque(answer for answer in self._waiting if answer.client != client)
        return own

    def taken_out(self, keys: Collection[bytes]) -> None:
        """These blocks are not there any more: whoever waits to hear that one is shall hear that it is not."""
        self._waiting = deque(
            answer._replace(outcome=Outcome.DEGRADED) if answer.key in keys and not answer.outcome.dropped else answer
            for answer in self._waiting
        )

    def _until(self, at_ns: int) -> list[Answer]:
        taken = []
        while self._waiting and self._waiting[0].at_ns <= at_ns:
            taken.append(self._waiting.popleft())
        return taken
