"""How often caches may be removed or restarted. Pure. Additions beside a bound engine are never delayed."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

WINDOW = timedelta(minutes=1)
Times = Mapping[str, tuple[datetime, ...]]
"""By KVCache: when something was done to it."""


def recent(known: Times, done: Iterable[str], now: datetime) -> Times:
    """Return what was done within the last minute, given the KVCaches to which it was done just now."""
    kept = {name: tuple(time for time in times if now - time < WINDOW) for name, times in known.items()}
    for name in done:
        kept[name] = (*kept.get(name, ()), now)
    return {name: times for name, times in kept.items() if times}


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
