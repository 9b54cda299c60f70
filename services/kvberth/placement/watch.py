"""Follows the bus for placement: keeps the index in step with the views, and tells whose word counts."""

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from kvberth.bus import Liveness, Row, View
from kvberth.placement import facts
from kvberth.placement.means import Means
from kvberth.placement.observe import Index
from kvberth.placement.snapshot import Freshness
from kvberth_schemas.events import KVCacheStatusV1
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import Entity, EventSubject, Service

_SURE_S = 5.0
"""Longer than a sign of life counts: who counts so long after the stream was read has spoken since."""
_LOOK_S = 5.0  # at view and liveness, if they never say that they changed


class Watch:
    """The view of all states, as an index that is up to date whenever `refresh` was called."""

    def __init__(self, view: View, liveness: Liveness, index: Index, means: Means, woken: asyncio.Event) -> None:
        """Rows reach the index as they arrive; `woken` is set whenever there is something to look at."""
        self._children, self._source = means.backend.blind, means.source
        self._view = view
        self._liveness = liveness
        self.index = index
        self._seen: tuple[int, bool] = (0, False)
        self._freshness = Freshness("nothing was read yet", frozenset(), frozenset())
        self._silent: dict[str, datetime] = {}
        self._whole_s = time.monotonic()
        self.woken = woken
        view.add_listener(self._take)

    async def follow_view(self) -> None:
        """Wake whoever waits, at every change of the view."""
        while True:
            if await self._view.changed(_LOOK_S):
                self.woken.set()

    async def follow_liveness(self) -> None:
        """Wake whoever waits, whenever somebody's word begins or ceases to count."""
        while True:
            if await self._liveness.changed(_LOOK_S):
                self.woken.set()

    @property
    def whole(self) -> bool:
        """Whether the stream was read whole."""
        return self._view.complete

    def refresh(self) -> Freshness:
        """Bring the index in step, and return whose word counts now."""
        now = (self._view.generation, self._view.complete)
        if now != self._seen:
            if self._view.complete:
                self._reread()
            self.index.touch_all()
            self._seen = now
        if self._view.complete:
            self._whole_s = time.monotonic()
        if self._view.complete and self.index.known > len(self._view.rows) + len(self._view.unreadable):
            self.index.forget_missing(self._view.rows.keys() | self._view.unreadable.keys())
        unreadable = {item: why for item, why in self._view.unreadable.items() if isinstance(item, EventSubject)}
        self.index.set_unreadable({item: why for item, why in unreadable.items() if self._has_a_writer(item)})
        freshness = self._read_freshness()
        if freshness != self._freshness:
            self._freshness = freshness
            self.index.touch_all()
        return freshness

    def statuses(self) -> dict[tuple[str, str], KVCacheStatusV1]:
        """Return the statuses that the stream holds, by namespace and name."""
        return {
            (row.message.namespace, row.message.name): row.message
            for row in self._view.rows.values()
            if isinstance(row.message, KVCacheStatusV1)
        }

    def _reread(self) -> None:
        """Take everything anew: a view that was opened again may hold less than before, under other sequences."""
        self.index.forget_events(time.monotonic() - self._whole_s + _SURE_S)
        for row in self._view.rows.values():
            self._take(row)

    def _take(self, row: Row) -> None:
        subject, message = row.subject, row.message
        if not isinstance(subject, EventSubject) or not isinstance(message, Event) or subject.entity is Entity.STATUS:
            return
        if not self._has_a_writer(subject):
            return
        heard_s = asyncio.get_running_loop().time()
        self.index.take(subject, message, facts.cause_of(row.envelope, row.sequence, heard_s), row.term)

    def _has_a_writer(self, subject: EventSubject) -> bool:
        """Only runners tell of processes: without any, such a word is a stranger's, and nobody takes it back."""
        return subject.entity is not Entity.PROCESS or self._source is not Service.POD_WATCHER

    def _read_freshness(self) -> Freshness:
        stale = None
        if not self._view.complete:
            stale = "the stream of events is not read whole, so pods, nodes and KVCaches are unknown"
        elif not self._liveness.fresh(self._source):
            stale = f"the {self._source} is silent, so pods, nodes and KVCaches are unknown"
        else:
            stale = self._children()
        agents = self._fresh_nodes(Service.NODE_AGENT)
        return Freshness(stale, self._speaking_nodes(), agents, self._silences(agents))

    def _silences(self, fresh: frozenset[str]) -> Mapping[str, datetime]:
        """When each silent agent was heard last: noted once, as it falls silent, so that it is no news again."""
        silent = self._liveness.nodes(Service.NODE_AGENT) - fresh
        for node in self._silent.keys() - silent:
            del self._silent[node]
        for node in silent - self._silent.keys():
            age_s = self._liveness.age_s(Service.NODE_AGENT, node)
            if age_s is not None:
                self._silent[node] = datetime.now(UTC) - timedelta(seconds=age_s)
        return dict(self._silent)

    def _speaking_nodes(self) -> frozenset[str]:
        """Nodes of which it is known what runs there: pod_watcher's word is about the pods of all of them."""
        if self._source is Service.POD_WATCHER:
            return self.index.nodes if self._liveness.fresh(self._source) else frozenset()
        return self._fresh_nodes(Service.RUNNER)

    def _fresh_nodes(self, service: Service) -> frozenset[str]:
        nodes = self._liveness.nodes(service)
        return frozenset(node for node in nodes if self._liveness.fresh(service, node))
