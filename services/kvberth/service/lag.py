"""How late the event loop runs its timers.

A prober that shares a lagging loop measures its own delay: while `recent_max_s` is high it has no evidence about
anybody else. The watchdog only measures and warns; it never acts.
"""

import asyncio
from collections import deque

import structlog

from kvberth.service.telemetry import Telemetry

WARN_S = 0.1
_WARN_EVERY_S = 5.0
MAX_WINDOW_S = 60.0

_log = structlog.get_logger(__name__)


class LagWindow:
    """The worst lags of the last minute: a queue of (time, lag) in which every lag is below the one before it."""

    def __init__(self) -> None:
        self._worst: deque[tuple[float, float]] = deque()

    def add(self, now: float, lag_s: float) -> None:
        """Record a lag seen at `now`. Entries that can't be a maximum any more are dropped, so it stays short."""
        while self._worst and self._worst[-1][1] <= lag_s:
            self._worst.pop()
        self._worst.append((now, lag_s))
        while self._worst[0][0] < now - MAX_WINDOW_S:
            self._worst.popleft()

    def max_since(self, since: float) -> float:
        """The worst lag seen at `since` or later; 0 when there was none."""
        return next((lag for seen, lag in self._worst if seen >= since), 0.0)


class LagWatchdog:
    """Ticks on the running loop and keeps how late each tick came. All calls belong on the loop's thread."""

    def __init__(self, telemetry: Telemetry, interval_s: float) -> None:
        """A tick each `interval_s`: a shorter lag may be missed, and a longer one seen short by no more than that."""
        self._interval_s = interval_s
        self._window = LagWindow()
        self._histogram = telemetry.histogram("kvberth.loop.lag", "How late the event loop ran a timer.")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._warned = float("-inf")
        telemetry.observe(
            "kvberth.loop.lag.recent.max",
            "Worst lag of the event loop in the last minute.",
            lambda: self.recent_max_s(MAX_WINDOW_S),
            "s",
        )

    def start(self) -> None:
        """Begin to tick."""
        self._loop = asyncio.get_running_loop()
        self._schedule(self._loop)

    def stop(self) -> None:
        """End the ticks; what was seen stays readable."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def recent_max_s(self, window_s: float) -> float:
        """The worst lag within the last `window_s` seconds (60 at most), a tick that is overdue right now included."""
        if window_s > MAX_WINDOW_S:
            raise ValueError(f"lag is kept for {MAX_WINDOW_S:.0f} s, so a window of {window_s:.0f} s can't be answered")
        if self._loop is None:
            return 0.0
        now = self._loop.time()
        overdue = 0.0 if self._timer is None else now - self._due
        return max(self._window.max_since(now - window_s), overdue, 0.0)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + self._interval_s
        self._timer = loop.call_at(self._due, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        lag_s = max(0.0, now - self._due)
        self._window.add(now, lag_s)
        self._histogram.record(lag_s)
        if lag_s > WARN_S and now - self._warned >= _WARN_EVERY_S:
            self._warned = now
            _log.warning("event loop lagged: something ran too long without awaiting", lag_s=round(lag_s, 3))
        self._schedule(loop)
