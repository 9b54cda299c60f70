"""The only way in which placement writes to a cluster: while it holds its Lease, and with its term.

A refusal by the fence that names a lower term than ours comes from an API server that lags, and is repeated; a higher
one ends our leadership at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from kvberth.kube import FENCE, Applier, Client, Eviction, FenceVerdict, Forbidden, KubeError, Leadership, Meta, Target
from kvberth.kube import fence_verdict as verdict_of
from kvberth.placement.apply import ApplyError

T = TypeVar("T")
Json = dict[str, Any]

_LAG_S = 0.2
_LAGS = 25  # an API server that is seconds behind its own writes is one to come back to later

_log = structlog.stdlib.get_logger(__name__)


class Deposed(ApplyError, KubeError):  # noqa: N818 -- the name says what it is
    """We do not lead any more, so nothing may be written."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster as one leader writes to it."""

    client: Client
    applier: Applier
    leadership: Leadership

    async def create(self, target: Target, body: Json, *, dry_run: bool = False) -> Meta:
        """Create an object. Raises Deposed, or as `Applier.create`."""
        fenced = self._fenced(body)
        return await self._write(lambda: self.applier.create(target, fenced, dry_run=dry_run))

    async def apply(self, target: Target, body: Json) -> Meta:
        """Write our fields over an object. Raises Deposed, or as `Applier.apply`."""
        fenced = self._fenced(body)
        return await self._write(lambda: self.applier.apply(target, fenced))

    async def delete(self, target: Target) -> None:
        """Delete an object. Raises Deposed, or as `Applier.delete`."""
        await self._write(lambda: self.applier.delete(target))

    async def patch_status(self, target: Target, status: Json) -> Meta:
        """Write a status, which carries the term itself. Raises Deposed, or as `Applier.patch_status`."""
        return await self._write(lambda: self.applier.patch_status(target, status))

    async def may_evict(self, target: Target) -> Eviction:
        """Ask the budgets. Raises as `Applier.evict`."""
        return await self.applier.evict(target, dry_run=True)

    async def _write(self, write: Callable[[], Awaitable[T]]) -> T:
        for _ in range(_LAGS):
            if not self.leadership.holds:
                raise Deposed("another placement leads, or may soon; nothing more is written")
            try:
                return await write()
            except Forbidden as error:
                verdict = verdict_of(error, self.leadership.term)
                if verdict is FenceVerdict.DEPOSED:
                    self.leadership.end()
                    raise Deposed(str(error)) from error
                if verdict is FenceVerdict.OTHER:
                    raise
                _log.info("the fence does not know our term yet", why=str(error))
            await asyncio.sleep(_LAG_S)
        raise Deposed(f"the fence did not let term {self.leadership.term} write for {_LAG_S * _LAGS:g} s")

    def _fenced(self, body: Json) -> Json:
        metadata = body.get("metadata", {})
        annotations = {**metadata.get("annotations", {}), FENCE: str(self.leadership.term)}
        return {**body, "metadata": {**metadata, "annotations": annotations}}
