"""Which caches may leave their nodes. Pure.

A cache leaves when the user turned its KVCache off, or when its engine is really gone and no replacement is awaited.
Whatever is not known for sure keeps it. Nothing here is decided without the live read that the plan asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from kvberth.placement.arrivals import successors_of
from kvberth.placement.calm import Allowance
from kvberth.placement.membership import Membership
from kvberth.placement.memory import Held
from kvberth.placement.reasons import Reason
from kvberth.placement.snapshot import LiveWorkload, Snapshot
from kvberth.placement.states import Cache, DepartedEngine, KVCache, Wanted, WorkloadKey
from kvberth.placement.steps import Forget, Remove
from kvberth_schemas.wants import Why

LIVE_KINDS = frozenset({"Deployment", "StatefulSet"})
"""Owners that can be asked how many pods they want."""


@dataclass(slots=True)
class Removals:
    """What may go, why the rest stays, and what has to be asked or awaited first."""

    steps: list[Remove | Forget] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    """By node: why a cache without an engine stays."""
    questions: set[WorkloadKey] = field(default_factory=set)
    idle: set[str] = field(default_factory=set)
    recheck: list[datetime] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The caches to be looked at, by node; `off` are the nodes of pools that were turned off.

    `successors` are the nodes of engines that came in place of others which have not left yet; `held` are the nodes
    on which no step is tried now.
    """

    caches: Mapping[str, Cache]
    off: frozenset[str]
    successors: frozenset[str] = frozenset()
    held: Mapping[str, Held] = field(default_factory=dict)


def removals(
    item: KVCache, candidates: Candidates, engines: Membership, snapshot: Snapshot, retry: timedelta, now: datetime
) -> Removals:
    """Return what may be removed of a KVCache that is not frozen."""
    if not candidates.caches:
        return Removals()
    judge = _Judge(item, engines, snapshot, retry, now)
    judge.successors, judge.held = candidates.successors, candidates.held
    for node in sorted(candidates.caches):
        judge.consider(node, candidates.caches[node], off=item.off or node in candidates.off)
    return judge.result


@dataclass(frozen=True, slots=True)
class _Verdict:
    why: Why
    reason: Reason
    message: str
    cause: str | None = None
    traceparent: str | None = None


class _Judge:
    def __init__(self, item: KVCache, engines: Membership, snapshot: Snapshot, retry: timedelta, now: datetime) -> None:
        self.result = Removals()
        self._item = item
        self._following = engines.of[item.name]
        self._snapshot = snapshot
        self._retry = retry
        self._now = now
        limit = item.spec.placement.max_removals_per_minute if item.spec is not None else 30
        self._allowance = Allowance(snapshot.memory.removals.get(item.name, ()), limit, now)
        self._bound = engines.bound
        self._swapped = False
        self.successors = frozenset[str]()
        self.held: Mapping[str, Held] = {}

    @cached_property
    def _moving(self) -> int:
        """How many caches were told to make way for a successor, by this plan or before."""
        caches = self._snapshot.caches.get(self._item.name, {}).values()
        return sum(cache.wanted is not None and cache.wanted.why is Why.MOVED for cache in caches)

    def consider(self, node: str, cache: Cache, *, off: bool) -> None:
        cluster = self._snapshot.cluster
        if node not in cluster.nodes:
            if cache.wanted is not None and node not in cluster.unreadable_nodes:
                self._forget(node, cache.wanted)
            return
        if not cache.asked and (cache.stopping or not cache.running):
            return
        verdict = self._user() if off else self._swap(node, cache) or self._engines_left(node)
        if verdict is None:
            return
        if node in self.held:
            self.result.kept[node] = self.held[node].message
            return
        if not self._allowance.take():
            self.result.kept[node] = "removals are held back to stay below the limit a minute"
            self.result.recheck.append(self._allowance.next_at)
            return
        self._remove(node, verdict)

    def _swap(self, node: str, cache: Cache) -> _Verdict | None:
        """A quota that lets no new cache be made beside a running engine: one whose engines only end makes room.

        Never a cache beside an engine that stays, unless that engine's node is lost. One at a time.
        """
        trouble = self._snapshot.troubles.get(self._item.name)
        if trouble is None or trouble.reason is not Reason.QUOTA_EXCEEDED or not self._given_up(node):
            return None
        caches = self._snapshot.caches.get(self._item.name, {})
        nodes = self._snapshot.cluster.nodes
        missing = [
            name
            for name in self._following.bound
            if name in caches
            and caches[name].asked
            and not caches[name].running
            and name in nodes
            and nodes[name].ready
        ]
        leaving = any(other.stopping and other.running for other in caches.values())
        if not missing or leaving or self._swapped or not cache.running:
            return None
        self._swapped = True
        message = f"swap {node} for {min(missing)}: a quota lets no more caches be made ({trouble.message})"
        return _Verdict(Why.MOVED, Reason.SWAPPED_FOR_QUOTA, message)

    def _given_up(self, node: str) -> bool:
        """Whether the engines on a node only end, or are lost with it."""
        mine = self._following
        lost = not self._snapshot.cluster.nodes[node].ready
        return (node in mine.ending or node in mine.bound) and (lost or node not in mine.bound)

    def _user(self) -> _Verdict:
        deleted = self._item.spec is None
        cause = self._item.cause
        return _Verdict(
            Why.USER,
            Reason.DELETED if deleted else Reason.TURNED_OFF,
            "the KVCache was deleted" if deleted else "replicas is 0",
            cause.id if cause else None,
            cause.traceparent if cause else None,
        )

    def _engines_left(self, node: str) -> _Verdict | None:
        """The verdict on a cache of a KVCache that is on: only when its engine is gone for sure."""
        if self._following.holds(node):
            return None
        self.result.idle.add(node)
        unknown = self._unknown(node)
        if unknown is not None:
            self.result.kept[node] = unknown
            return None
        departed = self._following.departed.get(node, [])
        owners = self._owners(departed)
        self.result.questions |= owners
        answers = {owner: self._snapshot.live.get(owner) for owner in owners}
        missing = sorted("/".join(owner) for owner, answer in answers.items() if answer is None)
        if missing:
            self.result.kept[node] = f"kept: {', '.join(missing)} did not answer how many engines it wants"
            self.result.recheck.append(self._now + self._retry)
            return None
        known = {owner: answer for owner, answer in answers.items() if answer is not None}
        return self._with_answers(node, departed, known)

    def _unknown(self, node: str) -> str | None:
        """Why it can't be told whether an engine still uses the cache."""
        snapshot = self._snapshot
        if snapshot.unreadable_pods:
            return f"kept: a pod of namespace {snapshot.namespace} can't be read"
        if node in snapshot.unreadable_process_nodes:
            return f"kept: a process on {node} can't be read"
        if node not in snapshot.freshness.runners:
            return f"kept: the runner of {node} is silent, so an engine may still run there"
        return None

    def _owners(self, departed: list[DepartedEngine]) -> set[WorkloadKey]:
        """The workloads that may send an engine back: those that had one on the node, else all that are known."""
        mine = self._following
        owners = {engine.workload for engine in departed}
        if not owners:
            owners = {engine.workload for engines in mine.departed.values() for engine in engines}
            owners |= {engine.workload for engines in mine.bound.values() for engine in engines}
            owners |= {engine.workload for engines in mine.ending.values() for engine in engines}
            owners |= {engine.workload for engine in mine.waiting}
        return {owner for owner in owners if owner is not None and owner[0] in LIVE_KINDS}

    def _with_answers(
        self, node: str, departed: list[DepartedEngine], answers: Mapping[WorkloadKey, LiveWorkload]
    ) -> _Verdict | None:
        last = max((engine.cause for engine in departed), key=lambda cause: cause.sequence, default=None)
        cause = (last.id, last.traceparent) if last else (None, None)
        if answers and all(not answer.found or answer.wanted == 0 for answer in answers.values()):
            return _Verdict(Why.SCALED, Reason.SCALED_TO_ZERO, f"remove {node}: no engine is wanted any more", *cause)
        awaited = [self._awaited(owner, answer) for owner, answer in sorted(answers.items())]
        reasons = [sentence for sentence in awaited if sentence is not None]
        if answers and not reasons:
            wanted = sum(answer.wanted for answer in answers.values())
            message = f"remove {node}: its engine is gone and all {wanted} wanted are bound elsewhere"
            why = Why.MOVED if self._is_move(node) else Why.IDLE
            return _Verdict(why, Reason.ENGINES_BOUND_ELSEWHERE, message, *cause)
        linger = timedelta(seconds=self._item.spec.linger_s if self._item.spec else 0)
        until = self._left_at(node, departed) + linger
        if self._now >= until:
            message = f"remove {node}: without an engine for {linger.total_seconds():g} s"
            why = Why.MOVED if self._is_move(node) else Why.IDLE
            return _Verdict(why, Reason.LINGERED, message, *cause)
        awaits = "; ".join(reasons) or "the engine may come back"
        self.result.kept[node] = f"kept for at most {linger.total_seconds():g} s: {awaits}"
        # The owner may be scaled without a word on the bus while it has no pod.
        self.result.recheck.append(min(until, self._now + self._retry))
        return None

    def _is_move(self, node: str) -> bool:
        """Whether an engine came in place of the one that left, and no other cache made way for it."""
        return len(successors_of(node, self._following, self.successors)) > self._moving

    def _awaited(self, owner: WorkloadKey, answer: LiveWorkload) -> str | None:
        """Why another engine of that owner is still to come.

        The live read and our own view must both say that all are bound: the view alone may be old, and the answer
        alone may be ahead of the cache that the new engine needs first.
        """
        wanted = answer.wanted if answer.found else 0
        bound = min(answer.bound, self._bound.get(owner, 0))
        return None if bound >= wanted else f"{'/'.join(owner)} wants {wanted} and has {bound} bound"

    def _left_at(self, node: str, departed: list[DepartedEngine]) -> datetime:
        seen = self._snapshot.memory.idle_since.get((self._item.name, node), self._now)
        return max((engine.cause.time for engine in departed), default=seen)

    def _forget(self, node: str, wanted: Wanted) -> None:
        self.result.steps.append(
            Forget(
                kvcache=self._item.name,
                uid=self._item.uid,
                node=node,
                reason=Reason.NODE_GONE,
                message=f"node {node} is gone",
                cause=None,
                cache=not wanted.only_directory,
            )
        )

    def _remove(self, node: str, verdict: _Verdict) -> None:
        if verdict.why is Why.MOVED:
            self._moving += 1
        self.result.steps.append(
            Remove(
                kvcache=self._item.name,
                uid=self._item.uid,
                node=node,
                reason=verdict.reason,
                message=verdict.message,
                cause=verdict.cause,
                traceparent=verdict.traceparent,
                why=verdict.why,
            )
        )
