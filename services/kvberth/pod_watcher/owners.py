"""Asks the API server who owns the controllers of our pods and how many pods they want, each read with a deadline."""

import asyncio
from collections.abc import Callable
from typing import Final

from kvberth.kube import (
    Client,
    KubeError,
    KubeObject,
    Metrics,
    OwnerReference,
    QueueSettings,
    Unreadable,
    WorkQueue,
    get,
    whole,
)
from kvberth.kube.kinds import Kind
from kvberth.kube.resources import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS
from kvberth.pod_watcher.index import Index
from kvberth.pod_watcher.objects import WorkloadObject
from kvberth.pod_watcher.owned import OwnerKey, as_owner, is_climbed
from kvberth_schemas.events import Owner

_KINDS: Final[dict[str, Kind[WorkloadObject]]] = {
    one.kind: whole(one, WorkloadObject) for one in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)
}
_DEADLINE_S: Final = 2.0
"""So long a pod is held back at most because its owner is not known."""
_AGAIN_S: Final = 0.2
"""Pods of one owner come and go together: how many it wants is read once for all of them."""
_MOST_CLIMBED: Final = 4
_QUEUE: Final = QueueSettings(workers=8, handle_s=10.0, retry_first_s=1.0, per_second=100.0, burst=500)


class Owners:
    """Answers the index' questions about owners."""

    def __init__(self, client: Client, index: Index, changed: Callable[[], None], metrics: Metrics) -> None:
        """`changed` is called after every answer."""
        self._client, self._index, self._changed = client, index, changed
        self._queue: WorkQueue[OwnerKey] = WorkQueue("owners", _QUEUE, metrics=metrics)

    async def run(self) -> None:
        """Read until cancelled."""
        await self._queue.run(self._read)

    def ask(self) -> None:
        """Take what the index wants to know."""
        for key in self._index.owned.take_questions():
            self._queue.add(key, 0.0 if self._index.owned.holds_back(key) else _AGAIN_S)

    async def _read(self, key: OwnerKey) -> None:
        try:
            async with asyncio.timeout(_DEADLINE_S):
                owner = await self._top(key)
        except (KubeError, TimeoutError):
            self._answer(key, None)  # the pods are said without an owner, and the queue tries again
            raise
        self._answer(key, owner)

    def _answer(self, key: OwnerKey, owner: Owner | None) -> None:
        self._index.answer(key, owner)
        self._changed()

    async def _top(self, key: OwnerKey) -> Owner:
        """Climb to the owner that nobody owns. One that is gone wants no pods any more."""
        reference = OwnerReference(api_version="apps/v1", kind=key.kind, name=key.name, uid=key.uid)
        for _ in range(_MOST_CLIMBED):
            if not is_climbed(reference):
                return as_owner(reference)
            found = await self._get(key.namespace, reference)
            if found is None:
                return as_owner(reference).model_copy(update={"wanted": 0})
            above = _controller(found)
            if above is None:
                wanted = 1 if found.spec.replicas is None else found.spec.replicas
                return as_owner(reference).model_copy(update={"wanted": wanted})
            reference = above
        return as_owner(reference)

    async def _get(self, namespace: str, reference: OwnerReference) -> WorkloadObject | None:
        found = await get(self._client, _KINDS[reference.kind], namespace, reference.name, _DEADLINE_S)
        if isinstance(found, Unreadable):
            raise KubeError(f"{found.key} can't be read: {found.why}")
        return found.value if found is not None and found.uid == reference.uid else None


def _controller(item: KubeObject) -> OwnerReference | None:
    return next((owner for owner in item.metadata.owner_references if owner.controller), None)
