"""Applies plans on Kubernetes: DaemonSets and Services by the keeper, directories by wants, and what users are told.

Decides nothing. What is asked for lives in the DaemonSets' own node lists, from which the next life takes it over; this
module holds it in memory, has the keeper make it so, and asks live before anything is taken away.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from kvberth.bus import BusTimeout, Row
from kvberth.kube import EventType, Metrics
from kvberth.kvcache import KVCACHE_LABEL, GateSpec
from kvberth.placement import facts
from kvberth.placement.additions import cpu_millis
from kvberth.placement.apply import ApplyError, Standing
from kvberth.placement.apply.kubernetes import directories, reading
from kvberth.placement.apply.kubernetes.draining import Drains
from kvberth.placement.apply.kubernetes.keeper import Desk, Intent, Keeper, Key
from kvberth.placement.apply.kubernetes.kinds import LiveSet
from kvberth.placement.apply.kubernetes.leaving import Leaving
from kvberth.placement.apply.kubernetes.render import nodes_of
from kvberth.placement.apply.kubernetes.restarting import restart
from kvberth.placement.apply.kubernetes.telling import Teller
from kvberth.placement.apply.kubernetes.wanted import Ways, adopted
from kvberth.placement.apply.kubernetes.writing import Cluster
from kvberth.placement.apply.log import log_event
from kvberth.placement.apply.purges import Purges
from kvberth.placement.means import Edge
from kvberth.placement.memory import Held, Trouble
from kvberth.placement.reasons import Reason
from kvberth.placement.snapshot import LiveWorkload
from kvberth.placement.states import KVCache, Life, Needs, Wanted, WorkloadKey
from kvberth.placement.steps import AnyStep, Claim, Place, Release, Remove, Restart
from kvberth_schemas import subjects
from kvberth_schemas.subjects import EventSubject, WantKind, WantSubject
from kvberth_schemas.wants import DirWantV1, Why

_LOOK_S = 5.0  # at the view, if it never says that it changed
_ADOPT_S = 30.0
_SPARE_S = 1.0
_SIGHT_S = 0.5


@dataclass(slots=True)
class _Asked:
    """What was asked for of one KVCache."""

    nodes: dict[str, Wanted] = field(default_factory=dict)
    said: dict[str, DirWantV1] = field(default_factory=dict)
    untold: list[tuple[AnyStep, str]] = field(default_factory=list)
    """Steps that are told once the children fit, each with its plan."""
    changed: bool = True
    settled_for: KVCache | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How this backend does it."""

    now: Callable[[], datetime]
    ways: Ways
    wake: Callable[[], None]
    """Called when something was noted that plans should look at."""
    metrics: Metrics


class KubernetesBackend:
    """What placement asks of a cluster."""

    def __init__(self, cluster: Cluster, edge: Edge, teller: Teller, options: Options) -> None:
        """The edge's wants are those of directories."""
        self._cluster, self._bus, self._wants, self._index = cluster, edge.bus, edge.wants, edge.index
        self._teller, self._options = teller, options
        self._term = cluster.leadership.term
        self._asked: dict[Key, _Asked] = defaultdict(_Asked)
        self._purges = Purges(edge.wants)
        self._leaving = Leaving(cluster, options.now)
        self._drains = Drains(cluster, edge.index, options.wake)
        desk = Desk(self._intent, self._trouble, self._revisions, self._written, options.now, options.ways)
        self._keeper = Keeper(cluster, desk, options.metrics)

    async def run(self) -> None:
        """Keep the children true and remove done wants, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run(), name="children")
            group.create_task(self._purges.run(), name="purges")
            group.create_task(self._drains.run(), name="drains")
            group.create_task(self._wake_when_sight_changes(), name="sight")

    async def _wake_when_sight_changes(self) -> None:
        seen: str | None = ""
        while True:
            if (blind := self.blind()) != seen:
                seen = blind
                self._options.wake()
            await asyncio.sleep(_SIGHT_S)

    def blind(self) -> str | None:
        """Why not all of our own objects are seen; None while they are."""
        return self._keeper.blind()

    async def workload(self, namespace: str, key: WorkloadKey) -> LiveWorkload:
        """Ask the API server."""
        return await reading.workload(self._cluster.client, namespace, key)

    async def adopt(self) -> Iterable[Standing]:
        """Take over what the DaemonSets and directories of earlier lives say.

        Raises:
            ApplyError: they could not be read within 30 s; nothing was adopted.
        """
        if not await self._keeper.synced(_ADOPT_S):
            raise ApplyError(f"the DaemonSets of earlier lives could not be read within {_ADOPT_S:g} s")
        rows = await self._read_wants()
        for subject, row in rows.items():
            if isinstance(subject, WantSubject) and isinstance(row.message, DirWantV1):
                self._adopt_directory(subject, row, row.message)
        for item in self._keeper.sets():
            self._adopt_set(item)
        self._wants.ready()
        asked = self._asked.items()
        return [Standing(*key, node, wanted) for key, one in asked for node, wanted in one.nodes.items()]

    async def take(self, namespace: str, step: AnyStep, plan: str) -> Standing:
        """Take one step."""
        key = (namespace, step.kvcache)
        asked = self._asked[key]
        if isinstance(step, Place):
            await self._spare(key, step.node)
            self._place(key, asked, step)
            asked.untold.append((step, plan))
        elif isinstance(step, Claim):
            await self._spare(key, step.node)
            asked.nodes[step.node] = facts.claimed(step.gate, step.uid, step.needs, self._options.now())
            self._wants.put(_subject(key, step.node), directories.keep(namespace, step, self._term), cause=step.cause)
        elif isinstance(step, Release):
            await self._spare(key, step.node)
            self._release(key, asked, step.node)
        elif isinstance(step, Remove):
            held = await self._leaving.forbidden(namespace, step) if self._is_there(key) else None
            if held is not None:
                return self._held(key, step, held)
            await self._spare(key, step.node)
            self._remove(key, asked, step)
            if step.reason is Reason.SWAPPED_FOR_QUOTA:
                self._teller.step(namespace, step)
        elif isinstance(step, Restart):
            held = await restart(self._cluster, self._leaving, namespace, step)
            if held is not None:
                return self._held(key, step, held)
            self._resize(asked, step)
            await self._tell(namespace, step, plan)
        else:
            await self._tell(namespace, step, plan)  # first: nobody could tell of it later
            self._clean_up(key, asked, step.node)
        return Standing(*key, step.node, asked.nodes.get(step.node))

    def _held(self, key: Key, step: Remove | Restart, held: Held) -> Standing:
        about = (EventType.WARNING, held.reason.value, type(step).__name__, held.message)
        self._teller.say(key[0], step.kvcache, step.uid, about)
        return Standing(*key, step.node, self._asked[key].nodes.get(step.node), held)

    def settle(self, namespace: str) -> None:
        """Have every KVCache looked at whose manifest or caches changed."""
        for key, asked in list(self._asked.items()):
            if key[0] != namespace:
                continue
            item = self._index.kvcache(*key)
            if asked.changed or item is not asked.settled_for:
                asked.changed, asked.settled_for = False, item
                self._keeper.add(key)

    def _intent(self, key: Key) -> Intent | None:
        item, asked = self._index.kvcache(*key), self._asked.get(key)
        if item is None or asked is None or item.spec is None or item.frozen:
            return None
        return Intent(item, dict(asked.nodes), tuple(asked.untold))

    def _trouble(self, key: Key, trouble: Trouble | None) -> None:
        if not self._index.set_trouble(*key, trouble):
            return
        self._options.wake()
        item = self._index.kvcache(*key)
        if trouble is not None and item is not None:
            self._teller.say(*key, item.uid, (EventType.WARNING, trouble.reason.value, "Place", trouble.message))

    def _revisions(self, key: Key, revisions: Mapping[str, str]) -> None:
        if self._index.set_revisions(*key, revisions):
            self._options.wake()

    async def _written(self, key: Key, intent: Intent) -> None:
        untold = self._asked[key].untold
        for step, plan in intent.untold:
            if (step, plan) in untold:
                untold.remove((step, plan))
                await self._tell(key[0], step, plan)

    async def _tell(self, namespace: str, step: AnyStep, plan: str) -> None:
        event = log_event(namespace, step, plan)
        if event is not None:
            await self._bus.publish_log(subjects.cache(namespace, step.kvcache), event, step.cause)
        self._teller.step(namespace, step)

    def _is_there(self, key: Key) -> bool:
        """Whether the KVCache is there: the children of one that is not are collected without a question."""
        item = self._index.kvcache(*key)
        return item is not None and item.life is not Life.DELETED

    def _place(self, key: Key, asked: _Asked, step: Place) -> None:
        old = asked.nodes.get(step.node)
        again = old is not None and old.run
        since, started = (old.since, old.started) if old is not None and again else (self._options.now(),) * 2
        size = old if old is not None and again and old.uid == step.uid and old.size_bytes else None
        asked.nodes[step.node] = Wanted(
            run=True,
            why=Why.WANTED,
            uid=step.uid,
            pool=old.pool if size is not None and old is not None else step.pool,
            size_bytes=size.size_bytes if size else step.size.size_bytes,
            memory_bytes=size.memory_bytes if size else step.size.memory_bytes,
            cpu_millis=size.cpu_millis if size else cpu_millis(step.size),
            gate=step.gate,
            directory=True,
            since=since,
            cause=step.cause,
            traceparent=step.traceparent,
            started=started,
            needs=step.needs,
        )
        asked.changed = True
        want = directories.keep(key[0], step, self._term)
        self._wants.put(_subject(key, step.node), want, cause=step.cause)

    def _resize(self, asked: _Asked, step: Restart) -> None:
        """What begins anew has the size that new caches have."""
        old = asked.nodes.get(step.node)
        if old is not None:
            size = step.size
            asked.nodes[step.node] = replace(
                old, size_bytes=size.size_bytes, memory_bytes=size.memory_bytes, cpu_millis=cpu_millis(size)
            )

    def _remove(self, key: Key, asked: _Asked, step: Remove) -> None:
        old = asked.nodes.get(step.node, _unasked(step.uid, self._options.now()))
        asked.nodes[step.node] = replace(
            old,
            run=False,
            why=step.why,
            directory=True,
            only_directory=False,
            since=self._options.now(),
            cause=step.cause,
            traceparent=step.traceparent,
        )
        asked.changed = True
        want = directories.drop(*key, step.why, self._term, cache=True)
        self._wants.put(_subject(key, step.node), want, cause=step.cause)

    def _release(self, key: Key, asked: _Asked, node: str) -> None:
        old = asked.nodes.get(node)
        if old is not None:
            asked.nodes[node] = facts.released(old, self._options.now())
            self._wants.put(_subject(key, node), directories.drop(*key, Why.IDLE, self._term, cache=False))

    def _clean_up(self, key: Key, asked: _Asked, node: str) -> None:
        if asked.nodes.pop(node, None) is None:
            return
        asked.changed = True
        self._purges.ask(_subject(key, node))

    async def _spare(self, key: Key, node: str) -> None:
        """Nothing may remove what is about to be said. Raises BusTimeout while something does."""
        subject = _subject(key, node)
        if not await self._purges.spare(subject, _SPARE_S):
            raise BusTimeout(f"{subject} is still being removed after its end; it is asked for later")

    async def _read_wants(self) -> Mapping[EventSubject | WantSubject, Row]:
        try:
            async with asyncio.timeout(_ADOPT_S), self._bus.view([subjects.wants_of(WantKind.DIR)]) as view:
                while not view.complete:
                    await view.changed(_LOOK_S)
                return dict(view.rows)
        except TimeoutError as error:
            raise BusTimeout(f"the wants of earlier lives could not be read within {_ADOPT_S:g} s") from error

    def _adopt_directory(self, subject: WantSubject, row: Row, want: DirWantV1) -> None:
        key = (subject.namespace, subject.object)
        wanted = facts.wanted(None, want, facts.cause_of(row.envelope, row.sequence), row.envelope.cause)
        self._asked[key].nodes[subject.node] = directories.adopted(wanted, want)
        again = want.model_copy(update={"term": self._term})
        self._wants.put(_subject(key, subject.node), again, cause=row.envelope.cause)

    def _adopt_set(self, item: LiveSet) -> None:
        namespace, name = item.metadata.namespace, item.metadata.labels.get(KVCACHE_LABEL, "")
        nodes = self._asked[namespace, name].nodes
        for node in nodes_of(item.spec):
            said = nodes.get(node)
            blank = _unasked("", item.metadata.creation_timestamp or self._options.now())
            nodes[node] = adopted(
                item, said or blank, directory=said is not None and said.only_directory and said.directory
            )


def _unasked(uid: str, now: datetime) -> Wanted:
    """A cache that runs though nobody is known to have asked for it."""
    return Wanted(
        run=True,
        why=Why.WANTED,
        uid=uid,
        pool="",
        size_bytes=0,
        memory_bytes=0,
        cpu_millis=0,
        gate=GateSpec(),
        directory=False,
        since=now,
        cause=None,
        needs=Needs(),
    )


def _subject(key: Key, node: str) -> WantSubject:
    return subjects.want(WantKind.DIR, node, *key)
