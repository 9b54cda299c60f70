"""Says on the bus what the scheduler remembers. Only what is stored is said, and only what changed is encoded again."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import structlog

from kvberth.bare.scheduler.lifecycle import Evidence, caches_on
from kvberth.bare.scheduler.messages import engine_want, node_event, pod_event, spec_event
from kvberth.bare.scheduler.records import ManifestRecord, PodRecord, Record
from kvberth.bare.scheduler.state import State
from kvberth.bare.scheduler.turn import Limits, Seen, is_ready, requested_on
from kvberth.bus import BusError, BusTimeout, Writer
from kvberth_schemas import subjects
from kvberth_schemas.events import NodeChangedV1, NodeGoneV1, ProcessEndedV1
from kvberth_schemas.subjects import EventSubject, WantKind, WantSubject

PURGE_AGAIN_S = 120.0
"""Runners read the wants anew every 30 s; who answers to a purged one after that has seen it come back."""

_log = structlog.stdlib.get_logger(__name__)


class Publisher:
    """Puts pods, nodes and specs to one writer, and engine wants to the other."""

    def __init__(
        self,
        facts: Writer,
        wants: Writer,
        term: int,
        next_version: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`next_version` gives the resource version of a node that changed, `clock` seconds."""
        self._clock = clock
        self._facts = facts
        self._wants = wants
        self._term = term
        self._next_version = next_version
        self._said: dict[EventSubject, Record] = {}
        self._nodes: dict[str, NodeChangedV1] = {}
        self._purged: dict[str, float] = {}  # when, by the uid of a pod that is remembered
        self._to_purge: asyncio.Queue[WantSubject] = asyncio.Queue()  # bounded: each want is in it once at most
        self._unsaid: dict[EventSubject, str] = {}

    @property
    def deposed(self) -> bool:
        """Whether another scheduler with a higher term has spoken: this one says nothing more."""
        return self._facts.deposed or self._wants.deposed

    @property
    def fault(self) -> str | None:
        """Why something that is stored can't be said, or None."""
        return next(iter(self._unsaid.values()), None)

    def publish(self, state: State, seen: Seen, limits: Limits, causes: Mapping[str, Evidence]) -> None:
        """Say what differs from what was said before; never blocks, and never fails: all of it is stored already."""
        self._say_nodes(state, seen, limits)
        present: dict[EventSubject, Record] = {}
        for manifest in state.manifests.values():
            if manifest.kind == "KVCache":
                present[subjects.spec(manifest.namespace, manifest.name)] = manifest
        for pod in state.pods.values():
            present[subjects.pod(pod.namespace, pod.uid)] = pod
        for subject, record in present.items():
            if self._said.get(subject) is not record:
                with self._saying(subject):
                    self._say(subject, record, causes)
        for subject in self._said.keys() - present.keys():
            self._facts.forget(subject)
            self._unsaid.pop(subject, None)
        self._said = present
        self._purge_again(state, seen)

    async def purge(self) -> None:
        """Remove the wants of what has ended from the stream, one after the other, until cancelled."""
        while True:
            subject = await self._to_purge.get()
            try:
                await self._wants.purge(subject)
            except BusTimeout as error:
                _log.warning("the want of an engine that ended is still there", error=str(error))
                self._to_purge.put_nowait(subject)

    @contextmanager
    def _saying(self, subject: EventSubject) -> Iterator[None]:
        """Note why a thing can't be said (it is too large for the bus): that holds up nothing else."""
        try:
            yield
        except BusError as error:
            self._unsaid[subject] = f"{subject} is stored but can't be said on the bus: {error}."
            _log.error(self._unsaid[subject])
        else:
            self._unsaid.pop(subject, None)

    def _say(self, subject: EventSubject, record: Record, causes: Mapping[str, Evidence]) -> None:
        if isinstance(record, ManifestRecord):
            self._facts.put(subject, spec_event(record))
        if isinstance(record, PodRecord):
            cause = causes.get(record.uid)
            event_id = self._facts.put(
                subject,
                pod_event(record),
                cause=cause.id if cause else None,
                traceparent=cause.traceparent if cause else None,
            )
            self._want(record, event_id, cause.traceparent if cause else None)

    def _want(self, pod: PodRecord, cause: str, traceparent: str | None) -> None:
        if pod.node is None:
            return
        subject = subjects.want(WantKind.ENGINE, pod.node, pod.namespace, pod.uid)
        want = engine_want(pod, self._term)
        if want is not None:
            self._purged.pop(pod.uid, None)
            self._wants.put(subject, want, cause=cause, traceparent=traceparent)
        elif pod.ended and pod.uid not in self._purged:
            self._purged[pod.uid] = self._clock()
            self._to_purge.put_nowait(subject)

    def _purge_again(self, state: State, seen: Seen) -> None:
        """Purge once more what a runner still answers to: a killed NATS server may have brought the want back."""
        now = self._clock()
        answered = {item.event.owner for item in seen.processes if isinstance(item.event, ProcessEndedV1)}
        self._purged = {uid: at for uid, at in self._purged.items() if uid in state.pods}
        for uid in [uid for uid, at in self._purged.items() if uid in answered and now - at > PURGE_AGAIN_S]:
            self._purged.pop(uid)
            self._want(state.pods[uid], "", None)

    def _say_nodes(self, state: State, seen: Seen, limits: Limits) -> None:
        caches = caches_on(seen.processes)
        for name, node in state.nodes.items():
            before = self._nodes.get(name)
            silent_s = None if is_ready(seen.silence, name, limits) else limits.not_ready_after_s
            version = before.resource_version if before else 0
            event = node_event(node, requested_on(state, name, caches), silent_s, version)
            if event != before:
                event = event.model_copy(update={"resource_version": self._next_version()})
                self._nodes[name] = event
                with self._saying(subjects.node(name)):
                    self._facts.put(subjects.node(name), event)
        for name in self._nodes.keys() - state.nodes.keys():
            self._facts.put(subjects.node(name), NodeGoneV1(name=name, why="deleted by request"))
            del self._nodes[name]
