"""Caches at rest: an engine beside them, asked for as they should be, and answering. Pure.

Nearly all caches of a large cluster are at rest nearly always. What a plan concluded about such a one is remembered
together with all that it was concluded from; while that is the very same, the next plan need not look again. What is
remembered changes no plan, only its cost.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import compress
from operator import is_not
from typing import TypeVar

from kvberth.placement.membership import Beside, Following
from kvberth.placement.memory import AtRest
from kvberth.placement.snapshot import Snapshot
from kvberth.placement.states import Cache, KVCache
from kvberth_schemas.events import HealthReason, NodeRow

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """What of a KVCache has to be looked at: its caches and the engines that stay, by node, but those at rest."""

    caches: Mapping[str, Cache]
    bound: Beside
    resting: AtRest


def work_on(item: KVCache, following: Following, snapshot: Snapshot) -> Work:
    """Return what has to be looked at, given what the last plan left at rest."""
    caches, bound = snapshot.caches.get(item.name, {}), following.bound
    resting = _resting(item, following, caches, snapshot)
    rest = resting.rows.keys()
    if not rest:
        return Work(caches, bound, resting)
    if len(rest) == len(caches) == len(bound):
        return Work({}, {}, resting)
    return Work(
        {name: caches[name] for name in caches.keys() - rest},
        {name: bound[name] for name in bound.keys() - rest},
        resting,
    )


def at_rest(
    work: Work, following: Following, snapshot: Snapshot, rows: Iterable[NodeRow], busy: Collection[str]
) -> AtRest:
    """Return what a plan leaves at rest of a KVCache that may be acted on.

    `busy` are nodes with a step, a refusal, or a cache that is merely kept.
    """
    nodes = snapshot.cluster.nodes
    new = {
        row.node: row
        for row in rows
        if row.state == "serving"
        and not row.message
        and row.health == HealthReason.PROVEN
        and row.node not in busy
        and row.node not in following.ending
        and row.node in work.bound
        and row.node in work.caches
        and row.node in nodes
    }
    if not new:
        return work.resting
    resting, caches, bound = work.resting, snapshot.caches[work.resting.item.name], following.bound
    return AtRest(
        resting.item,
        resting.revisions,
        caches=resting.caches | {name: caches[name] for name in new},
        engines=resting.engines | {name: bound[name] for name in new},
        nodes=resting.nodes | {name: nodes[name] for name in new},
        rows=resting.rows | new,
    )


def _resting(item: KVCache, following: Following, caches: Mapping[str, Cache], snapshot: Snapshot) -> AtRest:
    """What the last plan left at rest and nothing has stirred since."""
    before = snapshot.memory.at_rest.get(item.name)
    revisions = snapshot.revisions.get(item.name)
    same = before is not None and before.item is item and before.revisions is revisions
    if before is None or not same or not snapshot.freshness.known:
        return AtRest(item, revisions)
    stirred = {
        *_others(caches, before.caches),
        *_others(following.bound, before.engines),
        *_others(snapshot.cluster.nodes, before.nodes),
        *(before.rows.keys() - snapshot.freshness.agents),
        *(before.rows.keys() & following.ending.keys()),
    }
    if not stirred:
        return before
    return AtRest(
        item,
        revisions,
        caches=_without(stirred, before.caches),
        engines=_without(stirred, before.engines),
        nodes=_without(stirred, before.nodes),
        rows=_without(stirred, before.rows),
    )


def _without(names: Collection[str], known: dict[str, T]) -> dict[str, T]:
    rest = known.copy()
    for name in names:
        del rest[name]
    return rest


def _others(now: Mapping[str, object], then: Mapping[str, object]) -> Iterable[str]:
    """The names under which there is not the very same thing any more."""
    return compress(then, map(is_not, map(now.get, then), then.values()))
