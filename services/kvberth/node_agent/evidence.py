"""Tells whether a missed deadline says anything about the other side, and counts those that don't."""

from kvberth.service import LagWatchdog, Telemetry

MAX_LAG_S = 0.1
"""A loop that ran later than this measured its own delay."""


class Evidence:
    """The judge of missed deadlines of one process."""

    def __init__(self, lag: LagWatchdog, telemetry: Telemetry) -> None:
        self._lag = lag
        self._discarded = telemetry.counter(
            "kvberth.node.agent.deadlines.discarded", "Deadlines missed while our own event loop lagged: no evidence."
        )

    def lag_s(self, seconds: float) -> float:
        """How late our loop was at worst within the last ``seconds``."""
        return self._lag.recent_max_s(seconds)

    def lagged(self, seconds: float) -> bool:
        """Whether a deadline that was missed within the last ``seconds`` counts for nothing, and is counted as such."""
        if self.lag_s(seconds) <= MAX_LAG_S:
            return False
        self._discarded.add(1)
        return True
