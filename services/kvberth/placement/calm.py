"""How often caches may be removed. Pure. Additions beside a bound engine are never delayed."""

from collections.abc import Sequence
from datetime import datetime, timedelta

WINDOW = timedelta(minutes=1)


class Allowance:
    """What is left of a limit per minute, given the times of what was done."""

    def __init__(self, done: Sequence[datetime], limit: int, now: datetime) -> None:
        """Count what was done within the last minute before `now`."""
        recent = sorted(time for time in done if now - time < WINDOW)
        self._left = limit - len(recent)
        self._next = recent[0] + WINDOW if recent else now + WINDOW

    def take(self) -> bool:
        """Use one, if one is left."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True

    @property
    def next_at(self) -> datetime:
        """When one may be free again."""
        return self._next
