"""Which subjects a pattern covers, and which stream holds them. Pure."""

from collections.abc import Sequence

from kvberth.bus.errors import NotOurs
from kvberth_schemas.subjects import EVENTS_PATTERN, EVENTS_STREAM, WANTS_PATTERN, WANTS_STREAM


def covers(pattern: str, subject: str) -> bool:
    """Whether a NATS pattern (`*` one token, `>` the rest) covers a subject."""
    wanted, present = pattern.split("."), subject.split(".")
    for index, part in enumerate(wanted):
        if part == ">":
            return len(present) > index
        if index >= len(present) or part not in ("*", present[index]):
            return False
    return len(present) == len(wanted)


def stream_of(patterns: Sequence[str]) -> str:
    """The one stream that holds all of the patterns.

    Raises:
        NotOurs: there is none.
    """
    for stream, whole in ((EVENTS_STREAM, EVENTS_PATTERN), (WANTS_STREAM, WANTS_PATTERN)):
        prefix = whole.removesuffix(">")
        if patterns and all(pattern.startswith(prefix) for pattern in patterns):
            return stream
    raise NotOurs(f"the patterns {list(patterns)} lie in no one stream; they would all be events or all be wants")
