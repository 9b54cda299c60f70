"""What the bus counts and measures. Without a telemetry everything here does nothing.

The labels are small sets (a reason, a kind of work), never names of nodes or pods.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol


class Counter(Protocol):
    """A sum that only grows."""

    def add(self, amount: float, attributes: Mapping[str, str] | None = None) -> None:
        """Add to it."""


class Telemetry(Protocol):
    """What the bus needs of `kvberth.service.Telemetry`."""

    def counter(self, name: str, description: str, unit: str = "") -> Counter:
        """Make a counter."""

    def observe(self, name: str, description: str, read: Callable[[], float], unit: str = "") -> None:
        """Make a gauge that is read at each scrape."""

    def inject(self, headers: dict[str, str]) -> None:
        """Write the current span into headers."""

    def handling(
        self, name: str, headers: Mapping[str, str] | None, cause_id: str, attributes: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Any]:
        """Open a span around the handling of one message."""


_COUNTERS = {
    "connections": "Connections made; the first one included.",
    "disconnects": "Connections lost.",
    "errors": "Errors that nats-py reported outside of any call, by their class.",
    "unreadable": "Messages that could not be read, by reason.",
    "outvoted": "Wants not taken because their term is lower than one seen before.",
    "opened": "Consumers opened, by the reason for opening anew.",
    "published": "Messages acknowledged by the stream.",
    "retries": "Publishes repeated, by reason.",
    "conflicts": "Publishes refused because the subject's last message was another one.",
    "overwritten": "Messages of others found on own subjects.",
    "dropped": "Log events that were never stored, by reason.",
    "failed_requests": "Requests that could not be handled, by reason.",
}


class Greatest:
    """The greatest of what some readers give at a scrape; 0 while there is none."""

    def __init__(self) -> None:
        """Nobody is read."""
        self._reads: list[Callable[[], float]] = []

    def add(self, read: Callable[[], float]) -> None:
        """Read this one, too."""
        self._reads.append(read)

    def remove(self, read: Callable[[], float]) -> None:
        """Read it no longer."""
        self._reads.remove(read)

    def __call__(self) -> float:
        """Read all of them."""
        return max((read() for read in self._reads), default=0.0)


class Metrics:
    """The counters and gauges of one bus."""

    def __init__(self, telemetry: Telemetry | None) -> None:
        """Without a telemetry everything is dropped."""
        self._telemetry = telemetry
        self._counters = (
            {name: telemetry.counter(f"kvberth.bus.{name}", text) for name, text in _COUNTERS.items()}
            if telemetry
            else {}
        )
        self.ages, self.skews = Greatest(), Greatest()
        if telemetry:
            telemetry.observe("kvberth.bus.view.age", "Age of the oldest view's last sign of life.", self.ages, "s")
            farthest = "How far the farthest clock of all that are heard is from this one; 0 below 2 s."
            telemetry.observe("kvberth.bus.clock.skew", farthest, self.skews, "s")

    def count(self, name: str, reason: str | None = None, amount: int = 1) -> None:
        """Add to one of `_COUNTERS`."""
        if self._counters:
            self._counters[name].add(amount, None if reason is None else {"reason": reason})

    def connected_by(self, read: Callable[[], bool]) -> None:
        """Show whether the bus is connected."""
        if self._telemetry:
            self._telemetry.observe("kvberth.bus.connected", "1 while connected.", lambda: float(read()))

    def traceparent(self) -> str | None:
        """The current span, as a header's value."""
        headers: dict[str, str] = {}
        if self._telemetry:
            self._telemetry.inject(headers)
        return headers.get("traceparent")

    def handling(self, name: str, headers: Mapping[str, str] | None, cause_id: str) -> AbstractContextManager[Any]:
        """A span around the handling of one message."""
        return self._telemetry.handling(name, headers, cause_id) if self._telemetry else nullcontext()
