"""Which Kubernetes Events are said, and how often: one object per thing that happens again and again. Pure.

As Kubernetes' own recorder does: the first repetition turns an Event into a series, whose count is then written at most
every `series_every_s`. What is not repeated for `remember_s` is forgotten and would be a new Event.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kvberth.kube.settings import RecorderSettings

_NOTE_BYTES = 1024


class EventType(StrEnum):
    """Kubernetes' two kinds."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened. Equal ones are the same thing again."""

    regarding: Regarding
    type: EventType
    reason: str
    """A constant: ``CacheAdded``."""
    action: str
    """What was done or tried: ``Place``."""
    note: str
    """A sentence with names and numbers; cut at 1024 bytes."""


@dataclass(slots=True)
class Series:
    """One Event object: how often its thing happened, and what of that is written."""

    name: str
    first_at: datetime
    last_at: datetime
    count: int = 1
    written: int = 0
    """The count that the API server knows; 0 before the Event exists."""
    due_s: float = 0.0
    attempts: int = 0


@dataclass
class Tally:
    """The Events of one recorder. `now_s` is on any clock that never goes back, `at` the wall clock."""

    settings: RecorderSettings
    _series: "OrderedDict[Occurrence, Series]" = field(default_factory=OrderedDict)
    dropped: int = 0
    """Things that were never written, since too many waited or the server refused too often."""

    def note(self, what: Occurrence, name: str, at: datetime, now_s: float) -> None:
        """Count an occurrence; `name` is the Event's if it is the first. The oldest go when there are too many."""
        known = self._series.get(what)
        if known is not None:
            known.count += 1
            known.last_at = at
            self._series.move_to_end(what)
            return
        self._series[what] = Series(name, at, at, due_s=now_s)
        while len(self._series) > self.settings.capacity:
            _, oldest = self._series.popitem(last=False)
            self.dropped += oldest.count - oldest.written

    def due(self, now_s: float) -> tuple[Occurrence, Series] | None:
        """What to write now."""
        for what, series in self._series.items():
            if series.count > series.written and series.due_s <= now_s:
                return what, series
        return None

    def wait_s(self, now_s: float) -> float | None:
        """Seconds until something is to be written; None when nothing waits."""
        waiting = [series.due_s for series in self._series.values() if series.count > series.written]
        return max(0.0, min(waiting) - now_s) if waiting else None

    def wrote(self, series: Series, count: int, now_s: float) -> None:
        """The server knows `count` of them; the next count waits."""
        series.written, series.attempts = count, 0
        series.due_s = now_s + self.settings.series_every_s
        self._forget(now_s)

    def failed(self, what: Occurrence, series: Series, again_s: float) -> bool:
        """Writing failed; False when it is given up."""
        series.attempts += 1
        series.due_s = again_s
        if series.attempts < self.settings.attempts:
            return True
        self.give_up(what)
        return False

    def give_up(self, what: Occurrence) -> None:
        """Drop what can't be written."""
        series = self._series.pop(what, None)
        if series is not None:
            self.dropped += series.count - series.written

    def renew(self, series: Series, name: str) -> None:
        """The Event vanished from the server (they live an hour): write it as a new one."""
        series.name, series.written, series.first_at = name, 0, series.last_at

    def _forget(self, now_s: float) -> None:
        limit = now_s - self.settings.remember_s + self.settings.series_every_s
        old = [what for what, one in self._series.items() if one.count == one.written and one.due_s < limit]
        for what in old:
            del self._series[what]


def short_note(note: str) -> str:
    """The note within the API's bound."""
    encoded = note.encode()
    if len(encoded) <= _NOTE_BYTES:
        return note
    return encoded[: _NOTE_BYTES - 3].decode("utf-8", "ignore") + "…"
