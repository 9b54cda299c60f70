"""Moves as people read them: which node took over from which, and the end of what was left behind. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kvberth.placement.arrivals import asked_at
from kvberth.placement.reasons import Reason
from kvberth.placement.snapshot import Freshness
from kvberth.placement.states import Cache, KVCache
from kvberth.placement.steps import Finish
from kvberth_schemas.events import SocketGoneV1
from kvberth_schemas.wants import Why

_PREFIX = "relocated from "
_BETWEEN = " to "


def moved_sentence(origin: str, to: str) -> str:
    """Say a move."""
    return f"{_PREFIX}{origin}{_BETWEEN}{to}"


def nodes_of(sentence: str) -> tuple[str, ...]:
    """Return the nodes that a move's sentence names (names of nodes hold no spaces)."""
    return tuple(sentence.removeprefix(_PREFIX).split(_BETWEEN)) if sentence else ()


@dataclass(frozen=True, slots=True)
class Over:
    """What tells that a cache has ended: whose word counts, and how long nobody's is waited for."""

    freshness: Freshness
    quiet_for: timedelta
    now: datetime


def finishes(
    item: KVCache, caches: Mapping[str, Cache], over: Over, successors_of: Callable[[str], Iterable[str]]
) -> list[Finish]:
    """Return the caches that were told to stop and have ended, each with the node that took over, if any."""
    taken: set[str] = set()
    steps = []
    for node in sorted(name for name, cache in caches.items() if cache.stopping):
        if _ended(node, caches[node], over):
            target = _target(node, caches, set(successors_of(node)) - taken)
            taken.update((target,) if target else ())
            steps.append(_finish(item, node, caches, target))
    return steps


def _ended(node: str, cache: Cache, over: Over) -> bool:
    """Whether runner and agent of the node say that nothing is left.

    No word at all counts only after a while: they may not have seen the want yet.
    """
    freshness = over.freshness
    if node not in freshness.runners or node not in freshness.agents or cache.wanted is None:
        return False
    if cache.process is not None and (cache.process.running or cache.process.restarting):
        return False
    if cache.socket is not None and not isinstance(cache.socket, SocketGoneV1):
        return False
    said = cache.process is not None and cache.socket is not None
    return said or over.now - cache.wanted.since >= over.quiet_for


def _target(origin: str, caches: Mapping[str, Cache], successors: set[str]) -> str | None:
    """The newest of the caches that took over, where the one of `origin` was told to make way for one."""
    left = caches[origin].wanted
    if left is None or left.why is not Why.MOVED:
        return None
    running = [node for node in successors if node in caches and caches[node].asked]
    return max(running, key=lambda node: (asked_at(caches[node]), node), default=None)


def _finish(item: KVCache, node: str, caches: Mapping[str, Cache], target: str | None) -> Finish:
    own = caches[node].wanted
    other = caches[target].wanted if target else None
    cause = other or own
    alone = own is not None and own.only_directory
    ended = f"the directory on {node} is let go" if alone else f"the cache on {node} has ended"
    return Finish(
        kvcache=item.name,
        uid=item.uid,
        node=node,
        reason=Reason.ENDED,
        message=moved_sentence(node, target) if target else ended,
        cause=cause.cause if cause else None,
        traceparent=cause.traceparent if cause else None,
        moved_to=target,
        cache=not alone,
    )
