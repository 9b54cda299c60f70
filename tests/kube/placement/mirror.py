"""The others on the bus, played from what the API server really has: pod_watcher's events, agents that answer for
caches, and kubelets that let their pods end.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from kube.placement.played import MODEL, OURS, Json, pod_event, ready, requests, role_of, workload_of
from kube.rig import delete, items
from kvberth.bus import Writer
from kvberth.kube import Client, NotFound
from kvberth.kube.resources import DEPLOYMENTS, KVCACHES, NODES, PODS, STATEFUL_SETS
from kvberth_schemas import subjects
from kvberth_schemas.events import (
    KVCacheGoneV1,
    KVCacheSpecV1,
    NodeChangedV1,
    PodGoneV1,
    Resources,
    SocketGoneV1,
    SocketLostReason,
    SocketLostV1,
    SocketReadyV1,
    Taint,
)
from kvberth_schemas.quantity import parse_quantity
from kvberth_schemas.wants import DirWantV1

LOOK_S = 0.03


@dataclass
class Mirror:
    """One namespace of the cluster as the bus hears of it, and its pods' kubelets."""

    client: Client
    namespace: str
    watcher: Writer
    agents: dict[str, Writer]
    directory: Callable[[str, str], DirWantV1 | None]
    """What is asked for of a directory, by node and KVCache."""
    pods: dict[str, Json] = field(default_factory=dict)
    kvcaches: dict[str, Json] = field(default_factory=dict)
    sockets: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """By KVCache and node: the pod that was last said to answer; None: it no longer does."""
    answers: Callable[[Json], bool] = field(default=lambda _: True)
    """Whether the daemon in a cache's pod answers."""
    ends_pods: bool = True
    """Whether caches' pods that were told to end do so."""

    async def run(self) -> None:
        """Look and tell, until cancelled."""
        while True:
            await self._tell_nodes()
            await self._tell_kvcaches()
            await self._tell_pods()
            self._tell_sockets()
            await asyncio.sleep(LOOK_S)

    async def _tell_nodes(self) -> None:
        for node in await items(self.client, NODES, None, f"stage={self.namespace}"):
            name, spec = node["metadata"]["name"], node["spec"]
            amounts = node["status"].get("allocatable")
            if amounts is None:
                continue  # just created: its status is written in a second request
            is_ready = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")["status"] == "True"
            event = NodeChangedV1(
                name=name,
                resource_version=0,
                ready=is_ready,
                unschedulable=spec.get("unschedulable", False),
                taints=tuple(Taint.model_validate(one) for one in spec.get("taints", [])),
                labels=node["metadata"]["labels"],
                allocatable=Resources(
                    cpu_millis=int(parse_quantity(amounts["cpu"]) * 1000),
                    memory_bytes=int(parse_quantity(amounts["memory"])),
                ),
                requested=self._requested(name),
            )
            self.watcher.put(subjects.node(name), event)

    def _requested(self, node: str) -> Resources:
        here = [requests(pod["spec"]) for pod in self.pods.values() if pod["spec"].get("nodeName") == node]
        return Resources(
            cpu_millis=sum(one.cpu_millis for one in here), memory_bytes=sum(one.memory_bytes for one in here)
        )

    async def _tell_kvcaches(self) -> None:
        seen = {}
        for item in await items(self.client, KVCACHES, self.namespace):
            meta = item["metadata"]
            seen[meta["name"]] = item
            manifest = {key: value for key, value in item.items() if key != "status"}
            manifest["metadata"] = {key: meta[key] for key in ("name", "namespace", "annotations") if key in meta}
            event = KVCacheSpecV1(
                uid=meta["uid"],
                name=meta["name"],
                namespace=self.namespace,
                generation=meta["generation"],
                resource_version=0,
                created=datetime.fromisoformat(meta["creationTimestamp"]),
                deleting="deletionTimestamp" in meta,
                manifest=manifest,
            )
            self.watcher.put(subjects.spec(self.namespace, meta["name"]), event)
        for name in self.kvcaches.keys() - seen.keys():
            uid = self.kvcaches[name]["metadata"]["uid"]
            gone = KVCacheGoneV1(uid=uid, name=name, namespace=self.namespace, by_user=True, why="deleted")
            self.watcher.put(subjects.spec(self.namespace, name), gone)
        self.kvcaches = seen

    async def _tell_pods(self) -> None:
        owners = [
            one for kind in (DEPLOYMENTS, STATEFUL_SETS) for one in await items(self.client, kind, self.namespace)
        ]
        wanted = {item["metadata"]["name"]: int(item["spec"]["replicas"]) for item in owners}
        seen = {pod["metadata"]["uid"]: pod for pod in await items(self.client, PODS, self.namespace)}
        for uid, pod in seen.items():
            if role_of(pod) is not None:
                self.watcher.put(subjects.pod(self.namespace, uid), pod_event(self.namespace, pod, wanted))
            if self.ends_pods and OURS in pod["metadata"]["labels"] and "deletionTimestamp" in pod["metadata"]:
                await self._let_end(pod["metadata"]["name"])
        for uid in self.pods.keys() - seen.keys():
            pod = self.pods[uid]
            if (role := role_of(pod)) is not None:
                gone = PodGoneV1(
                    uid=uid,
                    name=pod["metadata"]["name"],
                    namespace=self.namespace,
                    node=pod["spec"].get("nodeName"),
                    role=role,
                    model=pod["metadata"]["labels"].get(MODEL),
                    workload=workload_of(pod, wanted),
                    why="ended",
                )
                self.watcher.put(subjects.pod(self.namespace, uid), gone)
        self.pods = seen

    async def _let_end(self, pod: str) -> None:
        try:
            await delete(self.client, PODS, self.namespace, pod, gracePeriodSeconds=0)
        except NotFound:
            return

    def _tell_sockets(self) -> None:
        """Agents: each pod of a cache is a daemon that answers while it is there, until its directory is dropped."""
        alive = {
            (pod["metadata"]["labels"][OURS], pod["spec"]["nodeName"]): uid
            for uid, pod in sorted(self.pods.items(), key=lambda one: "deletionTimestamp" not in one[1]["metadata"])
            if OURS in pod["metadata"]["labels"] and pod["spec"].get("nodeName") in self.agents and self.answers(pod)
        }
        for name, node in alive.keys() | self.sockets.keys():
            said, now, want = self.sockets.get((name, node)), alive.get((name, node)), self.directory(node, name)
            event = _socket_event(self.namespace, (name, node), said, now, want)
            if event is not None:
                self.agents[node].put(subjects.socket(node, self.namespace, name), event)
                if isinstance(event, SocketGoneV1):
                    del self.sockets[name, node]
                else:
                    self.sockets[name, node] = now


def _socket_event(
    namespace: str, place: tuple[str, str], said: str | None, now: str | None, want: DirWantV1 | None
) -> SocketReadyV1 | SocketLostV1 | SocketGoneV1 | None:
    name, node = place
    if now is not None:
        kept = want is not None and want.state == "keep"
        return ready(namespace, name, node, incarnation=now) if kept and said != now else None
    if want is None or want.state == "drop":
        return SocketGoneV1(cache=name, namespace=namespace, node=node)
    if said is None:
        return None
    path = f"/var/run/vineyard-kubernetes/{namespace}/{name}/vineyard.sock"
    why = "nobody listens"
    return SocketLostV1(
        cache=name, namespace=namespace, node=node, path=path, reason=SocketLostReason.MISSING, message=why
    )
