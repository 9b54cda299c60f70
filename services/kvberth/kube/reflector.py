"""Keeps a picture of all objects of a kind: lists once, then follows, for ever, whatever the network does.

Owns the reading; decides nothing about the objects. Listeners are called on the loop, in order, and must be quick:
they put keys into a queue.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Generic, TypeVar

import structlog

from kvberth.kube.client import Call, Client, Read
from kvberth.kube.endings import CLEAN, SILENT, Ending, Next, ending_of, ending_of_fault
from kvberth.kube.errors import DeadlinePassed, Expired, KubeError, Unreachable
from kvberth.kube.kinds import Bookmark, Fault, Kind, Malformed
from kvberth.kube.lines import Lines
from kvberth.kube.listing import Paging, Selection, list_all
from kvberth.kube.metrics import Metrics
from kvberth.kube.objects import Entry, Key, Unreadable
from kvberth.kube.pace import Pace
from kvberth.kube.refusals import refusal_of
from kvberth.kube.settings import ReflectorSettings
from kvberth.kube.store import Change, Store, Verb

T = TypeVar("T")

_LIST_RESTARTS = 3  # in one go; afterwards with a back-off

_log = structlog.get_logger(__name__)


class Reflector(Generic[T]):
    """The present objects of one kind. `run()` in a task group of the owner keeps them true."""

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        selection: Selection | None = None,
        settings: ReflectorSettings | None = None,
        *,
        metrics: Metrics | None = None,
        random: Random | None = None,
    ) -> None:
        """Nothing is asked before `run()`."""
        self._client, self._kind = client, kind
        self._selection = selection or Selection()
        self._settings = settings or ReflectorSettings()
        self._metrics = metrics or Metrics()
        self._random = random or Random()  # noqa: S311 - spreads load, guards nothing
        self._paging = Paging(size=self._settings.page_size, page_s=self._settings.page_s)
        self._pace = Pace(self._settings.backoff, self._random)
        self._store: Store[T] = Store()
        self._listeners: list[Callable[[Change[T]], None]] = []
        self._version: str | None = None
        self._synced = asyncio.Event()
        self._live = False
        self._heard = self._began = self._opened = time.monotonic()
        self._metrics.age_of(kind.resource.plural, lambda: self.age_s)
        self.trouble = ""
        """Why the picture is not live, in a sentence; empty while it is."""

    @property
    def entries(self) -> Mapping[Key, Entry[T]]:
        """The objects; a live view, complete only while `live`."""
        return self._store.entries

    @property
    def unreadable(self) -> Mapping[Key, Unreadable]:
        """Objects that are there and do not fit the model: unknown, never absent."""
        return self._store.unreadable

    @property
    def synced(self) -> bool:
        """Whether the first list was read."""
        return self._synced.is_set()

    @property
    def live(self) -> bool:
        """Whether the picture is followed now: listed, the watch open, and heard within the silence deadline."""
        return self._live and self.age_s <= self._settings.silence_s

    @property
    def age_s(self) -> float:
        """Seconds since the server last said anything about this kind, bookmarks included."""
        return time.monotonic() - self._heard

    def add_listener(self, listener: Callable[[Change[T]], None]) -> None:
        """Have every change told from now on; an error of the listener ends `run()`."""
        self._listeners.append(listener)

    async def wait_synced(self, timeout_s: float) -> bool:
        """Wait for the first list; False when it did not come in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """List and watch until cancelled; no answer of the server and no loss of the network ends it."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._resync())
                group.create_task(self._follow())
        finally:
            self._live = False

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._settings.resync_s * self._random.uniform(0.9, 1.1))
            self._tell(self._store.resync())

    async def _follow(self) -> None:
        while True:
            ending, good_s = await self._once()
            if ending.next is Next.RELIST:
                self._version = None
            self._metrics.count("watch_ends", resource=self._plural, reason=ending.word)
            if ending.next is not Next.RESUME:
                self._fail(ending)
            await asyncio.sleep(self._wait_s(ending, good_s))

    async def _once(self) -> tuple[Ending, float]:
        """One list where it is needed, and one watch: how it ended, and for how long all went well."""
        self._began = time.monotonic()
        opened: float | None = None
        try:
            version = self._version or await self._list()
            self._began = time.monotonic()
            times = self._settings.page_s, self._settings.silence_s
            async with self._client.stream(self._watch_call(version), *times) as read:
                opened = time.monotonic()
                self._succeed()
                ending = await self._read(read)
        except (KubeError, Malformed) as error:
            ending = SILENT if opened and isinstance(error, DeadlinePassed) else ending_of(error)
        return ending, time.monotonic() - opened if opened else 0.0

    def _wait_s(self, ending: Ending, good_s: float) -> float:
        if ending.next is Next.RESUME:
            return max(0.0, self._began + self._settings.floor_s - time.monotonic())
        return self._pace.wait_s(good_s, ending.asked_s)

    async def _list(self) -> str:
        """Read all pages; a token that got too old begins anew, the store keeps the old picture until the end."""
        for restarts in range(_LIST_RESTARTS + 1):
            try:
                version, items = await list_all(self._client, self._kind, self._selection, self._paging, self._hear)
            except Expired:
                if restarts == _LIST_RESTARTS:
                    raise
                self._metrics.count("list_restarts", resource=self._plural)
            else:
                break
        self._version = version
        self._tell(self._store.replace(items))
        self._metrics.count("lists", resource=self._plural)
        self._synced.set()
        return version

    async def _read(self, read: Read) -> Ending:
        lines = Lines(self._settings.max_frame_bytes)
        while piece := await read():
            self._hear()
            for line in lines.feed(piece):
                ending = self._take(line)
                if ending is not None:
                    return ending
            await asyncio.sleep(0)  # a flood of frames must not hold the loop
        if lines.unfinished:
            raise Unreachable(f"watch of {self._kind.resource.kind} ended within a frame")
        return CLEAN

    def _take(self, line: bytes) -> Ending | None:
        frame = self._kind.read_frame(line)
        if isinstance(frame, Fault):
            return ending_of_fault(refusal_of(f"watch of {self._kind.resource.kind}", frame.status, frame.told))
        if isinstance(frame, Bookmark):
            self._version = frame.resource_version
            return None
        self._tell(self._store.take(frame))
        self._version = frame.item.resource_version or self._version
        return None

    def _tell(self, changes: Iterable[Change[T]]) -> None:
        told: Counter[Verb] = Counter()
        for change in changes:
            told[change.verb] += 1
            if change.verb is Verb.UNREADABLE:
                _log.warning("object can't be read", object=str(change.key), why=self.unreadable[change.key].why)
            for listener in self._listeners:
                listener(change)
        for verb, amount in told.items():
            self._metrics.count("changes", amount, resource=self._plural, verb=verb)

    def _hear(self) -> None:
        self._heard = time.monotonic()

    def _succeed(self) -> None:
        self._hear()
        if not self._live:
            _log.info("watch is open", resource=self._plural, objects=len(self.entries))
        self._live, self.trouble = True, ""

    def _fail(self, ending: Ending) -> None:
        self._live, self.trouble = False, ending.sentence
        _log.warning("watch ended", resource=self._plural, reason=ending.word, why=ending.sentence)

    def _watch_call(self, version: str) -> Call:
        seconds = self._random.randint(self._settings.watch_least_s, self._settings.watch_most_s)
        query = (
            ("watch", "true"),
            ("resourceVersion", version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(seconds)),
        )
        return self._selection.call("watch", self._kind.resource, query)

    @property
    def _plural(self) -> str:
        return self._kind.resource.plural
