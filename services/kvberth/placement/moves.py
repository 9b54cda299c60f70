"""Moves as people read them: which node took over from which, and the end of what was left behind. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from kvberth.placement.reasons import Reason
from kvberth.placement.snapshot import Cache, KVCache, Snapshot
from kvberth.placement.steps import Finish
from kvberth_schemas.events import SocketGoneV1
from kvberth_schemas.wants import Why

_PREFIX = "relocated from "
_BETWEEN = " to "
_ONE_WISH = timedelta(seconds=1)
"""Caches asked for so shortly one after the other serve engines of one start or scale-up: neither took over."""


def moved_sentence(origin: str, to: str) -> str:
    """Say a move."""
    return f"{_PREFIX}{origin}{_BETWEEN}{to}"


def nodes_of(sentence: str) -> tuple[str, ...]:
    """Return the nodes that a move's sentence names (names of nodes hold no spaces)."""
    return tuple(sentence.removeprefix(_PREFIX).split(_BETWEEN)) if sentence else ()


def finishes(
    item: KVCache, caches: Mapping[str, Cache], snapshot: Snapshot, quiet_for: timedelta, now: datetime
) -> list[Finish]:
    """Return the caches that were told to stop and have ended, each with the node that took over, if any."""
    taken: set[str] = set()
    steps = []
    for node in sorted(name for name, cache in caches.items() if cache.stopping):
        if _ended(node, caches[node], snapshot, quiet_for, now):
            target = _target(node, caches, taken)
            taken.update((target,) if target else ())
            steps.append(_finish(item, node, caches, target))
    return steps


def _ended(node: str, cache: Cache, snapshot: Snapshot, quiet_for: timedelta, now: datetime) -> bool:
    """Whether runner and agent of the node say that nothing is left.

    No word at all counts only after a while: they may not have seen the want yet.
    """
    freshness = snapshot.freshness
    if node not in freshness.runners or node not in freshness.agents or cache.wanted is None:
        return False
    if cache.process is not None and (cache.process.running or cache.process.restarting):
        return False
    if cache.socket is not None and not isinstance(cache.socket, SocketGoneV1):
        return False
    said = cache.process is not None and cache.socket is not None
    return said or now - cache.wanted.since >= quiet_for


def _target(origin: str, caches: Mapping[str, Cache], taken: set[str]) -> str | None:
    """The newest cache that was asked for clearly later than that of `origin`: it serves the engine that took over."""
    left = caches[origin].wanted
    if left is None or left.why is not Why.MOVED:
        return None
    newer = [
        (cache.wanted.since, node)
        for node, cache in caches.items()
        if cache.wanted is not None
        and cache.wanted.run
        and node not in taken
        and left.started is not None
        and cache.wanted.since > left.started + _ONE_WISH
    ]
    return max(newer)[1] if newer else None


def _finish(item: KVCache, node: str, caches: Mapping[str, Cache], target: str | None) -> Finish:
    own = caches[node].wanted
    other = caches[target].wanted if target else None
    cause = other or own
    return Finish(
        kvcache=item.name,
        uid=item.uid,
        node=node,
        reason=Reason.ENDED,
        message=moved_sentence(node, target) if target else f"the cache on {node} has ended",
        cause=cause.cause if cause else None,
        traceparent=cause.traceparent if cause else None,
        moved_to=target,
    )
