"""Which key is worked on when: coalesced, in fair order, with back-off per key and one pace for all. Pure.

A key waits at most once; one that changes while it is worked on waits again afterwards. Time is given in seconds on any
clock that never goes back.
"""

import heapq
from collections.abc import Hashable
from random import Random
from typing import Generic, TypeVar

from kvberth.kube.settings import QueueSettings

K = TypeVar("K", bound=Hashable)


class Backlog(Generic[K]):
    """The keys that wait and those that are worked on."""

    def __init__(self, settings: QueueSettings, random: Random) -> None:
        """Empty, with a full burst to spend."""
        self._settings, self._random = settings, random
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = 0
        self._working: set[K] = set()
        self._again: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._tokens, self._filled_at = float(settings.burst), 0.0

    def __len__(self) -> int:
        """How many keys wait, those that will be worked on again included."""
        return len(self._due) + len(self._again)

    def add(self, key: K, now: float, after_s: float = 0.0) -> bool:
        """Let a key be worked on in `after_s`, or as early as it was already to be; False when there is no room."""
        due = now + after_s
        if key in self._working:
            self._again[key] = min(due, self._again.get(key, due))
            return True
        if key not in self._due and len(self) >= self._settings.capacity:
            return False
        if key not in self._due or due < self._due[key]:
            self._push(key, due)
        return True

    def take(self, now: float) -> K | None:
        """The key to work on now; None when none is due or the pace does not allow one."""
        self._fill(now)
        if self._next_due() > now or self._tokens < 1:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        self._tokens -= 1
        self._working.add(key)
        return key

    def wait_s(self, now: float) -> float | None:
        """Seconds until `take` may give a key; None while nothing waits."""
        if not self._due:
            return None
        self._fill(now)
        token_s = max(0.0, 1 - self._tokens) / self._settings.per_second
        return max(0.0, self._next_due() - now, token_s)

    def done(self, key: K) -> None:
        """Working on a key succeeded: its failures are forgotten."""
        self._working.discard(key)
        self._failures.pop(key, None)
        if key in self._again:
            self._push(key, self._again.pop(key))

    def failed(self, key: K, now: float, asked_s: float | None = None) -> float:
        """Working on a key failed: it comes back after the returned seconds, or when it changed meanwhile."""
        self._working.discard(key)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        most_s = min(self._settings.retry_most_s, self._settings.retry_first_s * 2 ** min(failures - 1, 30))
        wait_s = max(self._random.uniform(most_s / 2, most_s), asked_s or 0.0)
        again = self._again.pop(key, now + wait_s)
        self._push(key, min(again, now + wait_s))
        return wait_s

    def _push(self, key: K, due: float) -> None:
        self._due[key] = due
        self._order += 1
        heapq.heappush(self._heap, (due, self._order, key))

    def _next_due(self) -> float:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # came earlier than it was once to come
        return self._heap[0][0] if self._heap else float("inf")

    def _fill(self, now: float) -> None:
        if now > self._filled_at:
            gained = (now - self._filled_at) * self._settings.per_second
            self._tokens = min(float(self._settings.burst), self._tokens + gained)
            self._filled_at = now
