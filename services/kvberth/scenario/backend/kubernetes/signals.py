"""Kills, pauses and restarts processes of a cluster, and waits for what that leads to."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from kvberth.kube import KubeError, Resource
from kvberth.kube.resources import DEPLOYMENTS, PODS
from kvberth.scenario.backend.kubernetes import observed
from kvberth.scenario.backend.kubernetes.install import Install
from kvberth.scenario.backend.kubernetes.look import Looker
from kvberth.scenario.backend.kubernetes.nodes import Nodes
from kvberth.scenario.backend.kubernetes.observed import INSTALLED, Being
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.format import ServiceTarget, Target
from kvberth.scenario.judge.lives import resolve

ENDS_WITHIN_S = 15.0
BACK_WITHIN_S = 50.0
"""A kubelet waits 10 s, then 20 s, before it starts a container again."""
_POLL_S = 0.05
_DEPLOYMENTS: Final = {role: name for name, role in observed.SERVICES.items() if role != "node_agent"}


@dataclass
class Signals:
    """What was done to the processes of one cluster."""

    looker: Looker
    nodes: Nodes
    install: Install
    stopped: dict[str, int] = field(default_factory=dict)
    """Deployments that were scaled to none, with the replicas that they had."""

    async def kill(self, target: Target, name: str) -> str:
        """Send a signal, and wait for the end of that life. Raises ScenarioError, KubeError."""
        being = await self._one(target)
        # While nobody is to start it again, that holds of the script in its container, too, which is its first process.
        alone = being.first if being.life.role == "cache" and being.node in self.nodes.paused else None
        await self.looker.eyes.signal(being.node, alone or being.process, name)
        await self._until_gone(being)
        return str(being.life)

    async def pause(self, target: Target) -> str:
        """Stop a process, until the kernel says that it has stopped; of a runner, the kubelet."""
        if _is_runner(target):
            return await self.nodes.pause(target.value.node)
        being = await self._one(target)
        await self.looker.eyes.signal(being.node, being.process, "STOP")

        async def stopped() -> bool:
            return all(one.life.paused for one in await self._lives(target) if one.process.pid == being.process.pid)

        await _until(stopped, f"{being.life} did not stop", ENDS_WITHIN_S)
        return str(being.life)

    async def resume(self, target: Target) -> str:
        """Let a process go on. Raises ScenarioError, KubeError."""
        if _is_runner(target):
            return await self.nodes.resume(target.value.node)
        paused = [one for one in await self._lives(target) if one.life.paused]
        for being in paused:
            await self.looker.eyes.signal(being.node, being.process, "CONT")
        return ", ".join(str(being.life) for being in paused) or f"{target} was not paused"

    async def restart(self, target: Target) -> str:
        """End a process in order and wait for its next life. Raises ScenarioError, KubeError."""
        former = {_identity(one) for one in await self._lives(target)}
        being = await self._one(target)
        await self.looker.eyes.signal(being.node, being.process, "TERM")
        await self._until_gone(being)

        async def back() -> bool:
            return any(_identity(one) not in former for one in await self._lives(target))

        await _until(back, f"{target} did not come back", BACK_WITHIN_S)
        return f"{being.life} ended, the next life is there"

    async def stop(self, target: Target) -> str:
        """Keep a service away: its Deployment wants no replica, or no agent may run there.

        Raises ScenarioError, KubeError.
        """
        if node := _agents_node(target):
            await self.install.keep_agent_from(node)
            return await self._until_away(target, f"no agent may run on {node}")
        name = _deployment(target)
        deployment = await self.looker.api.get(DEPLOYMENTS, INSTALLED, name)
        if deployment is None:
            raise ScenarioError(f"there is no Deployment {INSTALLED}/{name}")
        self.stopped[name] = deployment["spec"]["replicas"]
        await self._scale(name, 0)
        return await self._until_away(target, f"Deployment {name} is scaled to none")

    async def start(self, target: Target) -> str:
        """Let a service come again that was stopped. Raises ScenarioError, KubeError."""
        if node := _agents_node(target):
            await self.install.let_agent_back(node)
        else:
            name = _deployment(target)
            if name not in self.stopped:
                raise ScenarioError(f"{target} was not stopped; 'start' ends a 'stop'")
            await self._scale(name, self.stopped.pop(name))

        async def back() -> bool:
            return bool(await self._lives(target))

        await _until(back, f"{target} did not come back", BACK_WITHIN_S)
        return f"{target} runs again"

    async def wipe_nats(self) -> str:
        """Delete the pod of NATS, and with it all that it stored. Raises ScenarioError, KubeError."""
        target = Target(nats=True)
        former = {_identity(one) for one in await self._lives(target)}
        being = await self._one(target)
        await self.looker.api.delete(PODS, INSTALLED, being.pod["metadata"]["name"])
        await self.looker.eyes.signal(being.node, being.process, "KILL")

        async def back() -> bool:
            lives = {_identity(one) for one in await self._lives(target)}
            return bool(lives) and not lives & former

        await _until(back, "NATS did not come back", BACK_WITHIN_S)
        return "NATS has lost everything"

    async def revive(self) -> list[str]:
        """Start what was stopped and let go on what was paused; give what failed."""
        failed = []
        try:
            for name, replicas in list(self.stopped.items()):
                await self._scale(name, replicas)
            for being in await self.looker.beings():
                if being.life.paused:
                    await self.looker.eyes.signal(being.node, being.process, "CONT")
        except KubeError as error:
            failed.append(str(error))
        return failed

    async def _until_away(self, target: Target, said: str) -> str:
        for being in await self._lives(target):
            await self.looker.eyes.signal(being.node, being.process, "KILL")

        async def gone() -> bool:
            return not await self._lives(target)

        await _until(gone, f"{target} lives on", BACK_WITHIN_S)
        return said

    async def _scale(self, name: str, replicas: int) -> None:
        resource: Resource = DEPLOYMENTS
        await self.looker.api.merge(resource, INSTALLED, name, {"spec": {"replicas": replicas}}, "scale")

    async def _lives(self, target: Target) -> list[Being]:
        return [one for one in await self.looker.beings() if resolve(target, [one.life])]

    async def _one(self, target: Target) -> Being:
        """Give the process that is meant; of a service with several replicas, the leader's."""
        beings = await self.looker.beings()
        found = [one for one in beings if resolve(target, [one.life])]
        if len(found) > 1 and target.kind == "service":
            leader = await self.looker.leader(target.value.name)
            found = [one for one in found if one.pod["metadata"]["name"] == leader] or found
        if len(found) == 1:
            return found[0]
        what = found[0].life.role if found else target.value.name if target.kind == "service" else target.kind
        there = ", ".join(str(one.life) for one in beings if one.life.role == what)
        raise ScenarioError(f"{target} is {len(found)} processes, where one is meant; there are: {there or 'none'}")

    async def _until_gone(self, being: Being) -> None:
        async def gone() -> bool:
            return _identity(being) not in {_identity(one) for one in await self.looker.beings()}

        await _until(gone, f"{being.life} lives on", ENDS_WITHIN_S)


def _identity(being: Being) -> tuple[str, int, int]:
    return being.node, being.process.pid, being.process.started


def _is_runner(target: Target) -> bool:
    return isinstance(target.value, ServiceTarget) and target.value.name == "runner"


def _agents_node(target: Target) -> str | None:
    is_agent = isinstance(target.value, ServiceTarget) and target.value.name == "node_agent"
    return target.value.node if is_agent else None


def _deployment(target: Target) -> str:
    role = "nats" if target.kind == "nats" else target.value.name if isinstance(target.value, ServiceTarget) else ""
    if role not in _DEPLOYMENTS:
        raise ScenarioError(f"{target} can't be stopped, its kubelet starts it again; 'pause' it, or kill it")
    return _DEPLOYMENTS[role]


async def _until(holds: Callable[[], Awaitable[bool]], otherwise: str, within_s: float) -> None:
    deadline = asyncio.get_running_loop().time() + within_s
    while not await holds():
        if asyncio.get_running_loop().time() > deadline:
            raise ScenarioError(f"{otherwise} after {within_s:g} s")
        await asyncio.sleep(_POLL_S)
