"""The sign of life that every writer gives each second on plain NATS (not stored)."""

from pydantic import AwareDatetime

from kvberth_schemas.model import Message

ALIVE_PERIOD_S = 1.0
"""How often a writer says that it is alive."""

FRESH_FOR_S = 4.5
"""How long a writer's word counts after its last complete sign of life, by the reader's own monotonic clock.

Somewhat less than the 5 s within which a reader has to say that it is unknown: it must notice and say it, too.
"""


class Alive(Message):
    """One sign of life: everything the instance said up to here is acknowledged by the stream."""

    term: int
    complete: bool
    """Whether the stream holds the last state of all its subjects."""
    stream_created: AwareDatetime | None
    """Creation time of ``KVBERTH_EVENTS`` as the writer knows it; None while it knows no stream."""
    said: AwareDatetime | None = None
    """When, by the writer's own clock: shows how far that is off, and decides nothing. None: an older version."""
