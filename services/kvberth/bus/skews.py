"""How far the clocks of others are from one's own. Pure: times are parameters. Nothing is decided by it, only told.

A sign of life is late by what it took to come here, never early. So the greatest of some differences is nearest to the
truth, and one that was held up proves nothing. Those that were held up together, while the reader itself stood still,
prove as little as one: what is heard in one moment counts once.
"""

from collections import deque
from datetime import datetime

from kvberth_schemas.subjects import AliveSubject

TOLD_FROM_S = 2.0
"""Below that, times of two machines can be compared well enough to be read side by side."""
_SAMPLES = 8
_LEAST = 3
_FORGET_S = 15.0
_MOMENT_S = 0.5


class Skews:
    """The last differences of every instance's clock."""

    def __init__(self) -> None:
        """Nobody was heard."""
        self._ahead: dict[AliveSubject, deque[tuple[float, float]]] = {}
        self._heard: dict[AliveSubject, float] = {}

    def hear(self, subject: AliveSubject, said: datetime, received: datetime, now: float) -> None:
        """Take one sign of life: its own time, the reader's time, and the reader's monotonic clock."""
        known, ahead = self._ahead.setdefault(subject, deque(maxlen=_SAMPLES)), (said - received).total_seconds()
        if known and now - known[-1][0] < _MOMENT_S:
            since, greatest = known.pop()
            known.append((since, max(greatest, ahead)))
        else:
            known.append((now, ahead))
        self._heard[subject] = now

    def forget(self, now: float) -> None:
        """Drop who is silent."""
        for subject in [subject for subject, heard in self._heard.items() if now - heard > _FORGET_S]:
            del self._heard[subject], self._ahead[subject]

    def told(self) -> dict[AliveSubject, float]:
        """Seconds by which a clock is ahead of the reader's (behind: below 0), of all that are far off."""
        enough = {subject: known for subject, known in self._ahead.items() if len(known) >= _LEAST}
        known = {subject: max(ahead for _, ahead in samples) for subject, samples in enough.items()}
        return {subject: skew for subject, skew in known.items() if abs(skew) >= TOLD_FROM_S}


def sentence(subject: AliveSubject, ahead_s: float) -> str:
    """Tell of one skew."""
    place = f" on {subject.node}" if subject.node else ""
    direction = "ahead of" if ahead_s > 0 else "behind"
    return (
        f"the clock of {subject.service}{place} ({subject.instance}) is {abs(ahead_s):.0f} s {direction} this one's: "
        "the times that it writes are off by that, though nothing is decided by them"
    )
