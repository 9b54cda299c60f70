"""A cluster without kubelets: real API server, controllers and scheduler, a namespace with nodes, and placement on it.

`Stage` is what a test does there as a user, and what it sees; `mirror` plays everybody who is not there.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kube.placement.mirror import Mirror
from kube.placement.played import MODEL, OURS, Json, speaker
from kube.rig import create, delete, get, items, merge
from kvberth.bus import View
from kvberth.kube import Client, NotFound
from kvberth.kube.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    KVCACHES,
    NODES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kvberth.placement.service import main
from kvberth.placement.settings import PlacementSettings
from kvberth.service import Telemetry, open_context
from kvberth_schemas import subjects
from kvberth_schemas.events import KVCacheStatusV1
from kvberth_schemas.subjects import Entity, Service, WantKind, events_of, wants_of
from kvberth_schemas.wants import DirWantV1
from support.api_server import ControlPlane
from support.waiting import until

WORKLOAD = "kvcache.orchestration.aibrix.ai/pod-affinity-workload"


@dataclass
class Stage:
    """One namespace of the cluster, its nodes, and what the bus says of them."""

    client: Client
    plane: ControlPlane
    namespace: str
    url: str
    nodes: tuple[str, ...]
    wants: View
    statuses: View
    mirror: Mirror

    # --- what users do ------------------------------------------------------------------------------------------------

    async def kvcache(self, name: str = "kv", workload: str = "llama", **spec: Any) -> Json:
        size = {"image": "vineyardd:1", "cpu": "100m", "memory": "1Gi"}
        body = {
            "metadata": {"name": name, "annotations": {WORKLOAD: workload}},
            "spec": {"replicas": 1, "cacheSpec": size, **spec},
        }
        return await create(self.client, KVCACHES, self.namespace, body)

    async def engines(
        self,
        name: str = "llama",
        model: str = "llama",
        replicas: int = 1,
        kind: Resource = DEPLOYMENTS,
        **pod: Any,
    ) -> None:
        labels = {"app": name, MODEL: model}
        spec = {
            "nodeSelector": {"stage": self.namespace},
            "containers": [{"name": "engine", "image": "none"}],
            "terminationGracePeriodSeconds": 1,
            **pod,
        }
        body: Json = {
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        if kind is STATEFUL_SETS:
            body["spec"]["serviceName"] = name
        await create(self.client, kind, self.namespace, body)

    async def cordon(self, *nodes: str) -> None:
        """Let pods be bound to all nodes but these."""
        for node in self.nodes:
            await merge(self.client, NODES, None, node, {"spec": {"unschedulable": node in nodes}})

    async def end(self, pod: str, *, force: bool = True) -> None:
        options = {"gracePeriodSeconds": 0} if force else {}
        await delete(self.client, PODS, self.namespace, pod, **options)

    async def age(self, seconds: float = 1.1) -> None:
        """Wait until what was placed is no part of one start with what comes next."""
        since = time.monotonic()
        await until(lambda: time.monotonic() - since > seconds)

    # --- what is seen -------------------------------------------------------------------------------------------------

    async def set_nodes(self, name: str = "kv") -> list[str]:
        """The nodes that the DaemonSet names."""
        try:
            found = await get(self.client, DAEMON_SETS, self.namespace, name)
        except NotFound:
            return []
        affinity = found["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        return [field["values"][0] for term in terms for field in term.get("matchFields", [])]

    async def cache_pods(self, name: str = "kv") -> list[str]:
        """The nodes on which caches' pods are and stay."""
        found = await items(self.client, PODS, self.namespace, f"{OURS}={name}")
        return sorted(pod["spec"].get("nodeName", "?") for pod in found if not pod["metadata"].get("deletionTimestamp"))

    async def engine_pods(self) -> dict[str, str]:
        """Names of the engines' pods that stay, by node."""
        found = await items(self.client, PODS, self.namespace, MODEL)
        stay = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
        return {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in stay if pod["spec"].get("nodeName")}

    async def status(self, name: str = "kv") -> Json:
        return (await get(self.client, KVCACHES, self.namespace, name)).get("status", {})

    async def condition(self, type_: str, name: str = "kv") -> tuple[str, str, str]:
        """Status, reason and message."""
        for one in (await self.status(name)).get("conditions", []):
            if one["type"] == type_:
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    async def says(self, type_: str, reason: str, name: str = "kv", timeout_s: float = 20.0) -> str:
        """Wait until a condition has a reason, and return its message."""

        async def look() -> str:
            _, found, message = await self.condition(type_, name)
            return message if found == reason else ""

        try:
            return str(await until(look, within_s=timeout_s))
        except TimeoutError:
            raise AssertionError(f"{type_} is {await self.condition(type_, name)}, not {reason}") from None

    async def serving(self, *nodes: str, name: str = "kv", timeout_s: float = 20.0) -> None:
        """Wait until a KVCache is Ready with caches on these nodes alone."""

        async def look() -> bool:
            status = await self.status(name)
            rows = sorted(row["node"] for row in status.get("nodes", []) if row["state"] == "serving")
            here = rows == sorted(nodes) == [row["node"] for row in status.get("nodes", [])]
            return here and (await self.condition("Ready", name))[0] == "True"

        try:
            await until(look, within_s=timeout_s)
        except TimeoutError:
            raise AssertionError(f"{name} is not serving on {nodes}: {await self.status(name)}") from None

    async def told(self, name: str = "kv") -> list[str]:
        """Reasons of the Kubernetes Events about a KVCache."""
        found = await items(self.client, EVENTS, self.namespace)
        return [one["reason"] for one in found if one["regarding"].get("name") == name]

    def bus_status(self, name: str = "kv") -> KVCacheStatusV1 | None:
        row = self.statuses.rows.get(subjects.status(self.namespace, name))
        return row.message if row is not None and isinstance(row.message, KVCacheStatusV1) else None

    def directory(self, node: str, name: str = "kv") -> DirWantV1 | None:
        row = self.wants.rows.get(subjects.want(WantKind.DIR, node, self.namespace, name))
        return row.message if row is not None and isinstance(row.message, DirWantV1) else None


async def add_node(client: Client, name: str, stage: str) -> None:
    labels = {"stage": stage, "kubernetes.io/hostname": name}
    await create(client, NODES, None, {"metadata": {"name": name, "labels": labels}})
    amounts = {"cpu": "64", "memory": "500Gi", "pods": "250"}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{**ready, "lastTransitionTime": now}]}
    await merge(client, NODES, None, name, {"status": status}, "status")

    async def open_() -> bool:
        taints = (await get(client, NODES, None, name))["spec"].get("taints", [])
        return not taints  # the controllers take their not-ready taint away

    await until(open_)


@asynccontextmanager
async def stage(
    client: Client, plane: ControlPlane, namespace: str, url: str, letters: str = "abc"
) -> AsyncIterator[Stage]:
    """A namespace with nodes, and everybody but placement, alive until the end."""
    nodes = tuple(f"{namespace}-{letter}" for letter in letters)
    for node in nodes:
        await add_node(client, node, namespace)
    async with AsyncExitStack() as stack:
        entities = (Entity.POD, Entity.NODE, Entity.SPEC)
        bus, watcher = await stack.enter_async_context(speaker(url, Service.POD_WATCHER, None, entities))
        agents = {}
        for node in nodes:
            one = speaker(url, Service.NODE_AGENT, node, (Entity.SOCKET, Entity.HEALTH))
            agents[node] = (await stack.enter_async_context(one))[1]
        wants = await stack.enter_async_context(bus.view([wants_of(WantKind.DIR)]))
        statuses = await stack.enter_async_context(bus.view([events_of(Entity.STATUS)]))
        mirror = Mirror(client, namespace, watcher, agents, lambda node, name: found.directory(node, name))
        found = Stage(client, plane, namespace, url, nodes, wants, statuses, mirror)
        playing = asyncio.create_task(mirror.run())
        try:
            yield found
            assert not playing.done(), playing
        finally:
            playing.cancel()
            await asyncio.wait([playing])
            await _clear(client, namespace, nodes)


async def _clear(client: Client, namespace: str, nodes: tuple[str, ...]) -> None:
    """Take away what later tests would share or hear of: nodes, pods, and what has pods made for ever."""
    for resource in (KVCACHES, DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, SERVICES):
        await _delete_all(client, resource, namespace)

    async def empty() -> bool:
        if await items(client, REPLICA_SETS, namespace) or await items(client, DAEMON_SETS, namespace):
            return False  # these would have pods made anew
        await _delete_all(client, PODS, namespace, gracePeriodSeconds=0)
        return not await items(client, PODS, namespace)

    await until(empty, within_s=40)
    for node in nodes:
        await delete(client, NODES, None, node)


async def _delete_all(client: Client, resource: Resource, namespace: str, **options: Any) -> None:
    for item in await items(client, resource, namespace):
        try:
            await delete(client, resource, namespace, item["metadata"]["name"], **options)
        except NotFound:
            continue


@asynccontextmanager
async def placement(on: Stage, state: Path, **options: Any) -> AsyncIterator[Any]:
    """The service, within this loop, ended at the end; yields its context."""
    given = {"kubeconfig": on.plane.kubeconfig(), "fence": False, "lease_namespace": on.namespace, **options}
    settings = PlacementSettings(nats_url=on.url, state=state, backend="kubernetes", **given)
    telemetry = Telemetry("placement")
    try:
        async with open_context("placement", settings, telemetry) as context, asyncio.TaskGroup() as group:
            running = group.create_task(main(context))
            try:
                yield context
            finally:
                context.stopping.set()
                async with asyncio.timeout(10):
                    await asyncio.wait({running})
    finally:
        await asyncio.to_thread(telemetry.shutdown)
