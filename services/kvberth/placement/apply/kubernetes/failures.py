"""Notes DaemonSets whose controller makes fewer pods than it wants, and when to ask why and to push it. Pure.

A refusal (quota, LimitRange, PodSecurity) leaves no condition on the DaemonSet, and the controller's own back-off grows
to a quarter of an hour: a touch makes it try at once.
"""

from dataclasses import dataclass

from kvberth.placement.apply.kubernetes.kinds import LiveSet

ASK_AFTER_S = 0.5
ASK_EVERY_S = 5.0
TOUCH_EVERY_S = 30.0


@dataclass(slots=True)
class _Behind:
    since_s: float
    touched_s: float


class Failures:
    """By uid."""

    def __init__(self) -> None:
        """Know none."""
        self._behind: dict[str, _Behind] = {}

    def look(self, item: LiveSet, now_s: float) -> float | None:
        """Return for how long a DaemonSet has been behind; None when it is not."""
        status = item.status
        fresh = status.observed_generation >= item.metadata.generation
        if not fresh or status.desired_number_scheduled <= status.current_number_scheduled:
            if fresh:
                self._behind.pop(item.metadata.uid, None)
            return None
        known = self._behind.setdefault(item.metadata.uid, _Behind(now_s, now_s))
        return now_s - known.since_s

    def forget(self, uid: str) -> None:
        """It is gone."""
        self._behind.pop(uid, None)

    def touch(self, uid: str, now_s: float) -> bool:
        """Whether it is to be pushed now; noted as done."""
        known = self._behind[uid]
        if now_s - known.touched_s < TOUCH_EVERY_S:
            return False
        known.touched_s = now_s
        return True
