"""Decides whether storing blocks pays: what it costs, against what loads instead of computing save later. Pure.

Times are seconds for a block, measured by whoever calls. Nothing is shed until the engine has said what computing one
costs. While blocks are shed some are let in all the same, so that the times stay true; how often blocks are loaded is
counted over what was stored before.
"""

from dataclasses import dataclass

_WEIGHT = 0.05
"""Of one more block in a moving average; a group weighs as its blocks together."""
_PRIOR = 64
"""Blocks that count as stored and loaded once before any was: a new engine has the benefit of the doubt."""
_REMEMBERED = 4096
"""After so many stored blocks what came before counts half."""
_AGAIN = 0.8
"""Storing begins again when it costs at most this part of what it saves: else it would go on and off all the time."""
_SAMPLE = 32
"""One block of so many is let in while the others are shed."""


@dataclass(slots=True)
class Average:
    """A moving average over blocks; None before the first."""

    value: float | None = None

    def take(self, seconds: float, blocks: int) -> None:
        """Notes so many blocks that took so long together."""
        if blocks <= 0:
            return
        each, weight = seconds / blocks, 1 - (1 - _WEIGHT) ** blocks
        self.value = each if self.value is None else self.value + weight * (each - self.value)


class Governor:
    """The measures of one engine, and the verdict. Not for several threads at once."""

    def __init__(self, *, on: bool = True) -> None:
        """Not `on`: nothing is ever shed."""
        self._on = on
        self._computing, self._storing, self._loading = Average(), Average(), Average()
        self._stored = self._loaded = float(_PRIOR)
        self._shedding = False
        self._credit = 0.0

    def computed(self, blocks: int, seconds: float) -> None:
        """The engine computed blocks."""
        self._computing.take(seconds, blocks)
        self._judge()

    def stored(self, blocks: int, seconds: float) -> None:
        """Blocks were copied into the store."""
        self._storing.take(seconds, blocks)
        if not self._shedding:  # of what is let in meanwhile most is never found: what comes before it was shed
            self._stored += blocks
        if self._stored > _REMEMBERED:
            self._stored, self._loaded = self._stored / 2, self._loaded / 2
        self._judge()

    def loaded(self, blocks: int, seconds: float) -> None:
        """Blocks were looked up and copied back."""
        self._loading.take(seconds, blocks)
        self._loaded += blocks
        self._judge()

    @property
    def reuse(self) -> float:
        """How often a stored block is loaded."""
        return self._loaded / self._stored

    @property
    def saved(self) -> float | None:
        """Seconds that a stored block saves later; None: not known."""
        if self._computing.value is None:
            return None
        return self.reuse * (self._computing.value - (self._loading.value or 0.0))

    @property
    def why(self) -> str | None:
        """Why blocks are shed at this moment, in a sentence; None: they are not."""
        if not self._shedding:
            return None
        store, saved = (self._storing.value or 0.0) * 1e6, (self.saved or 0.0) * 1e6
        return f"Storing a block takes {store:.0f} us and saves {saved:.0f}: it is loaded {self.reuse:.2g} times."

    def sheds(self, blocks: int) -> bool:
        """Whether so many blocks, offered together, are shed."""
        if not self._shedding:
            return False
        self._credit += blocks / _SAMPLE
        if self._credit < blocks:
            return True
        self._credit -= blocks  # what is left is less than the largest offer so far
        return False

    def _judge(self) -> None:
        saved, cost = self.saved, self._storing.value
        if not self._on or saved is None or cost is None:
            return
        self._shedding = cost > (saved * _AGAIN if self._shedding else saved)
