"""The Kubernetes backend: one cluster on which kvberth is installed, for one scenario after the other."""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kvberth.kube import ClientSettings, KubeError
from kvberth.kube.resources import DAEMON_SETS, DEPLOYMENTS, EVENTS, KVCACHES, NODES, PODS
from kvberth.scenario.backend.asked import StatusAsked, printed
from kvberth.scenario.backend.keeping import keep_events
from kvberth.scenario.backend.kubernetes import cluster, observed
from kvberth.scenario.backend.kubernetes.api import Api, open_client
from kvberth.scenario.backend.kubernetes.driver import NodeDriver
from kvberth.scenario.backend.kubernetes.evictions import Evictions
from kvberth.scenario.backend.kubernetes.eyes import Eyes
from kvberth.scenario.backend.kubernetes.forward import Forward
from kvberth.scenario.backend.kubernetes.install import AGENT, Install
from kvberth.scenario.backend.kubernetes.look import Looker
from kvberth.scenario.backend.kubernetes.nodes import Nodes
from kvberth.scenario.backend.kubernetes.objects import Objects
from kvberth.scenario.backend.kubernetes.observed import INSTALLED
from kvberth.scenario.backend.kubernetes.signals import Signals
from kvberth.scenario.backend.kubernetes.witness import ONLOOKERS_PORT, SERVICES_PORT
from kvberth.scenario.backend.listener import Listener
from kvberth.scenario.backend.protocol import ScenarioError, Setting, Unfit
from kvberth.scenario.backend.publish import among, publish
from kvberth.scenario.durations import Timing
from kvberth.scenario.facts import Facts, Heard, Mark
from kvberth.scenario.format import Expectation, Scenario, Step
from kvberth_schemas.subjects import Service

T = TypeVar("T")

READY_WITHIN_S = 120.0
REST_S = 0.1
QUIET_S = 1.0
"""The bus has told its history once it says nothing for so long."""
_DECIDERS = ("nats", "placement", "pod-watcher")


@dataclass
class ClusterWorld:
    """The cluster, while a scenario is told on it."""

    api: Api
    listener: Listener
    looker: Looker
    objects: Objects
    nodes: Nodes
    signals: Signals
    timing: Timing
    way_node: str | None = None
    """Whose witness the services' ways lead through that a scenario lets fail."""
    looked: float = 0.0
    """When the last look ended, by the loop's clock."""

    @property
    def heard(self) -> Sequence[Heard]:
        """Everything that was said on the bus since the scenario began."""
        return self.listener.heard

    async def changed(self, timeout_s: float) -> None:
        """Wait until something new was said, at most so long; a look costs the nodes time, so rest after one."""
        await self.listener.changed(timeout_s)
        await asyncio.sleep(self.looked + REST_S - asyncio.get_running_loop().time())

    async def look(self, expectations: Sequence[Expectation]) -> Facts:
        """Find out what expectations are about."""
        if self.listener.overflown:
            raise ScenarioError(f"the bus said more than {len(self.heard)} messages; a scenario keeps no more")
        try:
            return await self.looker.look(expectations)
        except KubeError as error:
            raise ScenarioError(f"the cluster can't be looked at: {error}") from error
        finally:
            self.looked = asyncio.get_running_loop().time()

    async def do(self, step: Step, marks: Mapping[str, Mark]) -> str:
        """Carry out a verb."""
        await self.looker.status.close()  # what is asked now says nothing of what is done now
        try:
            return await self._do(step.kind, step.value, marks)
        except KubeError as error:
            raise ScenarioError(str(error)) from error

    async def _do(self, kind: str, value: Any, marks: Mapping[str, Mark]) -> str:  # noqa: ANN401 (a verb's own type)
        match kind:
            case "apply" | "delete" | "patch" | "scale":
                return str(await getattr(self.objects, kind)(value))
            case "drain":
                await self.nodes.cordon(value)
                return await self.objects.drain(value)
            case "cordon" | "uncordon" | "node_label" | "node_down" | "node_up" | "node_delete":
                return str(await getattr(self.nodes, kind.removeprefix("node_"))(value))
            case "kill":
                return await self.signals.kill(value.target, value.signal)
            case "pause" | "resume" | "restart" | "stop" | "start":
                return str(await getattr(self.signals, kind)(value))
            case "wipe":
                return await self.signals.wipe_nats()
            case "files" | "peer" | "fault" | "fill" | "free":
                said = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
                if kind == "fault":
                    said["delay"] = f"{self.timing.seconds(value.delay) * 1000:.0f}ms"
                node = value.node or self.way_node
                assert node is not None  # every scenario that lets a way fail has one
                return await self.looker.eyes.do(kind, node, said)
            case "publish":
                return await publish(value, self.listener.settings, lambda: among(value, self.heard, marks))
        raise ScenarioError(f"a cluster has no verb '{kind}'")

    async def clear(self, nodes: Collection[str]) -> None:
        """Have services that decide leave nodes that will be lost: whether they are there would be chance."""
        for node in nodes:
            await self.nodes.cordon(node)
        await self.signals.install.leave(nodes)

    async def set(self, scenario: Scenario, troubled: Collection[str]) -> None:
        """Give services the settings of a scenario, and where it lets NATS or the API server fail a way that can."""
        bus, api = None, None
        if cut := cluster.cuts(scenario):
            way = await self.looker.eyes.way(troubled)
            if way is None:
                raise ScenarioError("no witness is ready, through which the services' ways could lead")
            self.way_node = way.node
            bus = f"nats://{way.address}:{SERVICES_PORT}" if "bus" in cut else None
            api = way.address if "api" in cut else None
        await self.signals.install.give(cluster.settings(scenario, self.timing, bus), api)

    async def ready(self, nodes: Sequence[str]) -> None:
        """Wait until the install works and the bus has told its history, which is no part of the scenario."""
        deadline = asyncio.get_running_loop().time() + READY_WITHIN_S
        while lacks := await self._lacks(nodes):
            if asyncio.get_running_loop().time() > deadline:
                raise ScenarioError(f"kvberth does not work on this cluster: {lacks}, for {READY_WITHIN_S:g} s")
            await self.changed(0.2)
        heard = -1
        while heard != len(self.heard):
            heard = len(self.heard)
            await asyncio.sleep(QUIET_S)  # silence is what is waited for
        self.listener.heard.clear()

    async def _lacks(self, nodes: Sequence[str]) -> str | None:
        pods = [pod for pod in await self.api.list(PODS, INSTALLED) if "deletionTimestamp" not in pod["metadata"]]
        up = [pod for pod in pods if observed.pod_state(pod).ready]
        names = {(pod["metadata"].get("labels") or {}).get("app.kubernetes.io/name") for pod in up}
        if missing := [name for name in _DECIDERS if name not in names]:
            return f"no pod of {', '.join(missing)} is ready"
        agents = {pod["spec"].get("nodeName") for pod in up if observed.role(pod) == "node_agent"}
        if silent := sorted(set(nodes) - agents):
            return f"no agent is ready on {', '.join(silent)}"
        facts = self.listener.facts()
        return None if facts.scheduler_known and facts.placement_known else "its services say nothing on the bus"

    async def end(self) -> list[str]:
        """Make the cluster what it was; give what is left over."""
        await self.looker.status.close()
        left = [*await self.signals.revive(), *await self.nodes.raise_all()]
        try:
            left += await self.objects.remove_all()
        except KubeError as error:
            left.append(str(error))
        left += [*await self.nodes.restore(), *await self.signals.install.take_back()]
        return left + await self.looker.eyes.rest()

    async def keep(self, folder: Path) -> None:
        """Write logs, objects and events into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        keep_events(folder, self.heard)
        for resource in (PODS, NODES, KVCACHES, DAEMON_SETS, DEPLOYMENTS, EVENTS):
            try:
                found = await self.api.list(resource)
            except KubeError as error:
                found = [{"error": str(error)}]
            (folder / f"{resource.plural}.json").write_text(json.dumps(found, indent=1))
        silent = self.nodes.paused | self.looker.down  # nobody gives logs there, and each request would be waited for
        for pod in await self.api.list(PODS):
            if observed.role(pod) is not None and pod["spec"].get("nodeName") not in silent:
                await self._keep_logs(pod, folder)

    async def _keep_logs(self, pod: Mapping[str, Any], folder: Path) -> None:
        meta = pod["metadata"]
        for container in pod["spec"]["containers"]:
            for previous in (False, True):
                lines = await self.api.log(meta["namespace"], meta["name"], container["name"], previous=previous)
                if not isinstance(lines, str):
                    end = "previous.log" if previous else "log"
                    (folder / f"{meta['name']}.{container['name']}.{end}").write_text("\n".join(lines) + "\n")


class KubernetesBackend:
    """One cluster."""

    name = "kubernetes"
    abilities = cluster.ABILITIES
    promised = cluster.PROMISED

    def __init__(self, kubeconfig: Path | None, node_driver: str | None) -> None:
        """`kubeconfig` None: as kubectl finds it; `node_driver`: called as ``COMMAND VERB NODE``."""
        self._kubeconfig, self._node_driver = kubeconfig, node_driver
        self._token: str | None = None
        """Of the witnesses that this run put on the nodes."""

    async def fitted(self, setting: Setting) -> Scenario:
        """Give the scenario with the cluster's names of its nodes."""
        scenario = setting.scenario
        if reason := cluster.unfit(scenario, has_driver=self._node_driver is not None):
            raise Unfit(reason)
        async with _reached(self._kubeconfig) as api:
            there = await api.list(NODES)
        try:
            names = cluster.assigned(scenario.nodes, there)
        except ValueError as error:
            raise Unfit(str(error)) from error
        by_name = {node["metadata"]["name"]: node for node in there}
        for spec in scenario.nodes:
            if lacks := cluster.too_small(spec, by_name[names[spec.name]]):
                raise Unfit(lacks)
        return cluster.renamed(scenario, names)

    @asynccontextmanager
    async def world(self, setting: Setting) -> AsyncIterator[ClusterWorld]:
        """Tell one scenario on the cluster; afterwards it is as before."""
        scenario, kubeconfig = setting.scenario, ClientSettings(kubeconfig=self._kubeconfig)
        specs = {spec.name: spec for spec in scenario.nodes}
        troubled = cluster.troubled(scenario)
        async with _reached(self._kubeconfig) as api:
            eyes = await self._eyes(api, list(specs))

            async def way() -> str | None:
                # Not to NATS itself: who hears it through its own kubelet hears nothing while that one is paused.
                found = await eyes.way(troubled)
                return found.pod if found else None

            async with (
                Forward(kubeconfig, INSTALLED, ONLOOKERS_PORT, way) as forward,
                Listener(f"nats://127.0.0.1:{forward.port}", Service.POD_WATCHER) as listener,
                Evictions(api) as evictions,
            ):
                looker = Looker(
                    api, eyes, list(specs), listener.heard, StatusAsked(partial(_status, listener.settings.url))
                )
                nodes = Nodes(looker, NodeDriver(self._node_driver))
                objects = Objects(looker, setting, evictions)
                signals = Signals(looker, nodes, Install(api))
                world = ClusterWorld(api, listener, looker, objects, nodes, signals, setting.timing)
                left: list[str] = []
                try:
                    await world.set(scenario, troubled)
                    await world.clear(cluster.lost(scenario))
                    await nodes.prepare(specs)
                    await world.ready(list(specs))
                    yield world
                finally:
                    left = await _whole(world.end())
        if left:
            raise ScenarioError(f"the scenario left something behind: {'; '.join(left)}")

    async def close(self) -> None:
        """Take the witnesses away. Raises ScenarioError."""
        if self._token is not None:
            async with _reached(self._kubeconfig) as api:
                await _whole(Eyes(api, INSTALLED, self._token).close())

    async def _eyes(self, api: Api, nodes: Sequence[str]) -> Eyes:
        """Put witnesses on the nodes, with the image that the node agents have; they stay for the run's next story."""
        agent = await api.get(DAEMON_SETS, INSTALLED, AGENT)
        if agent is None:
            raise ScenarioError(
                f"kvberth is not installed on this cluster, there is no DaemonSet {INSTALLED}/{AGENT}: "
                "kubectl apply -k k8s/overlays/default"
            )
        if cluster.asks_for_keys(agent):
            raise ScenarioError(
                "the bus of this cluster asks for keys, and none may hear all that a scenario has to; tell scenarios "
                "where kvberth is installed without the component nkeys"
            )
        self._token = self._token or secrets.token_hex(16)
        eyes = Eyes(api, INSTALLED, self._token)
        await eyes.open(agent["spec"]["template"]["spec"]["containers"][0]["image"], nodes)
        return eyes


async def _status(bus: str) -> str:
    """Ask `kvberth status` of a bus, as a user with no setting of their own would."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("KVBERTH_")}
    return await printed(("status",), {**env, "KVBERTH_NATS_URL": bus})


@asynccontextmanager
async def _reached(kubeconfig: Path | None) -> AsyncIterator[Api]:
    """Give a way to the API server; what it refuses outside of steps is the scenario's failure, in a sentence."""
    try:
        async with open_client(kubeconfig) as client:
            yield Api(client)
    except KubeError as error:
        raise ScenarioError(f"the cluster can't be used: {error}") from error


async def _whole(ending: Coroutine[Any, Any, T]) -> T:
    """Await an end that goes on when the scenario is cancelled: half of it would leave a cluster changed."""
    task = asyncio.create_task(ending, name="end of a scenario")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise
