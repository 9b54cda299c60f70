"""How long to wait before trying again: decorrelated jitter. Pure; time and randomness are given."""

from random import Random

from kvberth.kube.settings import BackoffSettings


class Pace:
    """Each wait is drawn between `first_s` and three times the last one; a good while makes it short again."""

    def __init__(self, settings: BackoffSettings, random: Random) -> None:
        """Start with the shortest waits."""
        self._settings, self._random = settings, random
        self._last_s = settings.first_s

    def wait_s(self, good_s: float = 0.0, asked_s: float | None = None) -> float:
        """Seconds to wait now. `good_s`: how long all went well before; `asked_s`: what the server asked for."""
        if good_s >= self._settings.forget_after_s:
            self.reset()
        drawn = self._random.uniform(self._settings.first_s, self._last_s * 3)
        self._last_s = min(self._settings.most_s, drawn)
        return max(self._last_s, asked_s or 0.0)

    def reset(self) -> None:
        """Forget the failures."""
        self._last_s = self._settings.first_s
