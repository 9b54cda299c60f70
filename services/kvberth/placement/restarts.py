"""Which caches begin another life where they are: those that hang, and those made from an older manifest. Pure.

Another life is an empty cache. One that hangs has been lost already, but a busy one must not be taken for it: it gets
the time that its KVCache gives, and only one that was proven in this very life hangs; another may be starting still.
For an older manifest another life begins only while every other cache of the KVCache answers, where the new one has
room, one at a time, and twice a minute at most. A cache that does not answer has nothing to lose and waits for nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from kvberth.kvcache import CacheSize
from kvberth.placement.additions import Room, cpu_millis
from kvberth.placement.calm import Allowance
from kvberth.placement.memory import Held
from kvberth.placement.reasons import Reason
from kvberth.placement.rest import Work
from kvberth.placement.snapshot import Snapshot
from kvberth.placement.states import Cache, CachePod, Cause, KVCache, Node
from kvberth.placement.steps import Restart
from kvberth_schemas.events import HealthReason, Resources
from kvberth_schemas.wants import Why

MOST_A_MINUTE: Final = 2
SETTLE: Final = timedelta(seconds=5)
"""How long after a restart everything about it is surely heard."""


@dataclass(slots=True)
class Restarts:
    """What begins anew, and why the rest that should waits."""

    steps: list[Restart] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    """By node."""
    recheck: list[datetime] = field(default_factory=list)


def restarts(
    item: KVCache, work: Work, held: Mapping[str, Held], snapshot: Snapshot, room: Room, now: datetime
) -> Restarts:
    """Return which caches of a KVCache that is on begin anew; `work` is what no plan found at rest.

    `held` are the nodes on which no step is tried now.
    """
    if not work.caches:
        return Restarts()
    judge = _Judge(item, work, snapshot, room, now)
    judge.held = held
    for node in sorted(work.caches):
        judge.consider_hung(node, work.caches[node])
    outdated = _outdated(work.caches, snapshot.revisions.get(item.name, {}))
    for node in sorted(outdated, key=lambda name: (work.caches[name].answers, name)):
        if node in work.bound and node not in judge.restarted:
            judge.consider(node, work.caches[node], outdated[node])
    return judge.result


def _outdated(caches: Mapping[str, Cache], revisions: Mapping[str, str]) -> dict[str, CachePod]:
    """The pods that were made from something else than new ones would be, by node."""
    if not revisions:
        return {}
    found = {}
    for node, cache in caches.items():
        pod = cache.process.pod if cache.process is not None else None
        if pod is None or pod.deleting or pod.revision is None or cache.wanted is None or not cache.wanted.run:
            continue
        if revisions.get(cache.wanted.pool, pod.revision) != pod.revision:
            found[node] = pod
    return found


@dataclass(frozen=True, slots=True)
class _Because:
    why: Why
    reason: Reason
    message: str
    cause: Cause | None


class _Judge:
    def __init__(self, item: KVCache, work: Work, snapshot: Snapshot, room: Room, now: datetime) -> None:
        self.result = Restarts()
        self.held: Mapping[str, Held] = {}
        self._item, self._work, self._snapshot, self._room, self._now = item, work, snapshot, room, now
        done = snapshot.memory.restarts.get(item.name, ())
        self._allowance = Allowance(done, MOST_A_MINUTE, now)
        self._settled_at = max(done) + SETTLE if done else now
        self.restarted: set[str] = set()

    def consider_hung(self, node: str, cache: Cache) -> None:
        """Restart a cache that has answered nothing for too long, unless somebody else is already about it."""
        spec, health = self._item.spec, cache.health
        if spec is None or health is None or not _hangs(cache):
            return
        where = self._snapshot.cluster.nodes.get(node)
        if where is None or not where.ready or node not in self._snapshot.freshness.agents:
            return
        if node in self.held:
            self.result.kept[node] = f"hangs; {self.held[node].message}"
            return
        left_s = spec.hung_restart_s - (self._snapshot.steady_s - health.cause.heard_s)
        due = max(self._now + timedelta(seconds=max(left_s, 0.0)), self._settled_at)
        if due > self._now:
            self.result.recheck.append(due)
            return
        size, refusal = self._size_after_hang(where, cache)
        if size is None:
            self.result.kept[node] = f"hangs; begins anew later: {refusal}"
            return
        if not self._allowance.take():
            self.result.recheck.append(self._allowance.next_at)
            self.result.kept[node] = f"hangs; {MOST_A_MINUTE} restarts a minute are the limit"
            return
        self.restarted.add(node)
        self._settled_at = self._now + SETTLE
        as_it_was = f"; it keeps its size, since the new one {refusal}" if refusal else ""
        message = f"restart {node}: its cache has answered nothing for {spec.hung_restart_s} s{as_it_was}"
        because = _Because(Why.HUNG, Reason.HUNG, message, health.cause)
        self._restart(node, cache, because, size, answers=False)

    def _size_after_hang(self, where: Node, cache: Cache) -> tuple[CacheSize | None, str]:
        """The size of the next life, and why it is not the manifest's; None where no other is possible (a pod's)."""
        size, had = self._size(cache), _amounts(cache)
        if size.memory_bytes <= had.memory_bytes and cpu_millis(size) <= had.cpu_millis:
            return size, ""
        refusal = self._room.refusal(where, size, had)
        if refusal is None:
            return size, ""
        wanted, process = cache.wanted, cache.process
        if wanted is None or (process is not None and process.pod is not None):
            return None, refusal
        cpu = Decimal(wanted.cpu_millis) / 1000
        return CacheSize(cpu, wanted.memory_bytes, wanted.size_bytes, wanted.block_bytes), refusal

    def consider(self, node: str, cache: Cache, pod: CachePod) -> None:
        waits = self._waits(node, cache, pod)
        if waits:
            self.result.kept[node] = f"made from an older manifest; begins anew later: {waits}"
            return
        message = f"restart {node}: its cache was made from an older manifest"
        because = _Because(Why.UPGRADE, Reason.OUTDATED, message, self._item.cause)
        self._restart(node, cache, because, self._size(cache), answers=cache.answers)

    def _restart(self, node: str, cache: Cache, because: _Because, size: CacheSize, *, answers: bool) -> None:
        process, cause = cache.process, because.cause
        self.result.steps.append(
            Restart(
                kvcache=self._item.name,
                uid=self._item.uid,
                node=node,
                reason=because.reason,
                message=because.message,
                cause=cause.id if cause is not None else None,
                traceparent=cause.traceparent if cause is not None else None,
                why=because.why,
                size=size,
                answers=answers,
                pod=process.pod.uid if process is not None and process.pod is not None else None,
                incarnation=process.incarnation if process is not None else None,
            )
        )

    def _waits(self, node: str, cache: Cache, pod: CachePod) -> str:
        """What the cache on a node waits for; nothing is taken from room and allowance while there is something."""
        where = self._snapshot.cluster.nodes.get(node)
        if where is None or not where.ready or node not in self._snapshot.freshness.agents:
            return "nobody knows whether it answers"
        if node in self.held:
            return self.held[node].message
        if cache.answers and (other := self._other(node)):
            return other
        refusal = self._room.refusal(where, self._size(cache), pod.requests)
        if refusal is not None:
            return refusal
        if cache.answers and not self._allowance.take():
            self.result.recheck.append(self._allowance.next_at)
            return f"{MOST_A_MINUTE} restarts a minute are the limit"
        return ""

    def _other(self, node: str) -> str:
        """What else is not as it should be, so that a warm cache is not ended now."""
        trouble = self._snapshot.troubles.get(self._item.name)
        if trouble is not None:
            return trouble.message
        if self.result.steps:
            return f"the one on {self.result.steps[-1].node} does first"
        if self._now < self._settled_at:
            self.result.recheck.append(self._settled_at)
            return "another one has begun anew just now"
        nodes = self._snapshot.cluster.nodes
        for name in sorted(self._work.bound.keys() - {node}):
            other = self._work.caches.get(name)
            if name not in nodes or not nodes[name].ready:
                continue
            if name not in self._snapshot.freshness.agents:
                return f"nobody knows whether the cache on {name} answers"
            if other is None or not _is_well(other):
                return f"the cache on {name} does not answer"
        return ""

    def _size(self, cache: Cache) -> CacheSize:
        spec, wanted = self._item.spec, cache.wanted
        assert spec is not None
        pool = wanted.pool if wanted is not None else ""
        return next((item.size for item in spec.pools if item.name == pool), spec.size)


def _hangs(cache: Cache) -> bool:
    """Whether the very daemon that runs there was proven, and answers nothing now."""
    process, health = cache.process, cache.health
    if not cache.asked or process is None or not process.running or health is None or health.said.incarnation is None:
        return False
    if health.said.reason != HealthReason.HUNG or process.incarnation not in {None, health.said.incarnation}:
        return False
    return process.pod is None or not process.pod.deleting


def _amounts(cache: Cache) -> Resources:
    """What a cache has of its node now."""
    pod = cache.process.pod if cache.process is not None else None
    if pod is not None:
        return pod.requests
    wanted = cache.wanted
    if wanted is None:
        return Resources()
    return Resources(memory_bytes=wanted.memory_bytes, cpu_millis=wanted.cpu_millis)


def _is_well(cache: Cache) -> bool:
    pod = cache.process.pod if cache.process is not None else None
    return cache.asked and cache.answers and not (pod is not None and pod.deleting)
