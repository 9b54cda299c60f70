"""Asks which engines on cordoned nodes no budget lets go: a drain would wait there, and no KVCache would say for what.

Decides nothing and evicts nobody. Asked as often as a drain asks, for a bounded number of engines at a time, in turn.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import structlog

from kvberth.kube import Conflict, KubeError, NotFound, ServerTrouble, Target, Unreachable
from kvberth.kube.resources import PODS
from kvberth.placement.apply import ApplyError
from kvberth.placement.apply.kubernetes import reading
from kvberth.placement.apply.kubernetes.budgets import MANY, drain_waits
from kvberth.placement.apply.kubernetes.turns import Turns
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
        self._turns = Turns(MOST)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._look()
            found: dict[str, dict[str, str]] = defaultdict(dict)
            for (namespace, uid), why in self._turns.answers.items():
                found[namespace][uid] = why
            if self._index.set_drains(found):
                self._wake()
            await asyncio.sleep(AGAIN_S)

    async def _look(self) -> None:
        there = {(namespace, engine.uid): engine for namespace, engine in self._index.engines_on_cordoned_nodes()}
        for name in self._turns.begin(there):
            try:
                self._turns.said(name, await self._why_it_stays(name[0], there[name]))
            except Unreachable as error:  # the others would wait as long for the same
                if self._turns.cut_off(name, str(error)):
                    _log.warning("nobody knows what drains wait for", reason=str(error))
                return
            except (KubeError, ApplyError) as error:
                if self._turns.failed(name, str(error)):
                    _log.warning("nobody knows whether a drain waits", engine=there[name].name, reason=str(error))
        self._turns.ended()

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
