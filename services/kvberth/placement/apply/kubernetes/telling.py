"""Tells users of kubectl: Kubernetes Events about a KVCache, and its status.

What is told was decided elsewhere. A status is written only when it says something new, whoever wrote it before.
"""

from collections.abc import Callable, Mapping

from kvberth.kube import (
    Conflict,
    EventRecorder,
    EventType,
    Metrics,
    NotFound,
    Occurrence,
    Regarding,
    Target,
    WorkQueue,
)
from kvberth.kube.resources import KVCACHES
from kvberth.placement.apply.kubernetes import reading
from kvberth.placement.apply.kubernetes.status import is_said, status_body
from kvberth.placement.apply.kubernetes.writing import Cluster
from kvberth.placement.steps import AnyStep, Claim, Finish, Forget, Place, Release, Restart
from kvberth_schemas.events import KVCacheStatusV1

_TRIES = 5


class Statuses:
    """The statuses of KVCaches; the newest of each is written."""

    def __init__(
        self,
        cluster: Cluster,
        pods: Callable[[str, str], Mapping[str, str]],
        teller: "Teller",
        metrics: Metrics | None = None,
    ) -> None:
        """`pods` gives the names of a KVCache's pods by node. Nothing is written before `run()`."""
        self._cluster, self._pods, self._teller = cluster, pods, teller
        self._newest: dict[tuple[str, str], KVCacheStatusV1] = {}
        self._queue: WorkQueue[tuple[str, str]] = WorkQueue("statuses", metrics=metrics)

    def say(self, status: KVCacheStatusV1, before: KVCacheStatusV1 | None) -> None:
        """Have a status written, and tell of engines that started without their cache since the one before."""
        key = (status.namespace, status.name)
        for note in news_of_engines(before, status):
            about = (EventType.WARNING, "EngineStartedWithoutCache", "Start", note)
            self._teller.say(*key, status.uid, about)
        self._newest[key] = status
        self._queue.add(key)

    def say_gone(self, namespace: str, name: str) -> None:
        """The KVCache is gone, and its status with it."""
        self._newest.pop((namespace, name), None)

    async def run(self) -> None:
        """Write until cancelled."""
        await self._queue.run(self._write)

    async def _write(self, key: tuple[str, str]) -> None:
        for _ in range(_TRIES):
            status = self._newest.get(key)
            there = await reading.kvcache(self._cluster.client, *key)
            if status is None or there is None or there.metadata.uid != status.uid:
                return  # of another life: the next plan says what is true of it
            body = status_body(status, self._pods(*key))
            if is_said(body, there.status):
                return
            target = Target(KVCACHES, *key, uid=status.uid, resource_version=there.metadata.resource_version)
            try:
                await self._cluster.patch_status(target, body)
            except NotFound:
                return
            except Conflict:
                continue
            return
        self._queue.add(key, 1.0)


class Teller:
    """Kubernetes Events about KVCaches."""

    def __init__(self, recorder: EventRecorder) -> None:
        """The recorder is run by its owner."""
        self._recorder = recorder

    def step(self, namespace: str, step: AnyStep) -> None:
        """Tell of a step that was taken."""
        word = _word(step)
        if word is not None:
            reason, action = word
            self.say(namespace, step.kvcache, step.uid, (EventType.NORMAL, reason, action, step.message))

    def say(self, namespace: str, name: str, uid: str, what: tuple[EventType, str, str, str]) -> None:
        """Tell anything: type, reason, action, note."""
        kind, reason, action, note = what
        about = Regarding(KVCACHES.api_version, KVCACHES.kind, namespace, name, uid)
        self._recorder.record(Occurrence(about, kind, reason, action, note))


def news_of_engines(before: KVCacheStatusV1 | None, now: KVCacheStatusV1) -> list[str]:
    """Return a sentence for each node with engines that started without their cache and were not told of before."""
    told = {name for row in before.nodes for name in row.without_cache} if before and before.uid == now.uid else set()
    return [f"{row.node}: {row.message}" for row in now.nodes if set(row.without_cache) - told]


def _word(step: AnyStep) -> tuple[str, str] | None:
    if isinstance(step, Claim | Release) or (isinstance(step, Finish | Forget) and not step.cache):
        return None
    if isinstance(step, Place):
        return "CacheAdded", "Place"
    if isinstance(step, Finish):
        return ("CacheMoved", "Move") if step.moved_to is not None else ("CacheRemoved", "Remove")
    if isinstance(step, Forget):
        return "CacheRemoved", "Forget"
    if isinstance(step, Restart):
        return "CacheRestarted", "Restart"
    return str(step.reason), "Remove"
