"""The watches on pods, nodes and KVCaches: they feed the index, and tell whether it can be believed now."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from kvberth.kube import Change, Client, Key, Kind, Metrics, Reflector, Selection, Verb
from kvberth.kube.resources import KVCACHES, NODES, PODS
from kvberth.pod_watcher.index import Index
from kvberth.pod_watcher.kvcaches import trim_kvcache
from kvberth.pod_watcher.nodes import trim_node
from kvberth.pod_watcher.objects import KVCacheObject, NodeObject, PodObject
from kvberth.pod_watcher.pods import Pod, trim_pod
from kvberth.pod_watcher.settings import PodWatcherSettings
from kvberth_schemas import subjects
from kvberth_schemas.events import KVCacheSpecV1, NodeChangedV1

POD: Final = Kind(PODS, PodObject, trim_pod)
NODE: Final = Kind(NODES, NodeObject, trim_node)
KVCACHE: Final = Kind(KVCACHES, KVCacheObject, trim_kvcache)

T = TypeVar("T")


class Watches:
    """All reflectors, by a name for people: ``pods``, or ``pods/default`` where only some namespaces are watched."""

    def __init__(
        self,
        client: Client,
        settings: PodWatcherSettings,
        index: Index,
        metrics: Metrics,
        changed: Callable[[], None],
    ) -> None:
        """Nothing is asked before `run()`; `changed` is called after every change of the index."""
        self._client, self._settings, self._metrics = client, settings, metrics
        self._index, self._changed = index, changed
        self._reflectors: dict[str, Reflector[Any]] = {}
        self._add("nodes", NODE, None, self._node)
        for namespace in settings.namespaces or (None,):
            suffix = f"/{namespace}" if namespace else ""
            self._add(f"pods{suffix}", POD, namespace, self._pod)
            self._add(f"kvcaches{suffix}", KVCACHE, namespace, self._kvcache)

    @property
    def synced(self) -> bool:
        """Whether every first list was read."""
        return all(one.synced for one in self._reflectors.values())

    @property
    def live(self) -> bool:
        """Whether all is followed now: while one watch is silent, nothing that is said counts."""
        return all(one.live for one in self._reflectors.values())

    @property
    def complaint(self) -> str | None:
        """What is not followed now, and why."""
        return next(self._complaints(), None)

    @property
    def ages(self) -> Mapping[str, float]:
        """Seconds since each watch last said something, bookmarks included."""
        return {name: one.age_s for name, one in self._reflectors.items()}

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, one in self._reflectors.items():
                group.create_task(one.run(), name=name)

    async def wait_synced(self) -> None:
        """Wait for every first list, for as long as it takes."""
        for one in self._reflectors.values():
            while not await one.wait_synced(60.0):
                pass

    def _complaints(self) -> Iterator[str]:
        for name, one in self._reflectors.items():
            if not one.synced:
                yield f"No list of {name} yet{': ' + one.trouble if one.trouble else '.'}"
            elif not one.live:
                yield f"The watch of {name} is not live: {one.trouble or f'silent for {one.age_s:.0f} s'}"

    def _add(self, name: str, kind: Kind[T], namespace: str | None, take: Callable[[Change[T]], None]) -> None:
        selection = Selection(namespace=namespace)
        reflector = Reflector(self._client, kind, selection, self._settings.reflector(), metrics=self._metrics)

        def listen(change: Change[T]) -> None:
            take(change)
            self._changed()

        reflector.add_listener(listen)
        self._reflectors[name] = reflector

    def _pod(self, change: Change[Pod]) -> None:
        if change.verb is Verb.UNREADABLE:
            self._index.cannot_read(change.key, subjects.pod(change.key.namespace, self._uid(change.key)))
        elif change.now is None:
            self._index.lose_pod(change.key)
        else:
            self._index.see_pod(change.key, change.now.uid, change.now.value)

    def _node(self, change: Change[NodeChangedV1]) -> None:
        if change.verb is Verb.UNREADABLE:
            self._index.cannot_read(change.key, subjects.node(change.key.name))
        elif change.now is None:
            self._index.lose_node(change.key.name)
        else:
            self._index.see_node(change.now.value)

    def _kvcache(self, change: Change[KVCacheSpecV1]) -> None:
        if change.verb is Verb.UNREADABLE:
            self._index.cannot_read(change.key, subjects.spec(change.key.namespace, change.key.name))
        elif change.now is None:
            self._index.lose_kvcache(change.key)
        else:
            self._index.see_kvcache(change.now.value)

    def _uid(self, key: Key) -> str:
        found = (one.unreadable.get(key) for name, one in self._reflectors.items() if name.startswith("pods"))
        return next((one.uid for one in found if one is not None), "")
