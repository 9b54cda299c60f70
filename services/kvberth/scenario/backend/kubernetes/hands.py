"""What a node's witness does to files, sockets and caches of its node, and takes back when a scenario is over."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvberth.scenario import durations
from kvberth.scenario.backend import faults, files, filling
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.format.verbs import Fault, FileAct, Filled, Peer


class Hands:
    """The hands of one witness; `root` is where its node has the sockets."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.ways: dict[str, faults.ServerProxy] = {}
        """The services' ways to NATS (`bus`) and to the API server (`api`), while they lead through this node."""
        self._begin()

    async def do(self, kind: str, raw: Mapping[str, Any]) -> str:
        """Carry out a verb; give what came of it. Raises ScenarioError; KeyError where there is no such verb."""
        match kind:
            case "files":
                return await asyncio.to_thread(files.act, FileAct.model_validate(raw), self._root)
            case "peer":
                return await self._peers.put(Peer.model_validate(raw), self._root)
            case "fault":
                return await self._fault(Fault.model_validate(raw))
            case "fill":
                return await self._fillings.fill(Filled.model_validate(raw), self._root)
            case "free":
                return await self._fillings.free(Filled.model_validate(raw), self._root)
        raise KeyError(kind)

    async def rest(self) -> None:
        """End faults and peers; what fills a cache ends with its daemon."""
        for way in self.ways.values():
            way.set(Fault(bus=True, does="none"), 0.0)
        await self._faults.close()
        await self._peers.close()
        self._begin()

    async def _fault(self, fault: Fault) -> str:
        delay_s = durations.parse(fault.delay, {})
        if fault.way is None:
            return await self._faults.put(fault, self._root, delay_s)
        if fault.way not in self.ways:
            raise ScenarioError("no way of the services leads through this node, so that none can fail here")
        self.ways[fault.way].set(fault, delay_s)
        return str(fault)

    def _begin(self) -> None:
        self._faults, self._peers, self._fillings = faults.Faults(), files.Peers(), filling.Fillings()
