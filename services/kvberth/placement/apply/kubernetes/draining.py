"""Asks which engines on cordoned nodes no budget lets go: a drain waits there, and no KVCache would say for what.

Decides nothing and evicts nobody. Asked anew as often as a drain asks, for a bounded number of engines at a time.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from kvberth.kube import Conflict, KubeError, NotFound, ServerTrouble, Target
from kvberth.kube.resources import PODS
from kvberth.placement.apply import ApplyError
from kvberth.placement.apply.kubernetes import reading
from kvberth.placement.apply.kubernetes.budgets import MANY, drain_waits
from kvberth.placement.apply.kubernetes.writing import Cluster
from kvberth.placement.observe import Index
from kvberth.placement.states import Engine

AGAIN_S: Final = 5.0
MOST: Final = 16
"""Engines that are asked about in one round, so that a cordoned cluster costs no more calls than a few a second."""

_log = structlog.stdlib.get_logger(__name__)


class Drains:
    """What drains wait for, kept true in the index."""

    def __init__(self, cluster: Cluster, index: Index, wake: Callable[[], None]) -> None:
        """`wake` is called when the index has something new."""
        self._cluster, self._index, self._wake = cluster, index, wake

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                found = await self._look()
            except (KubeError, ApplyError) as error:
                _log.warning("nobody knows what drains wait for", reason=str(error))
            else:
                if self._index.set_drains(found):
                    self._wake()
            await asyncio.sleep(AGAIN_S)

    async def _look(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for namespace, engine in self._index.engines_on_cordoned_nodes()[:MOST]:
            why = await self._why_it_stays(namespace, engine)
            if why:
                found[namespace][engine.uid] = why
        return found

    async def _why_it_stays(self, namespace: str, engine: Engine) -> str:
        try:
            answer = await self._cluster.may_evict(Target(PODS, namespace, engine.name, uid=engine.uid))
        except (NotFound, Conflict):  # it has left, or another has its name
            return ""
        except ServerTrouble as error:
            if MANY not in str(error):
                raise
            said = str(error)
        else:
            if answer.allowed:
                return ""
            said = answer.message
        budgets = await reading.budgets(self._cluster.client, namespace)
        return drain_waits(engine.node or "", engine.name, said, budgets)
