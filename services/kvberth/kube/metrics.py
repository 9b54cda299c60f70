"""What the Kubernetes edge counts and measures. Without a telemetry everything here does nothing.

The labels are small sets (a kind's plural, a reason, a queue's name), never names of objects.
"""

from collections.abc import Callable, Mapping
from typing import Protocol


class Counter(Protocol):
    """A sum that only grows."""

    def add(self, amount: float, attributes: Mapping[str, str] | None = None) -> None:
        """Add to it."""


class Telemetry(Protocol):
    """What is needed of `kvberth.service.Telemetry`."""

    def counter(self, name: str, description: str, unit: str = "") -> Counter:
        """Make a counter."""

    def observe_each(
        self, name: str, description: str, label: str, read: Callable[[], Mapping[str, float]], unit: str = ""
    ) -> None:
        """Make a gauge of one label that is read at each scrape."""


_COUNTERS = {
    "lists": "Lists read to their end, by resource.",
    "list_restarts": "Lists begun anew because their continue token was too old, by resource.",
    "watch_ends": "Watches that ended, by resource and reason.",
    "changes": "Changes of objects, by resource and verb.",
    "handled": "Keys handled, by queue and outcome.",
    "refused_keys": "Keys that a full queue refused, by queue.",
    "events": "Kubernetes Events, by what became of them.",
    "lease": "Turns of the Lease loop, by Lease and outcome.",
}


class Metrics:
    """The counters and gauges of one process's Kubernetes edge."""

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        """Without a telemetry everything is dropped."""
        self._counters = (
            {name: telemetry.counter(f"kvberth.kube.{name}", text) for name, text in _COUNTERS.items()}
            if telemetry
            else {}
        )
        self._ages: dict[str, Callable[[], float]] = {}
        self._depths: dict[str, Callable[[], float]] = {}
        self._terms: dict[str, Callable[[], float]] = {}
        if telemetry:
            self._gauges(telemetry)

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add to one of `_COUNTERS`."""
        if self._counters:
            self._counters[name].add(amount, labels)

    def age_of(self, resource: str, read: Callable[[], float]) -> None:
        """Show how long ago a watch last said something."""
        self._ages[resource] = read

    def depth_of(self, queue: str, read: Callable[[], float]) -> None:
        """Show how many keys wait."""
        self._depths[queue] = read

    def term_of(self, lease: str, read: Callable[[], float]) -> None:
        """Show the term that is held; 0 for none."""
        self._terms[lease] = read

    def _gauges(self, telemetry: Telemetry) -> None:
        age = "Seconds since the watch of a resource last said something."
        telemetry.observe_each("kvberth.kube.event.age", age, "resource", lambda: _read(self._ages), "s")
        telemetry.observe_each("kvberth.kube.queue.depth", "Keys that wait.", "queue", lambda: _read(self._depths))
        telemetry.observe_each("kvberth.kube.lease.term", "Term held.", "lease", lambda: _read(self._terms))


def _read(reads: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    return {name: read() for name, read in reads.items()}
