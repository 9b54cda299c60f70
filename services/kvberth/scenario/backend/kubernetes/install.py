"""Changes how the install runs while one scenario is told, settings and agents that are kept away; puts all back."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kvberth.kube import KubeError, Resource
from kvberth.kube.resources import DAEMON_SETS, DEPLOYMENTS, PODS
from kvberth.scenario.backend.kubernetes import observed
from kvberth.scenario.backend.kubernetes.api import Api, Json
from kvberth.scenario.backend.kubernetes.observed import INSTALLED
from kvberth.scenario.backend.kubernetes.witness import API_PORT
from kvberth.scenario.backend.protocol import ScenarioError

AGENT: Final = "kvberth-node"
API_NAME: Final = "kubernetes.default.svc"
RUNS_WITHIN_S: Final = 120.0
_POLL_S: Final = 0.2
_SERVICES: Final = ((DEPLOYMENTS, "placement"), (DEPLOYMENTS, "pod-watcher"), (DAEMON_SETS, AGENT))
_DECIDERS: Final = frozenset({"nats", "placement", "scheduler"})
_NOT_READY: Final = "is not what the install says yet"


@dataclass
class Install:
    """The workloads of kvberth's own services on one cluster."""

    api: Api
    _changed: dict[str, tuple[Resource, Json]] = field(default_factory=dict)
    """What was changed in the pods of services, as it was."""
    _agents: Json | None = None
    """What was changed of the agents' DaemonSet, as it was."""
    _without: set[str] = field(default_factory=set)

    async def give(self, settings: Mapping[str, str], api: str | None = None) -> None:
        """Start every service anew with these settings; `api`: address of a witness that leads to the API server.

        Raises:
            ScenarioError, KubeError: a service does not run with them.
        """
        for resource, name in _SERVICES:
            through = api if resource is DEPLOYMENTS else None  # agents ask the API server nothing
            if settings or through:
                spec = (await self._workload(resource, name))["spec"]["template"]["spec"]
                self._changed[name] = resource, {one: spec.get(one) for one in ("containers", "hostAliases")}
                await self._change(resource, name, changed(spec, settings, through))
        if self._changed:
            await self._until_settled()

    async def take_back(self) -> list[str]:
        """Give services the settings, and nodes the agents, that they had; give what failed."""
        try:
            if self._without:
                await self._place_agents(set())
            former = dict(self._changed)
            for name, (resource, spec) in former.items():
                await self._change(resource, name, spec)
                del self._changed[name]
            if former:
                await self._until_settled()
        except (KubeError, ScenarioError) as error:
            return [str(error)]
        return []

    async def leave(self, nodes: Collection[str]) -> None:
        """Have whoever decides run elsewhere than on these, which take nobody now. Raises ScenarioError, KubeError."""
        pods = [pod for pod in await self.api.list(PODS, INSTALLED) if pod["spec"].get("nodeName") in nodes]
        there = [pod["metadata"]["name"] for pod in pods if observed.role(pod) in _DECIDERS]
        for name in there:
            await self.api.delete(PODS, INSTALLED, name)
        if there:
            await self._until_settled()

    async def keep_agent_from(self, node: str) -> None:
        """Let no agent run on a node; those of others are not touched. Raises ScenarioError, KubeError."""
        await self._place_agents(self._without | {node})

    async def let_agent_back(self, node: str) -> None:
        """Let the agent come to it again. Raises ScenarioError, KubeError."""
        if node not in self._without:
            raise ScenarioError(f"the agent of {node} was not stopped; 'start' ends a 'stop'")
        await self._place_agents(self._without - {node})

    async def _place_agents(self, without: set[str]) -> None:
        spec = (await self._workload(DAEMON_SETS, AGENT))["spec"]
        if self._agents is None:
            self._agents = {
                "updateStrategy": {"rollingUpdate": None, **spec["updateStrategy"]},
                "template": {"spec": {"affinity": spec["template"]["spec"].get("affinity")}},
            }
        # With the former template its pods are again what it wants, so that none is started anew.
        await self.api.merge(DAEMON_SETS, INSTALLED, AGENT, {"spec": away(without) if without else self._agents})
        self._without = set(without)
        if not without:
            self._agents = None

    async def _change(self, resource: Resource, name: str, spec: Json) -> None:
        await self.api.merge(resource, INSTALLED, name, {"spec": {"template": {"spec": spec}}})
        if resource is DAEMON_SETS:  # which would do it one node after the other
            for pod in await self.api.list(PODS, INSTALLED, f"app.kubernetes.io/name={name}"):
                await self.api.delete(PODS, INSTALLED, pod["metadata"]["name"])

    async def _workload(self, resource: Resource, name: str) -> Json:
        found = await self.api.get(resource, INSTALLED, name)
        if found is None:
            raise ScenarioError(f"there is no {resource.title(INSTALLED, name)}")
        return found

    async def _until_settled(self) -> None:
        deadline = asyncio.get_running_loop().time() + RUNS_WITHIN_S
        while lacks := await self._lacks():
            if asyncio.get_running_loop().time() > deadline:
                raise ScenarioError(f"services that were started anew do not run after {RUNS_WITHIN_S:g} s: {lacks}")
            await asyncio.sleep(_POLL_S)

    async def _lacks(self) -> str | None:
        for resource, name in _SERVICES:
            if not settled(await self._workload(resource, name)):
                return f"{name} {_NOT_READY}"
        pods = [pod for pod in await self.api.list(PODS, INSTALLED) if observed.role(pod) is not None]
        going = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]]
        return f"{', '.join(going)} still ends" if going else None


def changed(spec: Json, settings: Mapping[str, str], api: str | None) -> dict[str, Any]:
    """Give the change of a pod's spec for these settings, and for a way to the API server over an address; pure."""
    if api is None:
        return {"containers": [with_settings(one, settings) for one in spec["containers"]]}
    # By a name that its certificate holds on every cluster.
    server = {"KUBERNETES_SERVICE_HOST": API_NAME, "KUBERNETES_SERVICE_PORT": str(API_PORT)}
    aliases = [*(spec.get("hostAliases") or ()), {"ip": api, "hostnames": [API_NAME]}]
    return {
        "containers": [with_settings(one, {**settings, **server}) for one in spec["containers"]],
        "hostAliases": aliases,
    }


def with_settings(container: Json, settings: Mapping[str, str]) -> Json:
    """Give a container with settings in place of those of the same names; pure."""
    kept = [one for one in container.get("env") or () if one["name"] not in settings]
    return {**container, "env": [*kept, *({"name": name, "value": value} for name, value in settings.items())]}


def away(nodes: Iterable[str]) -> dict[str, Any]:
    """Give the change of a DaemonSet's spec that keeps its pods from nodes and leaves all others as they are; pure."""
    # Without a rolling update: a changed template would otherwise start all its pods anew.
    rules = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in sorted(nodes)]
    terms = {"nodeSelectorTerms": [{"matchFields": rules}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": None},
        "template": {"spec": {"affinity": affinity}},
    }


def settled(workload: Json) -> bool:
    """Whether a Deployment or DaemonSet runs all it wants, of its newest template, and nothing else; pure."""
    status: Callable[..., int] = (workload.get("status") or {}).get
    if status("observedGeneration", 0) < workload["metadata"]["generation"]:
        return False
    if workload["kind"] == "DaemonSet":
        wanted = status("desiredNumberScheduled", 0)
        return wanted == status("updatedNumberScheduled", 0) == status("numberAvailable", 0)
    wanted = workload["spec"].get("replicas", 1)
    return bool(wanted == status("updatedReplicas", 0) == status("replicas", 0) == status("availableReplicas", 0))
