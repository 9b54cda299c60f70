"""Which taints a pod tolerates, and for how long. Pure.

Kubernetes counts the shortest of all tolerations that match a taint, so one that another covers must be left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tolerated:
    """A toleration; `key` None tolerates everything, `seconds` None without an end."""

    key: str | None
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    def covers(self, other: "Tolerated") -> bool:
        """Whether it tolerates all that another does, and no shorter."""
        wide = self.operator == "Exists" or (self.operator, self.value) == (other.operator, other.value)
        long = self.seconds is None or (other.seconds is not None and self.seconds >= other.seconds)
        return self.key == other.key and wide and self.effect in {"", other.effect} and long


def widest(tolerations: Iterable[Tolerated]) -> frozenset[Tolerated]:
    """Return those that no other covers."""
    every = frozenset(tolerations)
    return frozenset(item for item in every if not any(other.covers(item) for other in every - {item}))
