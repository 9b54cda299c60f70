"""Renders a KVCache's children as Kubernetes objects, and reads back what is asked for from them. Pure.

Whatever is in a body is ours, also after somebody edited it; the term of the writer is added by whoever writes.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from kvberth.kube import Target
from kvberth.kube.resources import DAEMON_SETS, KVCACHES, SERVICES
from kvberth.kvcache import (
    HASH,
    KVCACHE_LABEL,
    SOCKET_GROUP,
    CacheSize,
    KVCacheSpec,
    Variable,
    cache_set_name,
    host_directory,
    rpc_service_name,
)
from kvberth.placement.apply.kubernetes import worker
from kvberth.placement.apply.kubernetes.script import DIRECTORY, RPC_PORT, cache_script
from kvberth.placement.apply.kubernetes.worker import WorkerProgram
from kvberth.placement.states import Priority
from kvberth.placement.tolerated import Tolerated
from kvberth_schemas.quantity import QuantityError, parse_quantity

POOL_LABEL: Final = "kvberth.dev/pool"
PRIORITY: Final = "kvberth.dev/priority"
"""What the priority class of the pods is worth."""
TOUCHED: Final = "kvberth.dev/touched"
"""When a DaemonSet was last pushed, so that its controller tries at once what was refused; compared by nobody."""
CONTAINER: Final = "vineyardd"
_NAMES: Final = "kvcache.orchestration.aibrix.ai"
_NONE: Final = "kvberth.dev/none"
_INTEGER: Final = re.compile(r"-?\d{1,10}")
_SIZE: Final = re.compile(r"--size=(\d+)")

_NO_PROGRAM: Final = WorkerProgram()

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Owner:
    """The KVCache that owns a child."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class CacheSet:
    """The caches of a pool as they should be."""

    owner: Owner
    pool: str
    nodes: tuple[str, ...]
    image: str
    pull_policy: str
    size: CacheSize
    env: tuple[Variable, ...]
    tolerations: frozenset[Tolerated]
    rpc: bool
    priority: Priority
    worker: WorkerProgram = _NO_PROGRAM
    """How its transfer workers are run, where there are any."""


@dataclass(frozen=True, slots=True)
class Child:
    """One object that should be, with a body that holds every field of ours."""

    target: Target
    body: Json


def sets_of(spec: KVCacheSpec, owner: Owner, program: WorkerProgram = _NO_PROGRAM) -> list[CacheSet]:
    """Return the sets of a KVCache, each without a node."""
    pools = [(pool.name, pool.size) for pool in spec.pools] or [("", spec.size)]
    return [
        CacheSet(
            owner=owner,
            pool=name,
            nodes=(),
            image=spec.image,
            pull_policy=spec.image_pull_policy,
            size=size,
            env=spec.env,
            tolerations=frozenset(),
            rpc=False,
            priority=Priority(),
            worker=program,
        )
        for name, size in pools
    ]


def set_name(kvcache: str, pool: str) -> str:
    """Return the name of the DaemonSet of a pool."""
    return cache_set_name(kvcache, pool or None)


def daemon_set(wanted: CacheSet) -> Child:
    """Return the DaemonSet of a pool."""
    chosen = {KVCACHE_LABEL: wanted.owner.name, POOL_LABEL: wanted.pool}
    labels = {**chosen, f"{_NAMES}/name": wanted.owner.name, f"{_NAMES}/role": "cache"}
    digest = set_hash(wanted)
    spec = {
        "updateStrategy": {"type": "OnDelete"},
        "revisionHistoryLimit": 1,
        "selector": {"matchLabels": chosen},
        "template": {"metadata": {"labels": labels, "annotations": {HASH: digest}}, "spec": _pod(wanted)},
    }
    metadata = {
        "labels": dict(labels),
        "annotations": {HASH: digest, PRIORITY: str(wanted.priority.value)},
        "ownerReferences": [owner_reference(wanted.owner)],
    }
    name = set_name(wanted.owner.name, wanted.pool)
    return Child(Target(DAEMON_SETS, wanted.owner.namespace, name), {"metadata": metadata, "spec": spec})


def rpc_service(owner: Owner, port: int, traffic_policy: str) -> Child:
    """Return the Service that legacy engines know; it leads to the cache of their own node."""
    metadata = {
        "labels": {KVCACHE_LABEL: owner.name, f"{_NAMES}/name": owner.name, f"{_NAMES}/role": "cache"},
        "ownerReferences": [owner_reference(owner)],
    }
    spec = {
        "selector": {KVCACHE_LABEL: owner.name},
        "ports": [{"name": "rpc", "port": port, "protocol": "TCP", "targetPort": RPC_PORT}],
        "internalTrafficPolicy": traffic_policy,
    }
    target = Target(SERVICES, owner.namespace, rpc_service_name(owner.name))
    return Child(target, {"metadata": metadata, "spec": spec})


def owner_reference(owner: Owner) -> Json:
    """Return the reference that has a child collected with its KVCache, without holding up its deletion."""
    return {
        "apiVersion": KVCACHES.api_version,
        "kind": KVCACHES.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def terms(nodes: tuple[str, ...]) -> list[Json]:
    """Return one term per node (two values in one are refused); for no node, a term that fits none."""
    if not nodes:
        never = [{"key": _NONE, "operator": "Exists"}, {"key": _NONE, "operator": "DoesNotExist"}]
        return [{"matchExpressions": never}]
    return [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in sorted(set(nodes))
    ]


def nodes_of(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the nodes that a DaemonSet's spec names; what is not of our making names none."""
    found = set[str]()
    for term in _terms_in(spec):
        fields = term.get("matchFields") or []
        named = [field for field in fields if field.get("key") == "metadata.name" and field.get("operator") == "In"]
        found.update(value for field in named for value in field.get("values") or [])
    return tuple(sorted(found))


def tolerations_of(spec: Mapping[str, Any]) -> frozenset[Tolerated]:
    """Return what a DaemonSet's pods tolerate."""
    found = _pod_spec(spec).get("tolerations") or []
    return frozenset(
        Tolerated(
            item.get("key") or None,
            item.get("operator") or "Equal",
            item.get("value") or "",
            item.get("effect") or "",
            item.get("tolerationSeconds"),
        )
        for item in found
    )


def priority_of(annotations: Mapping[str, str], spec: Mapping[str, Any]) -> Priority:
    """Return the priority of a DaemonSet's new pods; 0 where nobody says what its class is worth."""
    said = annotations.get(PRIORITY, "")
    value = int(said) if _INTEGER.fullmatch(said) else 0
    return Priority(_pod_spec(spec).get("priorityClassName") or "", value)


def has_rpc(spec: Mapping[str, Any]) -> bool:
    """Whether a DaemonSet's caches open their port."""
    return any(container.get("ports") for container in _pod_spec(spec).get("containers") or [])


def sizes_of(spec: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return store and memory in bytes and thousandths of a core that a DaemonSet gives to a new cache; 0: not told."""
    size, memory, cpu = 0, Decimal(0), Decimal(0)
    for container in _pod_spec(spec).get("containers") or []:
        if container.get("name") == CONTAINER:
            said = _SIZE.search(" ".join(map(str, container.get("command") or [])))
            size = int(said.group(1)) if said else 0
        if container.get("name") in {CONTAINER, worker.CONTAINER}:
            amounts = (container.get("resources") or {}).get("requests") or {}
            memory += _amount(amounts.get("memory"))
            cpu += _amount(amounts.get("cpu"))
    return size, int(memory), int(cpu * 1000)


def set_hash(wanted: CacheSet) -> str:
    """Return what tells an outdated pod: image, size, environment, command.

    What follows from engines is left out, which come and go: where and how it is scheduled, and RPC. So is the image of
    the transfer worker, which is ours: a new version of kvberth ends no warm cache.
    """
    script = cache_script(wanted.size.size_bytes, rpc=False)
    env = [(item.name, item.value if item.value_from is None else item.value_from) for item in wanted.env]
    parts = [wanted.image, wanted.size.memory_bytes, str(wanted.size.cpu), env, script]
    if wanted.size.block_bytes:
        parts.append(wanted.size.block_bytes)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def with_nodes(spec: Mapping[str, Any], nodes: tuple[str, ...]) -> Json:
    """Return a DaemonSet's spec as it is, for other nodes: of a pool that the manifest no longer has."""
    affinity = {"nodeAffinity": _required(nodes)}
    template = {**spec.get("template", {}), "spec": {**_pod_spec(spec), "affinity": affinity}}
    return {**spec, "template": template}


def _pod(wanted: CacheSet) -> Json:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 2,
        "affinity": {"nodeAffinity": _required(wanted.nodes)},
        "tolerations": [_toleration(item) for item in sorted(wanted.tolerations, key=_order)],
        "priorityClassName": wanted.priority.name,
        "securityContext": {
            "runAsUser": 0,
            "supplementalGroups": [SOCKET_GROUP],
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(wanted), *_worker(wanted)],
        "volumes": [
            {
                "name": "cache",
                "hostPath": {
                    "path": host_directory(wanted.owner.namespace, wanted.owner.name),
                    "type": "DirectoryOrCreate",
                },
            },
            *([worker.state_volume()] if wanted.size.block_bytes else []),
        ],
    }


def _worker(wanted: CacheSet) -> list[Json]:
    if not wanted.size.block_bytes:
        return []
    return [worker.container(wanted.worker, wanted.owner.namespace, wanted.owner.name, wanted.size)]


def _container(wanted: CacheSet) -> Json:
    memory = wanted.size.memory_bytes - wanted.size.worker_bytes
    amounts = {"cpu": f"{worker.millis(wanted.size)[0]}m", "memory": str(memory)}
    container: Json = {
        "name": CONTAINER,
        "image": wanted.image,
        "imagePullPolicy": wanted.pull_policy,
        "command": ["sh", "-c", cache_script(wanted.size.size_bytes, rpc=wanted.rpc)],
        "env": [_variable(item) for item in wanted.env],
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "volumeMounts": [{"name": "cache", "mountPath": DIRECTORY}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if wanted.rpc:
        container["ports"] = [{"name": "rpc", "containerPort": RPC_PORT, "protocol": "TCP"}]
        container["readinessProbe"] = {"tcpSocket": {"port": RPC_PORT}, "periodSeconds": 1}
    return container


def _variable(item: Variable) -> Json:
    source = {"value": item.value} if item.value_from is None else {"valueFrom": item.value_from}
    return {"name": item.name, **source}


def _required(nodes: tuple[str, ...]) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms(nodes)}}


def _amount(value: object) -> Decimal:
    try:
        return parse_quantity(value)
    except QuantityError:
        return Decimal(0)


def _toleration(item: Tolerated) -> Json:
    pairs = (("key", item.key), ("operator", item.operator), ("value", item.value), ("effect", item.effect))
    found: Json = {name: value for name, value in pairs if value}
    return found if item.seconds is None else {**found, "tolerationSeconds": item.seconds}


def _order(item: Tolerated) -> tuple[str, str, str, str, int]:
    return item.key or "", item.operator, item.value, item.effect, -1 if item.seconds is None else item.seconds


def _pod_spec(spec: Mapping[str, Any]) -> Json:
    found = (spec.get("template") or {}).get("spec") or {}
    return found if isinstance(found, dict) else {}


def _terms_in(spec: Mapping[str, Any]) -> list[Json]:
    affinity = (_pod_spec(spec).get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or []
