"""Which states of pods and KVCaches are older than one known before: by their writer's term, then by version. No I/O.

The stream orders the messages of a subject, but a state may be said again long after it was true. Its writer overwrites
that within milliseconds; until then nothing may follow from it.
"""

from collections.abc import Collection

from kvberth_schemas.events import (
    KVCacheGoneV1,
    KVCacheSpecV1,
    PodGoneV1,
    PodReadyV1,
    PodScheduledV1,
    PodWaitingV1,
)
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import EventSubject

_STATES = KVCacheSpecV1 | PodReadyV1 | PodScheduledV1 | PodWaitingV1
_ENDS = KVCacheGoneV1 | PodGoneV1


class Versions:
    """The newest version of each thing, kept beyond its end."""

    def __init__(self) -> None:
        """Know none."""
        self._newest: dict[EventSubject, tuple[str, tuple[int, int]]] = {}
        self.refused = 0
        """How many states were older."""

    def refuses(self, subject: EventSubject, event: Event, term: int) -> bool:
        """Whether a newer version of the same uid is known. A higher term is newer; an end is never refused."""
        if not isinstance(event, _STATES | _ENDS):
            return False
        uid, newest = self._newest.get(subject, (event.uid, (0, 0)))
        version = (term, event.resource_version)
        is_older = uid == event.uid and version < newest
        if is_older and isinstance(event, _STATES):
            self.refused += 1
            return True
        self._newest[subject] = (event.uid, newest if is_older else version)
        return False

    def forget(self, subjects: Collection[EventSubject] | None = None) -> None:
        """Forget some, or all: the stream is another one."""
        for subject in list(self._newest) if subjects is None else subjects:
            self._newest.pop(subject, None)
