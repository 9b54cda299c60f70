"""Puts many names or sentences into one, without growing with the cluster. Pure."""

from collections.abc import Iterable, Sequence

SHOWN = 5
"""Names in one sentence; the rest is a number."""


def some(names: Iterable[str]) -> str:
    """Name the first few, and how many more there are."""
    found = list(names)
    return ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")


def more(sentences: Sequence[str], shown: int = SHOWN) -> tuple[str, ...]:
    """Return the first few sentences, and one that tells how many there are more."""
    rest = (f"and {len(sentences) - shown} more",) if len(sentences) > shown else ()
    return (*sentences[:shown], *rest)
