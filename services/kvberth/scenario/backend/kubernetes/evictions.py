"""Drains nodes as `kubectl drain` does: what a budget refuses is asked again every 5 s, until the story ends."""

import asyncio
from collections.abc import Iterable
from typing import Final, Self

from kvberth.kube import KubeError, NotFound, Refused
from kvberth.kube.resources import PODS
from kvberth.scenario.backend.kubernetes.api import Api, Json

AGAIN_S: Final = 5.0
_REFUSED_BY_A_BUDGET: Final = 429


class Evictions:
    """What one scenario evicts, as an async context manager: nothing is asked any more afterwards."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._again: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Nothing is evicted yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ask no more."""
        for task in self._again:
            task.cancel()
        await asyncio.gather(*self._again, return_exceptions=True)

    async def evict(self, pods: Iterable[Json]) -> str:
        """Ask for each pod's eviction; give how many were refused for now. Raises KubeError."""
        asked = list(pods)
        refused = [pod for pod in asked if not await self._is_evicted(pod)]
        for pod in refused:
            self._again.add(
                asyncio.create_task(self._until_evicted(pod), name=f"eviction of {pod['metadata']['name']}")
            )
        later = f", {len(refused)} of them once their budgets allow it" if refused else ""
        return f"{len(asked)} pods are evicted{later}"

    async def _is_evicted(self, pod: Json) -> bool:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        # By its uid, since a pod of a StatefulSet has a successor of its name.
        meta, only = {"namespace": namespace, "name": name}, {"preconditions": {"uid": pod["metadata"]["uid"]}}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": only}
        try:
            await self._api.create(PODS, namespace, name, body, "eviction")
        except NotFound:
            return True
        except Refused as error:
            if error.status != _REFUSED_BY_A_BUDGET:
                raise
            return False
        return True

    async def _until_evicted(self, pod: Json) -> None:
        """Ask again; an API server that a story takes away is asked later, too."""
        while True:
            await asyncio.sleep(AGAIN_S)
            try:
                if await self._is_evicted(pod):
                    return
            except KubeError:
                continue
