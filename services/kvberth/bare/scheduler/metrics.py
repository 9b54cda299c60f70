"""What the scheduler counts of its work: bindings, refusals, and what waits or is lost at this moment."""

from collections.abc import Callable, Iterable

from kvberth.bare.scheduler.state import State
from kvberth.service import Telemetry
from kvberth_schemas.requests import Outcome, Result
from kvberth_schemas.subjects import Verb


class SchedulerMetrics:
    """The scheduler's counters and gauges."""

    def __init__(self, telemetry: Telemetry) -> None:
        """Register the counters."""
        self._telemetry = telemetry
        self._bindings = telemetry.counter("kvberth.scheduler.bindings", "Engine replicas that were bound to a node.")
        self._refused = telemetry.counter("kvberth.scheduler.refused.requests", "Requests that were refused, by verb.")

    def observe(self, state: Callable[[], State], not_ready: Callable[[], int]) -> None:
        """Register the gauges, which are read at each scrape."""
        self._telemetry.observe(
            "kvberth.scheduler.waiting.replicas", "Engine replicas without a node.", lambda: float(waiting(state()))
        )
        self._telemetry.observe(
            "kvberth.scheduler.not.ready.nodes",
            "Nodes whose runner gives no sign of life.",
            lambda: float(not_ready()),
        )

    def count_bindings(self, before: State, after: State) -> None:
        """Count the replicas that were bound between two states."""
        number = bindings(before, after)
        if number:
            self._bindings.add(number)

    def count_refusals(self, verb: Verb, results: Iterable[Result]) -> None:
        """Count a request once, if any of its results is a refusal."""
        if any(result.outcome is Outcome.REFUSED for result in results):
            self._refused.add(1, {"verb": str(verb)})


def bindings(before: State, after: State) -> int:
    """Return how many replicas were bound between two states; those taken over from the bus were bound before."""
    if before.pods is after.pods:
        return 0
    return sum(
        pod.node is not None and not pod.adopted and (uid not in before.pods or before.pods[uid].node is None)
        for uid, pod in after.pods.items()
    )


def waiting(state: State) -> int:
    """Return how many wanted replicas have no node."""
    return sum(pod.active and pod.node is None for pod in state.pods.values())
