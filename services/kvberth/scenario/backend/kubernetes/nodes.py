"""Makes the cluster's nodes those of a scenario, does to them what its verbs say, and makes them what they were."""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvberth.kube import KubeError
from kvberth.kube.resources import NODES
from kvberth.scenario.backend.kubernetes import cluster, observed
from kvberth.scenario.backend.kubernetes.api import Json
from kvberth.scenario.backend.kubernetes.driver import NodeDriver
from kvberth.scenario.backend.kubernetes.eyes import Question
from kvberth.scenario.backend.kubernetes.look import Looker
from kvberth.scenario.backend.protocol import ScenarioError, Unfit
from kvberth.scenario.format.verbs import Labels, NodeSpec

BACK_WITHIN_S = 60.0
_POLL_S = 0.2
_OWN_TAINTS = "node.kubernetes.io/"


@dataclass
class Nodes:
    """The nodes of one scenario."""

    looker: Looker
    driver: NodeDriver
    before: dict[str, Json] = field(default_factory=dict)
    """Every node that was changed, as it was."""
    paused: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)

    async def prepare(self, specs: Mapping[str, NodeSpec]) -> None:
        """Give the scenario's nodes their labels and taints, and keep engines from all others. Raises KubeError."""
        there = await self.looker.api.list(NODES)
        for node in there:
            name = node["metadata"]["name"]
            if name in specs:
                await self._be(node, specs[name])
        for name in cluster.spare(there, specs):
            await self.change(name, {"spec": {"unschedulable": True}})

    async def change(self, name: str, body: Mapping[str, Any]) -> str:
        """Change a node by a merge patch, and remember what it was. Raises KubeError."""
        if name not in self.before:
            node = await self.looker.api.get(NODES, None, name)
            if node is None:
                raise ScenarioError(f"there is no node {name}")
            self.before[name] = node
        await self.looker.api.merge(NODES, None, name, dict(body))
        return name

    async def cordon(self, name: str) -> str:
        """Let no engine come to a node. Raises KubeError."""
        return await self.change(name, {"spec": {"unschedulable": True}})

    async def uncordon(self, name: str) -> str:
        """Let engines come to it again. Raises KubeError."""
        return await self.change(name, {"spec": {"unschedulable": None}})

    async def label(self, what: Labels) -> str:
        """Change labels. Raises KubeError."""
        return await self.change(what.node, {"metadata": {"labels": dict(what.labels)}})

    async def down(self, name: str) -> str:
        """Everything on a node dies. Raises ScenarioError."""
        await self.driver("kill", name)
        self.looker.down.add(name)
        return f"the machine {name} is dead"

    async def up(self, name: str) -> str:
        """A dead machine boots again. Raises ScenarioError, KubeError."""
        if name not in self.looker.down:
            raise ScenarioError(f"the node {name} is not down; 'node_up' ends a 'node_down'")
        await self.driver("start", name)
        self.looker.down.discard(name)
        await self._until_back(name)
        return f"{name} is ready again"

    async def pause(self, name: str) -> str:
        """Stop a kubelet. Raises ScenarioError."""
        await self.driver("pause", name)
        self.paused.add(name)
        return f"the kubelet of {name} is paused"

    async def resume(self, name: str) -> str:
        """Let a kubelet go on. Raises ScenarioError."""
        await self.driver("resume", name)
        self.paused.discard(name)
        return f"the kubelet of {name} goes on"

    async def delete(self, name: str) -> str:
        """Delete a node's object. Raises KubeError."""
        await self.change(name, {})
        await self.looker.api.delete(NODES, None, name)
        self.deleted.add(name)
        return f"Node/{name}"

    async def raise_all(self) -> list[str]:
        """Bring back every machine that was taken down; give what failed."""
        return [
            *[failed for name in list(self.paused) if (failed := await _tried(self.resume(name)))],
            *[failed for name in list(self.looker.down) if (failed := await _tried(self.up(name)))],
            *[failed for name in list(self.deleted) if (failed := await _tried(self._again(name)))],
        ]

    async def restore(self) -> list[str]:
        """Give every node the labels, taints and readiness for engines that it had; give what failed."""
        failed = [await _tried(self._restore(name, node)) for name, node in self.before.items()]
        self.before.clear()
        return [one for one in failed if one]

    async def _be(self, node: Json, spec: NodeSpec) -> None:
        if cluster.gpus(node) != spec.gpus:
            await self.change(spec.name, {})
            await self._give_gpus(spec.name, spec.gpus)
        taints = [taint.model_dump(exclude_none=True) for taint in spec.taints]
        has = node["spec"].get("taints") or []
        kept = [taint for taint in has if taint["key"].startswith(_OWN_TAINTS)]
        if [taint for taint in has if taint not in kept] != taints:
            await self.change(node["metadata"]["name"], {"spec": {"taints": kept + taints}})
        if labels := cluster.labels_of(spec, node):
            await self.change(node["metadata"]["name"], {"metadata": {"labels": labels}})
        if bool(node["spec"].get("unschedulable")) != spec.unschedulable:
            await self.change(node["metadata"]["name"], {"spec": {"unschedulable": spec.unschedulable or None}})

    async def _give_gpus(self, name: str, count: int) -> None:
        """Claim GPUs for a node, as any client may where no device plugin counts them."""
        node = await self.looker.api.merge(NODES, None, name, cluster.claim(count), "status")
        if cluster.gpus(node) != count:
            raise Unfit(f"{name} is meant to have {count} GPUs, and keeps the {cluster.gpus(node)} that it has")

    async def _restore(self, name: str, former: Json) -> str:
        now = await self.looker.api.get(NODES, None, name)
        if now is None:
            raise ScenarioError(f"the node {name} did not come back")
        if cluster.gpus(now) != cluster.gpus(former):
            await self._give_gpus(name, cluster.gpus(former))
        if body := cluster.undone(former, now):
            await self.looker.api.merge(NODES, None, name, body)
        return name

    async def _again(self, name: str) -> str:
        """A kubelet makes its node's object only when it starts."""
        await self.driver("stop", name)
        await self.driver("start", name)
        self.deleted.discard(name)
        await self._until_back(name)
        return name

    async def _until_back(self, name: str) -> None:
        deadline = asyncio.get_running_loop().time() + BACK_WITHIN_S
        while not await self._is_back(name):
            if asyncio.get_running_loop().time() > deadline:
                raise ScenarioError(f"the node {name} is not ready again within {BACK_WITHIN_S:g} s")
            await asyncio.sleep(_POLL_S)

    async def _is_back(self, name: str) -> bool:
        node = await self.looker.api.get(NODES, None, name)
        if node is None or not observed.node_state(node).ready:
            return False
        try:
            await self.looker.eyes.ask(name, Question())
        except KubeError:
            return False
        return True


async def _tried(action: Awaitable[str]) -> str | None:
    try:
        await action
    except (KubeError, ScenarioError, Unfit) as error:
        return str(error)
    return None
