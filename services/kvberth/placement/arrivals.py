"""Which engines came in place of others that have not left yet. Pure.

An engine that comes while its workload has more than it wants, counting those that end and caches whose engine went,
replaces one of them; one that comes to fill up what is wanted replaces nobody. Only the caches beside the first kind
took over from others, so that a scale-down, which nobody comes for, is never taken for a move.

Who came is seen between two plans. The first plan of a process has the last status instead, which names the engines
that were there, and who took over by then. Without one nobody can say who came, and no move is told.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from kvberth.placement.membership import Following, Membership
from kvberth.placement.memory import Arrivals, AtRest
from kvberth.placement.reasons import Reason
from kvberth.placement.rest import Work
from kvberth.placement.snapshot import Snapshot
from kvberth.placement.states import Cache, Engine, KVCache, WorkloadKey
from kvberth.placement.steps import AnyStep, Finish
from kvberth_schemas.wants import Why

_NEVER = datetime.max.replace(tzinfo=UTC)
_Owner = WorkloadKey | None
_Came = tuple[frozenset[str], set[str]]
"""Nodes of those that took over by then, and nodes to which engines came since."""


def arrivals(item: KVCache, engines: Membership, work: Work, snapshot: Snapshot) -> Arrivals:
    """Return what is seen of engines now, and the nodes of those that take over from others."""
    following, before = engines.of[item.name], snapshot.memory.arrivals.get(item.name)
    seen = {node: _uids(here) for node, here in work.bound.items()}
    if before is not None:
        successors, came = _since_last_plan(item, work, before, snapshot)
    else:
        successors, came = _since_last_status(item, work, snapshot)
    if not snapshot.freshness.known:
        return Arrivals(seen, successors)
    known = successors & following.bound.keys()
    if not (known or came):
        return Arrivals(seen)
    caches = snapshot.caches.get(item.name, {})
    spare = _spare(engines, following, caches, snapshot)
    chosen = _newest(known, caches, following, spare)
    chosen |= _newest(came - known, caches, following, spare - _owners(chosen, following))
    return Arrivals(seen, frozenset(chosen))


def successors_of(node: str, following: Following, successors: Iterable[str]) -> set[str]:
    """Return the nodes whose engines may have taken over from those that left `node`."""
    left = {engine.workload for engine in following.departed.get(node, ())}
    return {name for name in successors if name in following.bound and (not left or _owner(name, following) in left)}


def rested(seen: Arrivals, following: Following, resting: AtRest | None) -> Arrivals:
    """Return what is to be remembered: engines at rest are remembered as such."""
    at_rest = resting.engines if resting is not None else {}
    engines = {node: _uids(following.bound[node]) for node in following.bound.keys() - at_rest.keys()}
    return Arrivals(engines, seen.successors)


def after(seen: Mapping[str, Arrivals], taken: Iterable[AnyStep]) -> dict[str, Arrivals]:
    """Return what is left to be remembered once steps were taken: who took over does so once."""
    done = {(step.kvcache, step.moved_to) for step in taken if isinstance(step, Finish)}
    return {
        name: Arrivals(
            item.engines,
            frozenset(node for node in item.successors if (name, node) not in done),
        )
        for name, item in seen.items()
    }


def _since_last_plan(item: KVCache, work: Work, before: Arrivals, snapshot: Snapshot) -> _Came:
    resting = snapshot.memory.at_rest.get(item.name, AtRest(item)).engines
    there = {node: before.engines.get(node, _uids(resting.get(node, ()))) for node in work.bound}
    return before.successors, {node for node, here in work.bound.items() if _uids(here) - there[node]}


def _since_last_status(item: KVCache, work: Work, snapshot: Snapshot) -> _Came:
    last = snapshot.memory.statuses.get(item.name)
    if last is None or last.uid != item.uid:
        return frozenset(), set()
    if any(condition.reason == Reason.SOURCE_STALE for condition in last.conditions):
        return frozenset(last.successors), set()  # whoever said it did not know who was there
    there = {row.node: set(row.engines) for row in last.nodes}
    came = {node for node, here in work.bound.items() if not {engine.name for engine in here} <= there.get(node, set())}
    return frozenset(last.successors), came


def _spare(
    engines: Membership, following: Following, caches: Mapping[str, Cache], snapshot: Snapshot
) -> Counter[_Owner]:
    """How many engines or idle caches of each workload are more than it wants."""
    spare, wanted = Counter[_Owner](), dict[_Owner, int]()
    for here in following.bound.values():
        for engine in here:
            if engine.wanted is not None:
                wanted[engine.workload] = max(engine.wanted, wanted.get(engine.workload, 0))
    for here in following.ending.values():
        spare.update(engine.workload for engine in here)
    owners = {engine.workload for here in following.bound.values() for engine in here}
    for node, cache in caches.items():
        if node in snapshot.cluster.nodes and not following.holds(node) and _may_have_moved(cache):
            left = {engine.workload for engine in following.departed.get(node, ())} & owners
            spare.update(left or owners)
    for owner, count in wanted.items():
        spare[owner] += (engines.bound.get(owner, 0) if owner is not None else 0) - count
    return spare


def _may_have_moved(cache: Cache) -> bool:
    return cache.asked or (cache.wanted is not None and cache.wanted.why is Why.MOVED)


def _newest(
    nodes: Iterable[str], caches: Mapping[str, Cache], following: Following, spare: Counter[_Owner]
) -> set[str]:
    """As many of the nodes as their workloads have to spare, those first whose caches were asked for last."""
    chosen, left = set[str](), Counter(spare)
    for node in sorted(nodes, key=lambda name: (asked_at(caches.get(name)), name), reverse=True):
        owner = _owner(node, following)
        if left[owner] > 0:
            chosen.add(node)
            left[owner] -= 1
    return chosen


def asked_at(cache: Cache | None) -> datetime:
    """Return when a cache was asked for; one that is about to be is the newest."""
    return cache.wanted.since if cache is not None and cache.wanted is not None else _NEVER


def _owners(nodes: Iterable[str], following: Following) -> Counter[_Owner]:
    return Counter(_owner(node, following) for node in nodes)


def _owner(node: str, following: Following) -> _Owner:
    return following.bound[node][0].workload


def _uids(engines: Iterable[Engine]) -> frozenset[str]:
    return frozenset(engine.uid for engine in engines)
