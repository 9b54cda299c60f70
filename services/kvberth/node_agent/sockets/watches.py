"""Wakes whoever looks after a directory when a socket appears or goes there, or the directory itself goes.

One inotify instance for the whole agent. It is only the fast way: events may be missed, and the kernel may have no
watch left to give, so everybody looks again now and then without being woken.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from asyncinotify import Event, Inotify, Mask

from kvberth.kvcache import SOCKET_NAME

_APPEARS = Mask.CREATE | Mask.MOVED_TO | Mask.ATTRIB
_GOES = Mask.DELETE | Mask.MOVED_FROM
_ITSELF = Mask.DELETE_SELF | Mask.MOVE_SELF
_MASK = _APPEARS | _GOES | _ITSELF | Mask.ONLYDIR | Mask.DONT_FOLLOW

_log = structlog.get_logger(__name__)


class DirectoryWatches:
    """The watches of one agent, by the kernel's descriptors. Made by `open_watches`."""

    def __init__(self, inotify: Inotify | None) -> None:
        self._inotify = inotify
        self._stirs: dict[int, set[asyncio.Event]] = {}

    def add(self, directory: Path, stir: asyncio.Event) -> int | None:
        """Have ``stir`` set on changes in the directory; None where the kernel gives no watch, or it just went."""
        if self._inotify is None:
            return None
        try:
            watch = self._inotify.add_watch(directory, _MASK)
        except OSError as error:
            _log.warning(
                "no inotify watch, so the directory is only looked at now and then",
                directory=str(directory),
                reason=error.strerror,
            )
            return None
        self._stirs.setdefault(watch.wd, set()).add(stir)
        return watch.wd

    def remove(self, descriptor: int, stir: asyncio.Event) -> None:
        """Set ``stir`` no longer; the last one to leave a directory ends its watch."""
        stirs = self._stirs.get(descriptor, set())
        stirs.discard(stir)
        if stirs or self._inotify is None or self._stirs.pop(descriptor, None) is None:
            return
        watch = next((watch for watch in self._inotify.watches if watch.wd == descriptor), None)
        if watch is not None:
            self._inotify.rm_watch(watch)

    async def run(self) -> None:
        """Hand out the kernel's events until cancelled."""
        if self._inotify is None:
            return
        while True:
            self._hand_out(await self._inotify.get())

    def _hand_out(self, event: Event) -> None:
        if Mask.Q_OVERFLOW in event.mask:
            for stir in [stir for stirs in self._stirs.values() for stir in stirs]:
                stir.set()
            return
        watch = event.watch
        if watch is None or not _matters(event):
            return
        for stir in self._stirs.get(watch.wd, ()):
            stir.set()
        if Mask.IGNORED in event.mask:
            self._stirs.pop(watch.wd, None)


def _matters(event: Event) -> bool:
    """Other files come and go in that directory too (locks of clients, say)."""
    if event.name is None:
        return bool(event.mask & (_ITSELF | Mask.IGNORED))
    return event.name.name == SOCKET_NAME


@asynccontextmanager
async def open_watches() -> AsyncIterator[DirectoryWatches]:
    """Open inotify, or do without where the user has no instance left."""
    try:
        inotify = Inotify()
    except OSError as error:
        _log.warning("no inotify, so sockets are found up to a second later", reason=error.strerror)
        yield DirectoryWatches(None)
        return
    with inotify:
        yield DirectoryWatches(inotify)
