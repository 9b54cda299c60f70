"""Time spans as scenarios write them, and the one factor by which long ones are shortened. Pure.

The product's long waits stand in `time:` in real units. With a factor below 1 those of a minute or more are shortened,
all by that one factor; a factor that would change the order of any two waits is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LONG_S: Final = 60.0
"""A named wait of at least so many seconds is shortened by the factor."""

PROMISES: Final = {"t_move": "from the binding of an engine until a cache answers beside it"}
"""Bounds that the product promises, by name; how long each is depends on the backend, and no factor shortens it."""

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SPLIT = re.compile(r"\s*([+-])\s*")
_NOT_READY_S: Final = 3.0


class DurationError(ValueError):
    """A text is no time span, or names a wait that the scenario does not name; one sentence."""


def check(text: str) -> None:
    """Raise DurationError unless a text is written as a time span."""
    for term in _terms(text):
        if not _SPAN.fullmatch(term) and not _NAME.fullmatch(term):
            raise DurationError(
                f"'{text}' is no time span; write 5s, 500ms, 2m, 1h, a name from 'time:', or a sum such as "
                "'node_lost + 10s'"
            )


def names_in(text: str) -> set[str]:
    """Give the named waits that a time span uses."""
    return {term for term in _terms(text) if _NAME.fullmatch(term)}


def parse(text: str, named: Mapping[str, float]) -> float:
    """Give the seconds of a time span, never below 0.

    Raises:
        DurationError: it names a wait that is not in ``named``.
    """
    parts = _SPLIT.split(text.strip())
    total = _seconds(parts[0], named)
    for sign, term in zip(parts[1::2], parts[2::2], strict=True):
        total += _seconds(term, named) if sign == "+" else -_seconds(term, named)
    return max(total, 0.0)


@dataclass(frozen=True, slots=True)
class Timing:
    """The named waits of one scenario, as written and as they are run."""

    written: Mapping[str, float] = field(default_factory=dict)
    factor: float = 1.0
    promised: Mapping[str, float] = field(default_factory=dict)
    """PROMISES in seconds, as the backend keeps them."""

    @property
    def named(self) -> dict[str, float]:
        """The waits as they are run, and what is promised, in seconds."""
        return {**self.promised, **{name: self._shortened(value) for name, value in self.written.items()}}

    def seconds(self, text: str) -> float:
        """Give the seconds that a time span lasts in this run."""
        return parse(text, self.named)

    def check_order(self) -> None:
        """Raise DurationError where the factor would change the order of two waits, with one that does not."""
        waits = {"'not ready' (fixed)": _NOT_READY_S, **self.written}
        for longer, long_s in waits.items():
            for shorter, short_s in waits.items():
                if long_s > short_s and self._shortened(long_s) <= self._shortened(short_s):
                    needed = short_s / long_s
                    raise DurationError(
                        f"with the time factor {self.factor:g}, {longer} ({long_s:g} s) would not come after {shorter} "
                        f"({short_s:g} s) any more; the order of waits never changes: use a factor above {needed:.3g}"
                    )

    def sentence(self) -> str:
        """Say what the factor does, for people; empty where it does nothing."""
        changed = [
            f"{name} {value:g} s -> {self._shortened(value):g} s"
            for name, value in self.written.items()
            if self._shortened(value) != value
        ]
        return f"time factor {self.factor:g}: {', '.join(changed)}" if changed else ""

    def _shortened(self, value: float) -> float:
        return value * self.factor if value >= LONG_S else value


def _terms(text: str) -> list[str]:
    return _SPLIT.split(text.strip())[::2]


def _seconds(term: str, named: Mapping[str, float]) -> float:
    match = _SPAN.fullmatch(term)
    if match:
        return float(match[1]) * _UNITS[match[2]]
    if term not in named:
        known = ", ".join(named) or "none"
        raise DurationError(f"'{term}' is no time span and no wait named in 'time:' (named there: {known})")
    return named[term]
