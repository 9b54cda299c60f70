"""Two engines with a cache each, on a cluster where kvberth is installed: one is moved, the other stays where it is.

What is told of them comes from the API server, from the gate's own word, and from a witness on each node that is not
ours. The mover is moved by the node selector of its Deployment, so that no node has to be closed to anybody else.
"""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from benchmarks.cluster import INSTALLED, MANIFEST, NAMESPACE, WITNESS, Json, until
from tests.ha.hands import SOCKETS, Hands, Process

from kvberth.kube import NotFound, Resource
from kvberth.kube.resources import DAEMON_SETS, DEPLOYMENTS, KVCACHES, LEASES, NODES, PODS, SERVICES
from kvberth.scenario.backend.kubernetes import adapt
from kvberth.scenario.backend.kubernetes.api import Api
from kvberth.scenario.backend.kubernetes.cluster import claim, gpus
from kvberth.scenario.backend.kubernetes.objects import SECRETS
from kvberth.scenario.durations import Timing

MOVER, RESTER = "llama-3-8b-instruct", "llama-3-8b-resting"
KVCACHE: Final = "aibrix-kvcache-{}"
WITNESSES: Final = "kvberth-test-witness"
OURS: Final = ("nats", "placement", "pod-watcher", "kvberth-node")
_KINDS: Final[dict[str, Resource]] = {"Deployment": DEPLOYMENTS, "Service": SERVICES, "KVCache": KVCACHES}


@dataclass(frozen=True)
class Engine:
    """An engine's pod as it came to rest."""

    name: str
    node: str
    restarts: int
    gate: str
    """How its gate ended: ``open`` where the cache answered."""


@dataclass(frozen=True)
class Lives:
    """Every life of every cache that a witness saw, and the pods that it was asked through: (node, engine) -> times."""

    seen: dict[tuple[str, str], tuple[float, ...]]


@dataclass
class World:
    """The two engines, their nodes, and who may be asked."""

    api: Api
    hands: Hands
    nodes: tuple[str, ...]
    """The mover is on the first or the second, the other engine on the last."""
    at: int = 0

    @property
    def source(self) -> str:
        """Where the mover is."""
        return self.nodes[self.at]

    @property
    def target(self) -> str:
        """Where it goes next."""
        return self.nodes[1 - self.at]

    async def send(self) -> None:
        """Have the mover go to the other node."""
        await self._select(MOVER, self.target)
        self.at = 1 - self.at

    async def bound(self) -> float:
        """Wait until its new pod has its node; when, in seconds since the epoch, to a poll."""

        async def look() -> float | None:
            found = [pod for pod in await self.engines(MOVER) if pod["spec"].get("nodeName") == self.source]
            return time.time() if [pod for pod in found if "deletionTimestamp" not in pod["metadata"]] else None

        return await until(look, f"an engine is bound to {self.source}")

    async def settled(self, model: str, node: str) -> Engine:
        """Wait until an engine is ready there, and it and its cache are alone."""

        async def look() -> Engine | None:
            engines = await self.engines(model)
            caches = await self.api.list(PODS, NAMESPACE, f"kvberth.dev/kvcache={KVCACHE.format(model)}")
            there = [pod for pod in (*engines, *caches) if pod["spec"].get("nodeName") == node and is_ready(pod)]
            return _engine(engines[0]) if len(engines) == len(caches) == 1 and len(there) == 2 else None

        return await until(look, f"{model} and its cache are ready on {node}, and nowhere else")

    async def rested(self) -> None:
        """Wait until everything of kvberth is ready and says so of both KVCaches."""

        async def look() -> bool:
            pods = await self.api.list(PODS, INSTALLED)
            items = await self.api.list(KVCACHES, NAMESPACE)
            names = {pod["metadata"]["labels"].get("app.kubernetes.io/name") for pod in pods}
            return names == set(OURS) and all(map(is_ready, pods)) and len(items) == 2 and all(map(is_ready, items))

        await until(look, "all of kvberth is ready, and so are both KVCaches")

    async def renew(self) -> None:
        """Let pods come to every node, and replace every process of kvberth that was started again.

        A kubelet lets the next life of such a one wait.
        """
        for node in self.nodes:
            await self.cordon(node, cordoned=False)
        for pod in await self.api.list(PODS, INSTALLED):
            if any(one["restartCount"] for one in pod["status"].get("containerStatuses") or ()):
                await self.api.delete(PODS, INSTALLED, pod["metadata"]["name"])
        await self.rested()

    async def lose(self, process: Process) -> None:
        """Take a pod away at once, with all that it stored."""
        await self.hands.do(process.node, "send", process.container, "KILL")
        await self.api.delete(PODS, INSTALLED, process.pod, grace_s=0)

    async def engines(self, model: str) -> list[Json]:
        """Give the pods of an engine."""
        return await self.api.list(PODS, NAMESPACE, f"model.aibrix.ai/name={model}")

    async def lives(self) -> Lives:
        """Give what the witnesses saw so far."""
        seen = {}
        for pod in await self.api.list(PODS, NAMESPACE, f"app.kubernetes.io/name={WITNESSES}"):
            for model in (MOVER, RESTER):
                lines = await self.api.log(NAMESPACE, pod["metadata"]["name"], model)
                if isinstance(lines, str):
                    raise RuntimeError(  # noqa: TRY004 - no lines are an answer, too
                        f"the witness on {pod['spec']['nodeName']} can't be heard: {lines}"
                    )
                seen[pod["spec"]["nodeName"], model] = tuple(float(line.split()[0]) for line in lines)
        return Lives(seen)

    async def process(self, service: str, which: str) -> Process:
        """Give a process of the install: ``leader``, ``standby``, ``source``, ``target`` or ``only``."""
        found = await self.api.list(PODS, INSTALLED, f"app.kubernetes.io/name={service}")
        if which in {"leader", "standby"}:
            leader = await (self.bus_leader() if service == "nats" else self.holder(service))
            found = [one for one in found if (one["metadata"]["name"] == leader) == (which == "leader")]
        elif which in {"source", "target"}:
            found = [one for one in found if one["spec"]["nodeName"] == getattr(self, which)]
        return Process.of(found[0])

    async def holder(self, service: str) -> str:
        """Give the pod that holds a service's Lease; empty for nobody."""
        return (await self.lease(service))[0]

    async def lease(self, service: str) -> tuple[str, int]:
        """Give who holds a service's Lease, and its term."""
        lease = await self.api.get(LEASES, INSTALLED, f"kvberth-{service}")
        spec = (lease or {}).get("spec") or {}
        return str(spec.get("holderIdentity") or "").partition("_")[0], int(spec.get("leaseTransitions") or 0)

    async def renewed(self, service: str) -> str:
        """Give when a service's Lease was renewed last, as it says."""
        lease = await self.api.get(LEASES, INSTALLED, f"kvberth-{service}")
        return str(((lease or {}).get("spec") or {}).get("renewTime"))

    async def cordon(self, node: str, *, cordoned: bool) -> None:
        """Keep new pods from a node, or let them come."""
        await self.api.merge(NODES, None, node, {"spec": {"unschedulable": cordoned or None}})

    async def bus_leader(self, stream: str = "KVBERTH_EVENTS") -> str:
        """Give the pod that leads a stream."""

        async def look() -> str | None:
            for pod in await self.api.list(PODS, INSTALLED, "app.kubernetes.io/name=nats"):
                path = "/jsz?streams=true"
                said = json.loads(await self.api.proxy(INSTALLED, pod["metadata"]["name"], 8222, path))
                streams = [one for account in said.get("account_details") or () for one in account["stream_detail"]]
                leaders = [one["cluster"].get("leader") for one in streams if one["name"] == stream]
                if leaders and leaders[0]:
                    return str(leaders[0])
            return None

        return await until(look, f"{stream} has a leader")

    async def bus_log(self, *words: str) -> dict[str, list[str]]:
        """Give the lines that hold one of these words, by the pod of each server of the bus."""
        found: dict[str, list[str]] = {}
        for pod in await self.api.list(PODS, INSTALLED, "app.kubernetes.io/name=nats"):
            lines = await self.api.log(INSTALLED, pod["metadata"]["name"], "nats")
            if isinstance(lines, str):
                raise RuntimeError(f"{pod['metadata']['name']} can't be heard: {lines}")  # noqa: TRY004 - an answer, too
            found[pod["metadata"]["name"]] = [line for line in lines if any(word in line.lower() for word in words)]
        return found

    async def generation(self) -> int:
        """Give the generation of the mover's DaemonSet."""
        found = await self.api.get(DAEMON_SETS, NAMESPACE, KVCACHE.format(MOVER))
        return int((found or {})["metadata"]["generation"])

    async def _select(self, model: str, node: str) -> None:
        body = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": node}}}}}
        await self.api.merge(DEPLOYMENTS, NAMESPACE, model, body)


@asynccontextmanager
async def brought_up(api: Api, kubeconfig: Path) -> AsyncIterator[World]:
    """Put engines, caches, witnesses and hands on a cluster; afterwards it is as before."""
    nodes = await api.list(NODES)
    names = sorted(node["metadata"]["name"] for node in nodes)
    if len(names) < 3:
        raise RuntimeError(f"this takes three nodes, the cluster has {len(names)}")
    agent = await api.get(DAEMON_SETS, INSTALLED, "kvberth-node")
    if agent is None:
        raise RuntimeError("kvberth is not installed")
    image = agent["spec"]["template"]["spec"]["containers"][0]["image"]
    without = [node["metadata"]["name"] for node in nodes if gpus(node) < 2]
    objects = [
        (kind, item) for model, node in ((MOVER, names[0]), (RESTER, names[-1])) for kind, item in _of(model, node)
    ]
    everything = [(DAEMON_SETS, _witness(image)), *objects]
    world = World(api, Hands(api, kubeconfig), (names[0], names[1], names[-1]))
    try:
        for node in without:  # no device is needed, and each engine asks for one
            await api.merge(NODES, None, node, claim(2), "status")
        await world.hands.open(image)
        for resource, item in everything:
            await api.apply(resource, item)
        await world.settled(MOVER, names[0])
        await world.settled(RESTER, names[-1])
        yield world
    finally:
        for node in world.nodes:
            await world.cordon(node, cordoned=False)
        await world.hands.close()
        for resource, item in reversed(everything):
            try:
                await api.delete(resource, NAMESPACE, item["metadata"]["name"])
            except NotFound:
                continue
        for node in without:
            await api.merge(NODES, None, node, claim(0), "status")
    await _gone(api)


async def _gone(api: Api) -> None:
    async def look() -> bool:
        return not [pod for pod in await api.list(PODS, NAMESPACE) if _is_ours(pod)]

    await until(look, "engines and caches are gone")


def _is_ours(pod: Json) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return "model.aibrix.ai/name" in labels or "kvberth.dev/kvcache" in labels


def _of(model: str, node: str) -> list[tuple[Resource, Json]]:
    """Give the objects of one engine, from the example; its Secrets first."""
    text = MANIFEST.read_text(encoding="utf-8").replace(MOVER, model)
    items = [adapt.adapted(item, Timing()) for item in yaml.safe_load_all(text)]
    found: list[tuple[Resource, Json]] = []
    for item in items:
        item["metadata"]["namespace"] = NAMESPACE
        if item["kind"] == "Deployment":
            item["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
            keys: dict[str, list[str]] = {}
            for name, key in adapt.secrets_named(item):
                keys.setdefault(name, []).append(key)
            found = [(SECRETS, adapt.secret(NAMESPACE, name, needed)) for name, needed in keys.items()] + found
        found.append((_KINDS[item["kind"]], item))
    return found


def _witness(image: str) -> Json:
    program = WITNESS.read_text(encoding="utf-8")
    containers = [
        {
            "name": model,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "-c", program, f"{SOCKETS}/{NAMESPACE}/{KVCACHE.format(model)}/vineyard.sock"],
            "securityContext": {"runAsUser": 0},
            "volumeMounts": [{"name": "caches", "mountPath": SOCKETS, "readOnly": True}],
        }
        for model in (MOVER, RESTER)
    ]
    labels = {"app.kubernetes.io/name": WITNESSES}
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": containers,
        "volumes": [{"name": "caches", "hostPath": {"path": SOCKETS, "type": "DirectoryOrCreate"}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": WITNESSES, "namespace": NAMESPACE, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def _engine(pod: Json) -> Engine:
    status = pod["status"]
    restarts = sum(one["restartCount"] for one in status["containerStatuses"])
    ended = [one.get("state", {}).get("terminated") or {} for one in status.get("initContainerStatuses") or ()]
    gates = [_outcome(one["message"]) for one in ended if '"kvberth"' in one.get("message", "")]
    return Engine(pod["metadata"]["name"], pod["spec"]["nodeName"], restarts, gates[0] if gates else "none")


def _outcome(message: str) -> str:
    said: dict[str, Any] = json.loads(message)
    return str(said["outcome"])


def is_ready(item: Json) -> bool:
    """Whether a pod or KVCache that is to stay says that it is ready."""
    conditions = {one["type"]: one["status"] for one in (item.get("status") or {}).get("conditions") or ()}
    return "deletionTimestamp" not in item["metadata"] and conditions.get("Ready") == "True"
