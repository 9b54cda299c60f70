"""What becomes of moves when machines come and die: `python -m tests.cluster.machines`.

A machine is added to the running cluster, and an engine goes there at once. Then, in turn, the machine dies that holds
NATS, placement's leader, pod_watcher's leader, and one with all three and the engine's old place; the engine moves at
that moment. Works where KUBECONFIG's cluster has kvberth, the images of the stories, three nodes and a node driver.
KVBERTH_TEST_PARTS names some of the parts.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from benchmarks.cluster import INSTALLED, NAMESPACE, Json, until
from tests.cluster.settings import Settings
from tests.ha.world import KVCACHE, MOVER, RESTER, Lives, World, brought_up, is_ready

from kvberth.kube.resources import KVCACHES, NODES, PODS
from kvberth.scenario.backend.kubernetes.api import Api, open_client
from kvberth.scenario.backend.kubernetes.cluster import claim, gpus
from kvberth.scenario.backend.kubernetes.driver import NodeDriver

HOLDERS: Final = ("nats", "placement", "pod-watcher")
PARTS: Final = ("added", *HOLDERS, "all")
MACHINES: Final = 3
ENGINES: Final = 2
MOVE_S: Final = 2.0
"""What a move takes where nothing is wrong (docs/scenarios.md, `t_move`)."""
ADDED_S: Final = 10.0
"""From a new node's Ready until its agent is ready and the cache beside its engine answers."""
NOBODY_PROVES_S: Final = 10.0
"""So long after the death of NATS a cache may be called healthy at most; what is promised is half of it."""
_TRIES: Final = 6


@dataclass
class Told:
    """What came of one part."""

    part: str
    said: str = ""
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """One line."""
        return f"{self.part}: {self.said}; {'; '.join(self.wrong) or 'as it should be'}"


@dataclass
class Machines:
    """A cluster with two engines, and the machine that comes and dies: where neither is, at first."""

    world: World
    driver: NodeDriver
    node: str

    @property
    def api(self) -> Api:
        """The API server."""
        return self.world.api

    async def added(self) -> Told:
        """Add a machine that the cluster does not know, while an engine waits for it."""
        await self._clear()
        await self.driver("stop", self.node)
        await self._forget()
        there = replace(self.world, nodes=(self.world.source, self.node, self.world.nodes[-1]), at=0)
        await there.send()
        ready, agent, bound, _ = await asyncio.gather(
            self._first(self._is_added, f"{self.node} is ready"),
            self._first(self._has_agent, f"the agent of {self.node} is ready"),
            there.bound(),
            self.driver("start", self.node),
        )
        wrong = await _faults(there)
        answered = (await _lives(there)).seen[self.node, MOVER][0]
        if (latest := max(agent, answered) - ready) > ADDED_S:
            wrong.append(f"that took {latest:.1f} s, more than {ADDED_S:g} s")
        said = f"after the node was ready its agent was {agent - ready:.1f} s later, the engine was bound after "
        said += f"{bound - ready:.1f} s, and its cache answered after {answered - ready:.1f} s"
        await there.send()
        await there.settled(MOVER, there.source)
        return Told("added", said, wrong)

    async def died(self, part: str) -> Told:
        """Let the machine die that holds this, while the engine moves; then let it come back, and move again."""
        world = self.world
        if part == "all":
            world = replace(world, nodes=(world.source, self.node, world.nodes[-1]), at=0)
            await world.send()
            await world.settled(MOVER, self.node)
        for service in HOLDERS if part == "all" else (part,):
            await self._hold(service)
        await world.rested()
        told, before, began = Told(part), await _lives(world), time.time()
        await self.driver("kill", self.node)
        try:
            await world.send()
            unproven = [self._first(self._nothing_is_healthy, "nothing is healthy")] if part == "nats" else []
            bound, moved, *without = await asyncio.gather(world.bound(), _served(world), *unproven)
            told.said = f"engine and cache were beside each other {moved - began:.1f} s after the machine's death"
            for when in without:
                told.said += f", nothing was called healthy any more after {when - began:.1f} s"
                if when - began > NOBODY_PROVES_S:
                    told.wrong.append(f"without NATS a cache was called healthy for {when - began:.1f} s")
        finally:
            await self.driver("start", self.node)
        told.wrong += await _faults(world)
        await world.rested()
        after = await _lives(world)
        for (node, model), lives in after.seen.items():
            new = len(lives) - len(before.seen[node, model])
            if node != self.node and new != ((node, model) == (world.source, MOVER)):
                told.wrong.append(f"the cache of {model} on {node} had {new} new lives")
        told.said += f" ({after.seen[world.source, MOVER][-1] - bound:.1f} s after its binding)"
        await self._again(told)
        return told

    async def _again(self, told: Told) -> None:
        """Move once more, now that all is well again: as fast as ever."""
        world = self.world
        known = {key: len(lives) for key, lives in (await _lives(world)).seen.items()}
        await world.send()
        bound = await world.bound()
        told.wrong += await _faults(world)
        answered = (await _lives(world)).seen[world.source, MOVER][known[world.source, MOVER] :]
        took = answered[0] - bound if answered else MOVE_S
        told.said += f", a move afterwards took {took:.2f} s"
        if took >= MOVE_S:
            told.wrong.append(f"a move afterwards took {took:.2f} s")

    async def _clear(self) -> None:
        """Have whoever decides run elsewhere."""
        await self.world.cordon(self.node, cordoned=True)
        for service in HOLDERS:
            for pod in await self._pods(service):
                if pod["spec"].get("nodeName") == self.node:
                    await self.api.delete(PODS, INSTALLED, pod["metadata"]["name"])
        await self.world.rested()

    async def _hold(self, service: str) -> None:
        """Have a service's leader run there, and its standby elsewhere."""
        for _ in range(_TRIES):
            await self.world.rested()
            pods = {one["metadata"]["name"]: one["spec"].get("nodeName") for one in await self._pods(service)}
            leader = next(iter(pods)) if len(pods) == 1 else await self.world.holder(service)
            if pods.get(leader) == self.node:
                return
            if self.node in pods.values():  # the standby, which leads next
                await self.api.delete(PODS, INSTALLED, leader)
            else:
                await self._bring(next(one for one in pods if one != leader or len(pods) == 1))
        raise RuntimeError(f"{service} does not lead from {self.node}")

    async def _bring(self, pod: str) -> None:
        """Have the next life of a pod be there."""
        others = [one["metadata"]["name"] for one in await self.api.list(NODES) if one["metadata"]["name"] != self.node]
        try:
            for node in others:
                await self.world.cordon(node, cordoned=True)
            await self.api.delete(PODS, INSTALLED, pod)
            await self.world.rested()
        finally:
            for node in others:
                await self.world.cordon(node, cordoned=False)

    async def _pods(self, service: str) -> list[Json]:
        return await self.api.list(PODS, INSTALLED, f"app.kubernetes.io/name={service}")

    async def _forget(self) -> None:
        """Have the cluster know nothing of the machine that is stopped, as of one that was never there."""
        await self.api.delete(NODES, None, self.node)
        for pod in await self.api.list(PODS):
            if pod["spec"].get("nodeName") == self.node:
                meta = pod["metadata"]
                await self.api.delete(PODS, meta["namespace"], meta["name"], grace_s=0)

    async def _is_added(self) -> bool:
        node = await self.api.get(NODES, None, self.node)
        if node is None:
            return False
        if gpus(node) < ENGINES:  # no device is needed
            await self.api.merge(NODES, None, self.node, claim(ENGINES), "status")
        return is_ready(node)

    async def _has_agent(self) -> bool:
        return any(
            pod["spec"].get("nodeName") == self.node and is_ready(pod) for pod in await self._pods("kvberth-node")
        )

    async def _nothing_is_healthy(self) -> bool:
        found = [await self.api.get(KVCACHES, NAMESPACE, KVCACHE.format(model)) for model in (MOVER, RESTER)]
        return all(is_unproven(item) for item in found)

    async def _first(self, look: Callable[[], Awaitable[bool]], what: str) -> float:
        """Give when something was seen first, in seconds since the epoch, to a poll."""

        async def seen() -> float | None:
            return time.time() if await look() else None

        return await until(seen, what)


def is_unproven(kvcache: Json | None) -> bool:
    """Whether a KVCache says of its health something else than that it is well; one that says nothing does not."""
    conditions = ((kvcache or {}).get("status") or {}).get("conditions") or ()
    health = [one["status"] for one in conditions if one["type"] == "Healthy"]
    return bool(health) and "True" not in health


async def _served(world: World) -> float:
    """Wait until the moved engine is ready beside a ready cache, whatever else is there still; when."""

    async def look() -> float | None:
        labels = (f"model.aibrix.ai/name={MOVER}", f"kvberth.dev/kvcache={KVCACHE.format(MOVER)}")
        pods = [pod for label in labels for pod in await world.api.list(PODS, NAMESPACE, label)]
        there = [pod for pod in pods if pod["spec"].get("nodeName") == world.source and is_ready(pod)]
        return time.time() if len(there) == len(labels) else None

    return await until(look, f"{MOVER} and its cache are ready on {world.source}")


async def _lives(world: World) -> Lives:
    """Give what the witnesses saw, as soon as all can be heard: that of a machine that came back starts again."""

    async def heard() -> Lives | None:
        try:
            return await world.lives()
        except RuntimeError:
            return None

    return await until(heard, "the witnesses can be heard")


async def _faults(world: World) -> list[str]:
    """Wait until each engine is alone with its cache; say what happened to them that should not have."""
    rest = [await world.settled(MOVER, world.source), await world.settled(RESTER, world.nodes[-1])]
    wrong = [f"{one.name} restarted {one.restarts} times" for one in rest if one.restarts]
    return wrong + [f"the gate of {one.name} ended {one.gate}" for one in rest if one.gate != "open"]


def main() -> int:
    """Do all of it; 0 when it is as it should be."""
    settings = Settings.read()
    if settings is None:
        _say("SKIPPED: machines that come and die: KUBECONFIG names no cluster")
        return 0
    if not settings.node_driver:
        _say("SKIPPED: machines that come and die, since KVBERTH_TEST_NODE_DRIVER names no command")
        return 0
    asked = os.environ.get("KVBERTH_TEST_PARTS", " ".join(PARTS)).split()
    return 1 if asyncio.run(_tell(settings, [part for part in PARTS if part in asked])) else 0


async def _tell(settings: Settings, parts: list[str]) -> int:
    """Tell the parts; how many went wrong."""
    async with open_client(settings.kubeconfig) as client:
        api = Api(client)
        names = sorted(node["metadata"]["name"] for node in await api.list(NODES))
        if len(names) < MACHINES:
            _say(f"SKIPPED: machines that come and die: it takes {MACHINES} nodes, the cluster has {len(names)}")
            return 0
        wrong = 0
        async with brought_up(api, settings.kubeconfig) as world:
            between = replace(world, nodes=(names[0], names[-1], names[-1]))
            machines = Machines(between, NodeDriver(settings.node_driver), names[1])
            for part in parts:
                await world.rested()
                told = await (machines.added() if part == "added" else machines.died(part))
                _say(str(told))
                wrong += bool(told.wrong)
    return wrong


def _say(sentence: str) -> None:
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
