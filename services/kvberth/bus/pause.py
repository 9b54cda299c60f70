"""How long to wait before trying again."""

import asyncio


class Pause:
    """Doubling, and short again after a quiet while."""

    def __init__(self, first_s: float = 0.05, most_s: float = 5.0, forget_s: float = 30.0) -> None:
        """`forget_s` without a call starts over."""
        self._first_s, self._most_s, self._forget_s = first_s, most_s, forget_s
        self._next_s, self._last = first_s, float("-inf")

    def next(self) -> float:
        """Seconds to wait now."""
        now = asyncio.get_running_loop().time()
        if now - self._last > self._forget_s:
            self._next_s = self._first_s
        self._last = now
        wait = self._next_s
        self._next_s = min(self._most_s, self._next_s * 2)
        return wait
