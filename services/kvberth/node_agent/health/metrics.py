"""What an agent measures of its proofs."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from kvberth.node_agent.health.verdict import Observation, Proven, Standing
from kvberth.service import Telemetry
from kvberth_schemas.events import HealthReason, Verdict


class ProofMetrics:
    """Counts observations and changes, and shows what stands of each cache."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._seconds = telemetry.histogram("kvberth.node.agent.proof", "Time of a proof whose bytes came back.")
        self._probes = telemetry.counter("kvberth.node.agent.probes", "Proofs that were tried, by what was seen.")
        self._changes = telemetry.counter("kvberth.node.agent.health.changes", "What was said of health.")

    def observe(self, seen: Observation) -> None:
        """Count one look."""
        self._probes.add(1, {"seen": type(seen).__name__.lower()})
        if isinstance(seen, Proven):
            self._seconds.record(seen.round_trip_s)

    def count(self, verdict: Verdict, reason: HealthReason) -> None:
        """Count one event."""
        self._changes.add(1, {"verdict": verdict.value, "reason": reason.value})

    def follow(self, standings: Callable[[], Mapping[str, Standing]]) -> None:
        """Show at each scrape which caches are healthy, and how old their last proofs are."""
        self._telemetry.observe_each(
            "kvberth.node.agent.cache.healthy",
            "Whether bytes went in and came back: 1 yes, 0 no or unknown.",
            "cache",
            lambda: {name: float(_is_healthy(standing)) for name, standing in standings().items()},
        )
        self._telemetry.observe_each(
            "kvberth.node.agent.proof.age",
            "Time since bytes last came back.",
            "cache",
            lambda: _ages(standings(), datetime.now(UTC)),
            "s",
        )


def _is_healthy(standing: Standing) -> bool:
    return standing.said is not None and standing.said.verdict is Verdict.HEALTHY


def _ages(standings: Mapping[str, Standing], now: datetime) -> dict[str, float]:
    proofs = {name: standing.proof for name, standing in standings.items()}
    return {name: (now - proof).total_seconds() for name, proof in proofs.items() if proof is not None}
