"""The present objects of one kind, and what changes when a frame or a whole list comes in. Pure.

The same frames in any repetition lead to the same objects; a re-created object is the end of one and the beginning of
another.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Generic, TypeVar

from kvberth.kube.kinds import FrameType, Seen
from kvberth.kube.objects import Entry, Key, Unreadable

T = TypeVar("T")


class Verb(StrEnum):
    """What happened to an object."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    UNREADABLE = "unreadable"
    """It is there, but what it says can't be read: `now` is None, `before` what was known."""
    RESYNC = "resync"
    """Nothing happened; look again."""


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One change of one object."""

    verb: Verb
    key: Key
    now: Entry[T] | None
    before: Entry[T] | None


class Store(Generic[T]):
    """All objects of a kind as far as they were told."""

    def __init__(self) -> None:
        """Empty until the first list."""
        self._entries: dict[Key, Entry[T]] = {}
        self._unreadable: dict[Key, Unreadable] = {}

    @property
    def entries(self) -> Mapping[Key, Entry[T]]:
        """The readable ones; a live view."""
        return MappingProxyType(self._entries)

    @property
    def unreadable(self) -> Mapping[Key, Unreadable]:
        """Those that are there and can't be read."""
        return MappingProxyType(self._unreadable)

    def take(self, seen: Seen[T]) -> list[Change[T]]:
        """Take a frame; nothing changes when it is older than, or the same as, what is known."""
        item = seen.item
        known = self._known(item.key)
        if known is not None and not _newer(item, known):
            return []
        if seen.type is not FrameType.DELETED:
            return self._put(item)
        if known is None or known.uid != item.uid:
            return []
        return [self._drop(item.key)]

    def replace(self, items: list[Entry[T] | Unreadable]) -> list[Change[T]]:
        """Take a whole list: what vanished is deleted, what kept its version is not told again."""
        listed = {item.key for item in items}
        vanished = [key for key in (*self._entries, *self._unreadable) if key not in listed]
        changes = [self._drop(key) for key in vanished]
        for item in items:
            known = self._known(item.key)
            if known is None or (known.uid, known.resource_version) != (item.uid, item.resource_version):
                changes += self._put(item)
        return changes

    def resync(self) -> Iterator[Change[T]]:
        """Tell every object again."""
        for key, entry in list(self._entries.items()):
            yield Change(Verb.RESYNC, key, entry, entry)

    def _known(self, key: Key) -> Entry[T] | Unreadable | None:
        return self._entries.get(key) or self._unreadable.get(key)

    def _put(self, item: Entry[T] | Unreadable) -> list[Change[T]]:
        known = self._known(item.key)
        changes = [self._drop(item.key)] if known is not None and known.uid != item.uid else []
        before = self._entries.get(item.key)
        if isinstance(item, Unreadable):
            self._entries.pop(item.key, None)
            self._unreadable[item.key] = item
            return [*changes, Change(Verb.UNREADABLE, item.key, None, before)]
        self._unreadable.pop(item.key, None)
        self._entries[item.key] = item
        return [*changes, Change(Verb.MODIFIED if before else Verb.ADDED, item.key, item, before)]

    def _drop(self, key: Key) -> Change[T]:
        self._unreadable.pop(key, None)
        return Change(Verb.DELETED, key, None, self._entries.pop(key, None))


def _newer(item: Entry[T] | Unreadable, known: Entry[T] | Unreadable) -> bool:
    """Versions are numbers that grow; where they are not, the stream's order counts."""
    told, had = item.resource_version, known.resource_version
    if told.isdigit() and had.isdigit():
        return int(told) > int(had)
    return told != had or item.uid != known.uid
