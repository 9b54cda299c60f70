"""The pods of caches in one namespace, as the processes of caches that plans look at (Kubernetes). No I/O.

A pod stands for the life of its cache: whoever asks whether a cache has ended asks whether its last pod is gone.
"""

from collections import defaultdict
from dataclasses import dataclass

from kvberth.placement.facts import NO_PROCESS
from kvberth.placement.states import CachePod, CacheProcess
from kvberth_schemas.events import PodState, PodWaitingV1

Place = tuple[str, str]
"""KVCache and node."""


@dataclass(frozen=True, slots=True)
class _Pod:
    name: str
    kvcache: str
    node: str | None
    waits: str
    process: CacheProcess


class CachePods:
    """By uid."""

    def __init__(self) -> None:
        """Know nothing."""
        self._pods: dict[str, _Pod] = {}
        self._at: dict[Place, set[str]] = defaultdict(set)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._pods)

    def put(self, uid: str, event: PodState | None) -> set[Place]:
        """Put or remove a pod; return the places that changed."""
        changed = set[Place]()
        old = self._pods.pop(uid, None)
        if old is not None and old.node is not None:
            place = (old.kvcache, old.node)
            self._at[place].discard(uid)
            if not self._at[place]:
                del self._at[place]
            changed.add(place)
        if event is not None and event.kvcache is not None:
            waits = f"pod {event.name} waits: {event.why}" if isinstance(event, PodWaitingV1) else ""
            pod = _Pod(event.name, event.kvcache, getattr(event, "node", None), waits, _process(event))
            self._pods[uid] = pod
            if pod.node is not None:
                self._at[pod.kvcache, pod.node].add(uid)
                changed.add((pod.kvcache, pod.node))
        return changed

    def process(self, place: Place) -> CacheProcess:
        """Return whether a pod of a KVCache is on a node, and the one that stays where one ends."""
        here = [self._pods[uid].process for uid in sorted(self._at.get(place, ()))]
        stay = [one for one in here if one.pod is not None and not one.pod.deleting]
        return next(iter((*stay, *here)), NO_PROCESS)

    def names(self, kvcache: str) -> dict[str, str]:
        """Return by node the name of a KVCache's pod there."""
        return {pod.node: pod.name for pod in self._pods.values() if pod.kvcache == kvcache and pod.node is not None}

    def waiting(self) -> dict[str, tuple[str, ...]]:
        """Return by KVCache why pods have no node."""
        found: dict[str, list[str]] = defaultdict(list)
        for pod in self._pods.values():
            if pod.waits:
                found[pod.kvcache].append(pod.waits)
        return {name: tuple(sorted(waits)) for name, waits in found.items()}


def _process(event: PodState) -> CacheProcess:
    pod = CachePod(event.uid, event.revision, event.requests, event.deleting)
    return CacheProcess(running=True, restarting=False, incarnation=None, message="", pod=pod)
