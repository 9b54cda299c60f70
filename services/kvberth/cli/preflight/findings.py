"""What a check says, and what all of them together mean for the install. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Level(StrEnum):
    """How a check went; its value is what is printed."""

    OK = "OK"
    WARNING = "WARNING"
    REFUSED = "REFUSED"
    UNKNOWN = "UNKNOWN"
    """The cluster did not answer, or may not be asked by this account."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what it looked at, how it went, why, and what to do about it."""

    check: str
    level: Level
    sentence: str
    remedy: str = ""


EXIT_REFUSED: Final = 1
EXIT_UNKNOWN: Final = 2


def exit_status(findings: Sequence[Finding]) -> int:
    """0: install it. 1: something stands against it. 2: nothing found against it, but not all could be asked."""
    levels = {finding.level for finding in findings}
    if Level.REFUSED in levels:
        return EXIT_REFUSED
    return EXIT_UNKNOWN if Level.UNKNOWN in levels else 0


def few(names: Sequence[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
