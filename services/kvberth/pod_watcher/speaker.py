"""Says on the bus what the index has to say, and only what changed."""

import asyncio
from collections.abc import Mapping

import structlog

from kvberth.bus import BusError, Row, Writer
from kvberth.pod_watcher.index import Index
from kvberth.service import Telemetry
from kvberth_schemas.events import KVCacheGoneV1, KVCacheSpecV1, NodeChangedV1, PodGoneV1, PodState
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import EventSubject

_AT_ONCE = 200  # then the loop has its turn

_log = structlog.stdlib.get_logger(__name__)


class Speaker:
    """The voice of the active replica."""

    def __init__(self, index: Index, said: Mapping[EventSubject, Event], telemetry: Telemetry) -> None:
        """`said` is what the stream holds: a thing that is the same but for its resource version is not said again."""
        self._index = index
        self._said = {subject: event for subject, event in said.items() if index.is_there(subject)}
        self._published = telemetry.counter("kvberth.pod.watcher.published", "Events said, by type.")
        self._refused = telemetry.counter("kvberth.pod.watcher.refused", "Events too large for the bus, by type.")
        for subject, event in said.items():
            index.remember(subject, event)

    async def speak(self, writer: Writer) -> None:
        """Say everything that changed since the last time."""
        while touched := self._index.take_touched(_AT_ONCE):
            for subject in touched:
                self._say(writer, subject)
            await asyncio.sleep(0)

    def gone(self, row: Row) -> Event | None:
        """Return the end of what the stream has and nobody put."""
        if not isinstance(row.subject, EventSubject) or not isinstance(row.message, Event):
            return None
        event = self._index.gone(row.subject, row.message)
        if event is not None:
            self._published.add(1, {"type": event.ce_type})
        return event

    def _say(self, writer: Writer, subject: EventSubject) -> None:
        event = self._index.event(subject)
        if event is None:
            self._forget(writer, subject)
            return
        before = self._said.get(subject)
        said = before if before is not None and only_version_differs(before, event) else event
        try:
            writer.put(subject, said)
        except BusError as error:
            self._refused.add(1, {"type": said.ce_type})
            _log.error("not said, so what was said before stays", subject=str(subject), why=str(error))
            return
        if said is not before:
            self._said[subject] = said
            self._published.add(1, {"type": said.ce_type})

    def _forget(self, writer: Writer, subject: EventSubject) -> None:
        """Desire nothing of what faded from memory; what is only held back stays as it was said."""
        if self._index.is_there(subject):
            return
        writer.forget(subject)
        self._said.pop(subject, None)


def only_version_differs(before: Event, event: Event) -> bool:
    """Whether nothing but the resource version differs: much of an object is none of our business."""
    versioned = PodState | NodeChangedV1 | KVCacheSpecV1 | PodGoneV1 | KVCacheGoneV1
    if isinstance(event, versioned) and isinstance(before, versioned):
        event = event.model_copy(update={"resource_version": before.resource_version})
    return type(before) is type(event) and before == event
