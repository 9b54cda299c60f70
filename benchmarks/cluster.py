"""A cluster under measurement: one engine and its cache, moved to and fro between two nodes, and the witness on each.

Everything is asked of the API server, as kubectl would; nothing here measures.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from kvberth.kube import NotFound, Resource
from kvberth.kube.resources import DAEMON_SETS, DEPLOYMENTS, KVCACHES, NODES, PODS, SERVICES
from kvberth.scenario.backend.kubernetes import adapt
from kvberth.scenario.backend.kubernetes.api import Api
from kvberth.scenario.backend.kubernetes.cluster import claim, gpus
from kvberth.scenario.backend.kubernetes.objects import SECRETS
from kvberth.scenario.durations import Timing

MANIFEST: Final = Path(__file__).parents[1] / "examples" / "llama-3-8b-l20" / "engine-and-kvcache.yaml"
WITNESS: Final = Path(__file__).with_name("cluster_witness.py")
KVCACHE: Final = "aibrix-kvcache-llama-3-8b-instruct"
ENGINE: Final = "llama-3-8b-instruct"
NAMESPACE: Final = "default"
INSTALLED: Final = "kvberth"
STEP_WITHIN_S: Final = 90.0
_AGENTS: Final = "kvberth-node"
_NAME: Final = "kvberth-move-witness"
_SOCKETS: Final = "/var/run/vineyard-kubernetes"
_POLL_S: Final = 0.05
_KINDS: Final[Mapping[str, Resource]] = {"Deployment": DEPLOYMENTS, "Service": SERVICES, "KVCache": KVCACHES}

Json = dict[str, Any]
T = TypeVar("T")


async def until(look: Callable[[], Awaitable[T | None]], what: str) -> T:
    """Wait until a look finds something; TimeoutError, with what was waited for, when it does not."""
    deadline = time.monotonic() + STEP_WITHIN_S
    while not (found := await look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {STEP_WITHIN_S:g} s")
        await asyncio.sleep(_POLL_S)
    return found


@dataclass
class Cluster:
    """The two nodes, the engine on one of them, and who may be asked."""

    api: Api
    nodes: tuple[str, str]

    async def pods(self, label: str, namespace: str = NAMESPACE) -> list[Json]:
        """Give the pods with a label."""
        return await self.api.list(PODS, namespace, label)

    async def engine(self) -> Json | None:
        """Give the engine's pod once it has a node and is to stay."""
        found = [pod for pod in await self.pods(f"model.aibrix.ai/name={ENGINE}") if pod["spec"].get("nodeName")]
        staying = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return staying[0] if len(staying) == 1 else None

    async def settled(self, node: str) -> str:
        """Wait until the engine is ready there, and it and its cache are alone; give the engine's pod."""

        async def alone() -> str | None:
            engines, caches = (
                await self.pods(f"model.aibrix.ai/name={ENGINE}"),
                await self.pods(f"kvberth.dev/kvcache={KVCACHE}"),
            )
            there = [pod for pod in (*engines, *caches) if pod["spec"].get("nodeName") == node and _is_ready(pod)]
            return str(engines[0]["metadata"]["name"]) if len(engines) == len(caches) == 1 and len(there) == 2 else None

        return await until(alone, f"engine and cache are ready on {node}, and nowhere else")

    async def cordon(self, node: str, *, cordoned: bool) -> None:
        """Keep new pods from a node, or let them come."""
        await self.api.merge(NODES, None, node, {"spec": {"unschedulable": cordoned or None}})

    async def patch(self, *nodes: str) -> None:
        """Give the DaemonSet of the cache its nodes."""
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        body = {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": required}}}}}
        await self.api.merge(DAEMON_SETS, NAMESPACE, KVCACHE, body)

    async def answers(self, node: str) -> list[float]:
        """Give when the witness of a node was first answered by each life of a daemon."""
        for pod in await self.pods(f"app.kubernetes.io/name={_NAME}"):
            if pod["spec"].get("nodeName") == node:
                lines = await self.api.log(NAMESPACE, pod["metadata"]["name"], "witness")
                return [float(line.split()[0]) for line in lines] if not isinstance(lines, str) else []
        raise RuntimeError(f"there is no witness on {node}")

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Keep everything of kvberth away that runs."""
        former = {
            one["metadata"]["name"]: one["spec"]["replicas"] for one in await self.api.list(DEPLOYMENTS, INSTALLED)
        }
        nowhere = {"spec": {"template": {"spec": {"nodeSelector": {"kvberth.dev/none": "none"}}}}}
        anywhere = {"spec": {"template": {"spec": {"nodeSelector": {"kvberth.dev/none": None}}}}}
        try:
            for name in former:
                await self.api.merge(DEPLOYMENTS, INSTALLED, name, {"spec": {"replicas": 0}}, "scale")
            await self.api.merge(DAEMON_SETS, INSTALLED, _AGENTS, nowhere)
            await until(self._nothing_runs, "nothing of kvberth runs")
            yield
        finally:
            await self.api.merge(DAEMON_SETS, INSTALLED, _AGENTS, anywhere)
            for name, replicas in former.items():
                await self.api.merge(DEPLOYMENTS, INSTALLED, name, {"spec": {"replicas": replicas}}, "scale")
        await until(self._all_runs, "all of kvberth runs again")

    async def _nothing_runs(self) -> bool:
        return not await self.api.list(PODS, INSTALLED)

    async def _all_runs(self) -> bool:
        wanted = [one["spec"]["replicas"] for one in await self.api.list(DEPLOYMENTS, INSTALLED)]
        pods = await self.api.list(PODS, INSTALLED)
        return len(pods) == sum(wanted) + len(await self.api.list(NODES)) and all(map(_is_ready, pods))


@asynccontextmanager
async def brought_up(api: Api) -> AsyncIterator[Cluster]:
    """Put the engine, its cache and the witnesses on a cluster; afterwards it is as before."""
    taking = [node for node in await api.list(NODES) if not node["spec"].get("unschedulable")]
    names = sorted(node["metadata"]["name"] for node in taking)
    without = [node["metadata"]["name"] for node in taking if not gpus(node)]
    if len(names) < 2:
        raise RuntimeError(f"a move needs two nodes that take pods, this cluster has {len(names)}")
    cluster = Cluster(api, (names[0], names[1]))
    agent = await api.get(DAEMON_SETS, INSTALLED, _AGENTS)
    if agent is None:
        raise RuntimeError("kvberth is not installed: kubectl apply -k k8s/overlays/default")
    image = agent["spec"]["template"]["spec"]["containers"][0]["image"]
    objects = [(_KINDS[item["kind"]], item) for item in map(_adapted, yaml.safe_load_all(MANIFEST.read_text()))]
    secrets = [(SECRETS, secret) for _, item in objects for secret in _secrets(item)]
    everything = [(DAEMON_SETS, _witness(image)), *secrets, *objects]
    try:
        for node in without:  # no device is needed, and the engine asks for one
            await api.merge(NODES, None, node, claim(1), "status")
        for node in names[1:]:
            await cluster.cordon(node, cordoned=True)
        for resource, item in everything:
            await api.apply(resource, item)
        await cluster.settled(names[0])
        yield cluster
    finally:
        for resource, item in reversed(everything):
            try:
                await api.delete(resource, NAMESPACE, item["metadata"]["name"])
            except NotFound:
                continue
        for node in names:
            await cluster.cordon(node, cordoned=False)
        for node in without:
            await api.merge(NODES, None, node, claim(0), "status")


def _adapted(item: Json) -> Json:
    found = adapt.adapted(item, Timing())
    found["metadata"]["namespace"] = NAMESPACE
    return found


def _secrets(item: Json) -> list[Json]:
    keys: dict[str, list[str]] = {}
    for name, key in adapt.secrets_named(item):
        keys.setdefault(name, []).append(key)
    return [adapt.secret(NAMESPACE, name, needed) for name, needed in keys.items()]


def _witness(image: str) -> Json:
    socket = f"{_SOCKETS}/{NAMESPACE}/{KVCACHE}/vineyard.sock"
    container = {
        "name": "witness",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", WITNESS.read_text(encoding="utf-8"), socket],
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "caches", "mountPath": _SOCKETS, "readOnly": True}],
    }
    labels = {"app.kubernetes.io/name": _NAME}
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "caches", "hostPath": {"path": _SOCKETS, "type": "DirectoryOrCreate"}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def _is_ready(pod: Json) -> bool:
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions") or ()}
    return "deletionTimestamp" not in pod["metadata"] and conditions.get("Ready") == "True"
