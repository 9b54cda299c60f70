"""Indexes what the bus says, row by row, and gives the snapshot of any one namespace. No I/O.

A row counts by its subject's sequence: an older or doubled one changes nothing, nor does an old state that was said
again (see `versions`). The index also tells which namespaces a row touches, so that only those are planned again.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kvberth.placement import facts
from kvberth.placement.cachepods import CachePods
from kvberth.placement.cluster import ClusterIndex
from kvberth.placement.engines import EngineIndex
from kvberth.placement.memory import Memory, Trouble
from kvberth.placement.snapshot import Freshness, LiveWorkload, Snapshot
from kvberth.placement.states import Cache, Cause, Engine, Health, KVCache, Life, Wanted, WorkloadKey
from kvberth.placement.unreadable import Unreadable
from kvberth.placement.versions import Versions
from kvberth_schemas import subjects
from kvberth_schemas.events import (
    CacheHealthV1,
    KVCacheGoneV1,
    KVCacheSpecV1,
    NodeChangedV1,
    PodGoneV1,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodWaitingV1,
    ProcessEndedV1,
    ProcessStartedV1,
    SocketGoneV1,
    SocketLostV1,
    SocketReadyV1,
)
from kvberth_schemas.events.processes import ProcessRole
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import Entity, EventSubject

_ABSENT = Cache()


@dataclass(slots=True)
class _Namespace:
    engines: EngineIndex = field(default_factory=EngineIndex)
    pods: CachePods = field(default_factory=CachePods)
    kvcaches: dict[str, KVCache] = field(default_factory=dict)
    caches: dict[str, dict[str, Cache]] = field(default_factory=lambda: defaultdict(dict))
    troubles: dict[str, Trouble] = field(default_factory=dict)
    revisions: dict[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of it."""
        return not (self.kvcaches or self.caches or self.engines.known or self.pods)

    def put_kvcache(self, name: str, item: KVCache) -> None:
        """Know another state of a KVCache; of one with another spec, what new caches are made from is not known yet."""
        before = self.kvcaches.get(name)
        if before is None or before.spec != item.spec:
            self.revisions.pop(name, None)
        self.kvcaches[name] = item


class Index:
    """All last states, by namespace."""

    def __init__(self) -> None:
        """Know nothing."""
        self._namespaces: dict[str, _Namespace] = defaultdict(_Namespace)
        self._cluster = ClusterIndex()
        self._sequences: dict[EventSubject, int] = {}
        self._versions = Versions()
        self._unreadable = Unreadable()
        self._touched: set[str] = set()
        self._drains: Mapping[str, Mapping[str, str]] = {}
        self._earlier: dict[tuple[str, str, str], Health] = {}

    @property
    def namespaces(self) -> frozenset[str]:
        """Those with KVCaches, or with caches."""
        return frozenset(name for name, held in self._namespaces.items() if held.kvcaches or held.caches)

    def kvcaches(self) -> Iterable[tuple[str, KVCache]]:
        """Return all KVCaches with their namespaces."""
        return [(name, item) for name, held in self._namespaces.items() for item in held.kvcaches.values()]

    @property
    def nodes(self) -> frozenset[str]:
        """Names of the nodes that are there."""
        return frozenset(self._cluster.view(frozenset()).nodes)

    def kvcache(self, namespace: str, name: str) -> KVCache | None:
        """Return one KVCache as plans see it, but for complaints about names that others hold."""
        held = self._namespaces.get(namespace)
        item = held.kvcaches.get(name) if held is not None else None
        return self._readable(namespace, item) if item is not None else None

    def cache_pods(self, namespace: str, kvcache: str) -> dict[str, str]:
        """Return by node the name of the pod of a KVCache's cache."""
        held = self._namespaces.get(namespace)
        return held.pods.names(kvcache) if held is not None else {}

    def forget_events(self, unheard_s: float = 0.0) -> None:
        """Forget every event (the view was opened anew), but not what placement itself wants.

        A verdict on a cache's health that is read again stands since it was heard first, less `unheard_s`: the seconds
        for which nobody could have been heard.
        """
        self._earlier = {
            (name, kvcache, node): _later(cache.health, unheard_s)
            for name, held in self._namespaces.items()
            for kvcache, nodes in held.caches.items()
            for node, cache in nodes.items()
            if cache.health is not None
        }
        wanted = [
            (name, kvcache, node, cache.wanted)
            for name, held in self._namespaces.items()
            for kvcache, nodes in held.caches.items()
            for node, cache in nodes.items()
        ]
        own = [(name, held.troubles, held.revisions) for name, held in self._namespaces.items()]
        self._namespaces.clear()
        self._cluster = ClusterIndex()
        self._sequences.clear()
        self._versions.forget()
        for name, kvcache, node, want in wanted:
            if want is not None:
                self.set_wanted(name, kvcache, node, want)
        for name, troubles, revisions in own:
            if troubles or revisions:
                self._namespaces[name].troubles, self._namespaces[name].revisions = troubles, revisions

    def forget_missing(self, present: Collection[object]) -> None:
        """Forget what the stream no longer has: it is gone, and was said to be long ago.

        `present` holds at least every subject that is there.
        """
        for subject in [subject for subject in self._sequences if subject not in present]:
            del self._sequences[subject]
            self._versions.forget([subject])
            if subject.namespace is None or subject.namespace not in self._namespaces:
                continue
            held = self._namespaces[subject.namespace]
            if subject.entity is Entity.POD:
                held.engines.departed.pop(subject.object, None)
            elif subject.entity is Entity.SPEC and subject.object not in held.caches:
                item = held.kvcaches.get(subject.object)
                if item is not None and item.life in {Life.DELETED, Life.NOT_FOUND}:
                    del held.kvcaches[subject.object]
            if held.is_empty:
                del self._namespaces[subject.namespace]

    @property
    def known(self) -> int:
        """How many subjects are remembered."""
        return len(self._sequences)

    def take_touched(self) -> set[str]:
        """Return the namespaces that changed since the last call."""
        touched, self._touched = self._touched, set()
        return touched & self.namespaces

    def touch(self, namespace: str) -> None:
        """Let a namespace be planned again."""
        self._touched.add(namespace)

    def touch_all(self) -> None:
        """Let every namespace be planned again."""
        self._touched |= self.namespaces

    def set_unreadable(self, whys: Mapping[EventSubject, str]) -> None:
        """Replace what is known to be unreadable."""
        unreadable = Unreadable.of(whys)
        if unreadable != self._unreadable:
            for place in unreadable.healths - self._unreadable.healths:
                self._put_cache(*place, replace(self._cache(*place), health=None))
            self._unreadable = unreadable
            self.touch_all()

    def set_wanted(self, namespace: str, kvcache: str, node: str, wanted: Wanted | None) -> None:
        """Note what placement asks for on a node (None: nothing any more)."""
        cache = replace(self._cache(namespace, kvcache, node), wanted=wanted)
        self._put_cache(namespace, kvcache, node, cache)

    def set_trouble(self, namespace: str, kvcache: str, trouble: Trouble | None) -> bool:
        """Note what keeps the backend from doing what is asked for (None: nothing); tell whether that is new."""
        troubles = self._namespaces[namespace].troubles
        if troubles.get(kvcache) == trouble:
            return False
        troubles.pop(kvcache, None)
        if trouble is not None:
            troubles[kvcache] = trouble
        self._touched.add(namespace)
        return True

    def set_revisions(self, namespace: str, kvcache: str, revisions: Mapping[str, str]) -> bool:
        """Note by pool what a new cache of a KVCache would be made from; tell whether that is new."""
        if not revisions and namespace not in self._namespaces:
            return False
        known = self._namespaces[namespace].revisions
        if known.get(kvcache, {}) == revisions:
            return False
        known.pop(kvcache, None)
        if revisions:
            known[kvcache] = dict(revisions)
        self._touched.add(namespace)
        return True

    def engines_on_cordoned_nodes(self) -> list[tuple[str, Engine]]:
        """Return the engines that stay on cordoned nodes, with their namespaces, always in the same order."""
        cordoned = [name for name, node in self._cluster.view(frozenset()).nodes.items() if node.cordoned]
        found = [
            (namespace, engine)
            for namespace, held in self._namespaces.items()
            if held.kvcaches
            for group in held.engines.groups
            for node in cordoned
            for engine in group.bound.get(node, ())
        ]
        return sorted(found, key=lambda item: (item[0], item[1].uid))

    def set_drains(self, drains: Mapping[str, Mapping[str, str]]) -> bool:
        """Note by namespace, by uid of an engine, what drains wait for; tell whether that is new."""
        before, self._drains = self._drains, drains
        changed = {name for name in {*before, *drains} if before.get(name, {}) != drains.get(name, {})}
        self._touched |= changed
        return bool(changed)

    @property
    def stale(self) -> int:
        """How many states were ignored because a newer version of the thing was known."""
        return self._versions.refused

    def take(self, subject: EventSubject, event: Event, cause: Cause, term: int = 0) -> None:
        """Take the last state of a subject, said in a term of its writer; an older one than known is ignored."""
        if self._sequences.get(subject, -1) >= cause.sequence:
            return
        self._sequences[subject] = cause.sequence
        if self._versions.refuses(subject, event, term):
            return
        if subject.entity is Entity.NODE:
            self._take_node(subject.object, event)
        elif subject.namespace is not None:
            self._touched.add(subject.namespace)
            self._take_namespaced(subject.namespace, subject, event, cause)

    def snapshot(
        self,
        namespace: str,
        *,
        term: int,
        freshness: Freshness,
        memory: Memory,
        live: Mapping[WorkloadKey, LiveWorkload],
        steady_s: float,
    ) -> Snapshot:
        """Return what is known about a namespace now, by the steady clock. Valid until the next change of the index."""
        held = self._namespaces[namespace]
        return Snapshot(
            namespace=namespace,
            term=term,
            kvcaches=tuple(self._readable(namespace, item) for item in held.kvcaches.values()),
            engines=held.engines.groups,
            bound=held.engines.bound,
            departed=tuple(held.engines.departed.values()),
            orphans=tuple(held.engines.orphans),
            caches=held.caches,
            cluster=self._cluster.view(self._unreadable.nodes),
            freshness=freshness,
            memory=memory,
            live=live,
            steady_s=steady_s,
            troubles=held.troubles,
            revisions=held.revisions,
            waiting_caches=held.pods.waiting(),
            drains=self._drains.get(namespace, {}),
            unreadable_pods=namespace in self._unreadable.pods,
            unreadable_process_nodes=self._unreadable.processes.get(namespace, frozenset()),
        )

    def _readable(self, namespace: str, item: KVCache) -> KVCache:
        why = self._unreadable.specs.get((namespace, item.name))
        return item if why is None else replace(item, life=Life.UNREADABLE, spec=None, why=why)

    def _take_node(self, name: str, event: Event) -> None:
        node = facts.node(event) if isinstance(event, NodeChangedV1) else None
        if self._cluster.set_node(name, node):
            self.touch_all()
        self._touched |= self._on_node(name)

    def _on_node(self, node: str) -> set[str]:
        return self._cluster.namespaces_on(node)

    def _take_namespaced(self, namespace: str, subject: EventSubject, event: Event, cause: Cause) -> None:
        held = self._namespaces[namespace]
        if isinstance(event, PodScheduledV1 | PodReadyV1 | PodWaitingV1 | PodGoneV1) and event.role is PodRole.CACHE:
            self._put_cache_pod(namespace, event)
        elif isinstance(event, PodScheduledV1 | PodReadyV1 | PodWaitingV1):
            self._put_engine(namespace, event.uid, facts.engine(event, cause))
        elif isinstance(event, PodGoneV1):
            self._put_engine(namespace, event.uid, None)
            if (left := facts.departed(event, cause)) is not None:
                held.engines.departed[event.uid] = left
        elif isinstance(event, KVCacheSpecV1):
            held.put_kvcache(event.name, facts.kvcache(event, cause))
        elif isinstance(event, KVCacheGoneV1):
            held.kvcaches[event.name] = facts.gone_kvcache(event, cause)
        elif subject.entity is Entity.PROCESS:
            self._take_process(namespace, subject, event)
        elif subject.entity is Entity.SOCKET and subject.node is not None:
            state = event if isinstance(event, SocketReadyV1 | SocketLostV1 | SocketGoneV1) else None
            cache = self._cache(namespace, subject.object, subject.node)
            self._put_cache(namespace, subject.object, subject.node, replace(cache, socket=state))
        elif subject.entity is Entity.HEALTH and subject.node is not None:
            cache = self._cache(namespace, subject.object, subject.node)
            earlier = self._earlier.pop((namespace, subject.object, subject.node), None)
            before = cache.health or (earlier and _heard_by(earlier, cause.heard_s))
            health = facts.health(event, cause, before) if isinstance(event, CacheHealthV1) else None
            self._put_cache(namespace, subject.object, subject.node, replace(cache, health=health))

    def _take_process(self, namespace: str, subject: EventSubject, event: Event) -> None:
        owner, role = subjects.process_owner(subject)
        node = subject.node
        if node is None:
            return
        if role == ProcessRole.CACHE:
            said = event if isinstance(event, ProcessStartedV1 | ProcessEndedV1) else None
            process = facts.cache_process(said) if said is not None else facts.NO_PROCESS
            cache = self._cache(namespace, owner, node)
            self._put_cache(namespace, owner, node, replace(cache, process=process))
            return
        if role != ProcessRole.ENGINE:
            return
        alive = facts.engine_process(event) if isinstance(event, ProcessStartedV1) else None
        self._namespaces[namespace].engines.put_process(owner, node, alive)

    def _put_cache_pod(self, namespace: str, event: PodScheduledV1 | PodReadyV1 | PodWaitingV1 | PodGoneV1) -> None:
        pods = self._namespaces[namespace].pods
        for kvcache, node in pods.put(event.uid, None if isinstance(event, PodGoneV1) else event):
            cache = self._cache(namespace, kvcache, node)
            self._put_cache(namespace, kvcache, node, replace(cache, process=pods.process((kvcache, node))))

    def _put_engine(self, namespace: str, uid: str, engine: Engine | None) -> None:
        old = self._namespaces[namespace].engines.put(uid, engine)
        if self._cluster.count_engine(namespace, old, engine):
            self._touch_claimants({item.model for item in (old, engine) if item is not None})

    def _touch_claimants(self, models: set[str]) -> None:
        """Touch every namespace with a KVCache for these models: one without an engine says where others are."""
        for name, held in self._namespaces.items():
            if any(item.spec is not None and item.spec.workload in models for item in held.kvcaches.values()):
                self._touched.add(name)

    def _cache(self, namespace: str, kvcache: str, node: str) -> Cache:
        return self._namespaces[namespace].caches.get(kvcache, {}).get(node, _ABSENT)

    def _put_cache(self, namespace: str, kvcache: str, node: str, cache: Cache) -> None:
        self._touched.add(namespace)
        nodes = self._namespaces[namespace].caches[kvcache]
        nodes.pop(node, None)
        if cache != _ABSENT:
            nodes[node] = cache
        if not nodes:
            del self._namespaces[namespace].caches[kvcache]
        if self._cluster.set_cache(node, namespace, kvcache, cache):
            self._touched |= self._on_node(node)


def _later(health: Health, seconds: float) -> Health:
    return replace(health, cause=replace(health.cause, heard_s=health.cause.heard_s + seconds))


def _heard_by(health: Health, latest_s: float) -> Health:
    return replace(health, cause=replace(health.cause, heard_s=min(health.cause.heard_s, latest_s)))
