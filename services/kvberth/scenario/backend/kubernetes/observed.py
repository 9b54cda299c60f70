"""Reads what the API server and the kernels say as the facts that scenarios are judged by. Pure.

The words are the bus's own, so that one judge serves every backend; the source is not: no service's word counts here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from kvberth.scenario.backend.kubernetes.processes import Process
from kvberth.scenario.facts import Life, Pod
from kvberth_schemas.events import (
    Condition,
    ConditionStatus,
    KVCacheStatusV1,
    NodeChangedV1,
    NodeRow,
    Owner,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodWaitingV1,
    Resources,
)

Json = Mapping[str, Any]

INSTALLED: Final = "kvberth"
"""The namespace of the install."""
SERVICES: Final = {
    "nats": "nats",
    "placement": "placement",
    "pod-watcher": "scheduler",
    "kvberth-node": "node_agent",
}
"""Roles of scenarios by `app.kubernetes.io/name`: who says what pods are is their scheduler, here the pod watcher."""
CACHE_LABEL: Final = "kvberth.dev/kvcache"
WORKER: Final = "transfer-worker"
"""The container of a cache's transfer worker."""
WORKER_PORT: Final = 9601
_NAME: Final = "app.kubernetes.io/name"
_MODEL: Final = "model.aibrix.ai/name"
_ROOT: Final = "/var/run/vineyard-kubernetes"
_SOCKET: Final = "AIBRIX_LLM_KV_CACHE_SOCKET"
_GATE: Final = "kvberth-gate"
_GPU: Final = "nvidia.com/gpu"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Being:
    """A living process with a role, and where it is."""

    life: Life
    node: str
    process: Process
    pod: Json = field(compare=False)
    first: Process | None = field(default=None, compare=False)
    """Of the container: who keeps a daemon alive, else the process itself."""


def role(pod: Json) -> str | None:
    """Tell what a pod is: a service's role, ``cache``, ``engine``; None for all else."""
    meta, labels = pod["metadata"], pod["metadata"].get("labels") or {}
    if meta["namespace"] == INSTALLED:
        return SERVICES.get(labels.get(_NAME, ""))
    if CACHE_LABEL in labels:
        return "cache"
    return "engine" if _MODEL in labels or _mounts_sockets(pod) else None


def engine_container(pod: Json) -> Json:
    """Give the container of the engine itself: the one that is given a socket or a GPU, else the first."""
    containers: Sequence[Json] = pod["spec"]["containers"]
    given = [one for one in containers if any(entry["name"] == _SOCKET for entry in one.get("env") or ())]
    given += [one for one in containers if _GPU in ((one.get("resources") or {}).get("limits") or {})]
    return (given or containers)[0]


def container_of(kind: str, pod: Json) -> str:
    """Name the container that a target of this kind means in its pod."""
    if kind == "worker":
        return WORKER
    return str((engine_container(pod) if kind == "engine" else pod["spec"]["containers"][0])["name"])


def restarts(pod: Json, container: str) -> int:
    """Tell how often a container was started again."""
    statuses = pod["status"].get("containerStatuses") or ()
    return sum(one["restartCount"] for one in statuses if one["name"] == container)


def gates(pod: Json) -> list[str]:
    """Give the names of the containers by which a pod waits for its cache."""
    return [one["name"] for one in pod["spec"].get("initContainers") or () if one["name"] == _GATE]


def has_worker(pod: Json) -> bool:
    """Tell whether a transfer worker stands beside the daemon in a cache's pod."""
    return any(one["name"] == WORKER for one in pod["spec"]["containers"])


def container_ids(pod: Json) -> dict[str, str]:
    """Give the ids of a pod's containers that run, with their names."""
    statuses = pod["status"].get("containerStatuses") or ()
    return {
        one["containerID"].rpartition("/")[2]: one["name"]
        for one in statuses
        if one.get("containerID") and "running" in (one.get("state") or {})
    }


def beings(pods: Iterable[Json], by_node: Mapping[str, Sequence[Process]]) -> Iterator[Being]:
    """Give the processes that have a role."""
    for pod in pods:
        of_pod, node = role(pod), pod["spec"].get("nodeName")
        names = container_ids(pod)
        ours = [process for process in by_node.get(node, ()) if process.container in names]
        for process in ours:
            what = "transfer" if (of_pod, names[process.container]) == ("cache", WORKER) else of_pod
            if what is not None and _leads(what, process, pod, names[process.container]):
                whole = [one for one in ours if one.container == process.container]
                first = next((one for one in whole if one.inner_pid == 1), None)
                yield Being(_life(what, process, pod, whole), node, process, pod, first)


def pod_state(pod: Json) -> Pod:
    """Give a pod as the bus would."""
    meta, statuses = pod["metadata"], pod["status"].get("containerStatuses") or ()
    ready = is_ready(pod)
    common: dict[str, Any] = {
        "uid": meta["uid"],
        "name": meta["name"],
        "namespace": meta["namespace"],
        "resource_version": int(meta["resourceVersion"]),
        "role": PodRole.ENGINE,
        "workload": _workload(pod),
        "requests": Resources(),
        "ready": ready,
        "restarts": sum(one["restartCount"] for one in statuses),
        "deleting": "deletionTimestamp" in meta,
    }
    node = pod["spec"].get("nodeName")
    if node is None:
        return PodWaitingV1(**common, why=_why_waiting(pod))
    return PodReadyV1(**common, node=node) if ready else PodScheduledV1(**common, node=node)


def is_ready(pod: Json) -> bool:
    """Tell whether the kubelet calls a pod ready."""
    return _condition_of(pod, "Ready").get("status") == "True"


def engines(pods: Iterable[Json]) -> tuple[Pod, ...]:
    """Give the engines among pods; those that have ended are none any more."""
    return tuple(pod_state(pod) for pod in pods if role(pod) == "engine" and pod["status"].get("phase") not in _ENDED)


def node_state(node: Json) -> NodeChangedV1:
    """Give a node as the bus would."""
    ready = _condition_of(node, "Ready")
    return NodeChangedV1(
        name=node["metadata"]["name"],
        resource_version=int(node["metadata"]["resourceVersion"]),
        ready=ready.get("status") == "True",
        unschedulable=bool(node["spec"].get("unschedulable")),
        labels=node["metadata"].get("labels") or {},
        allocatable=Resources(),
        requested=Resources(),
        why=ready.get("message", ""),
    )


def status_of(kvcache: Json) -> KVCacheStatusV1 | None:
    """Give the status of a KVCache; None while nobody has written one."""
    meta, status = kvcache["metadata"], kvcache.get("status") or {}
    if not status:
        return None
    return KVCacheStatusV1(
        uid=meta["uid"],
        name=meta["name"],
        namespace=meta["namespace"],
        observed_generation=status.get("observedGeneration", 0),
        term=status.get("term", 0),
        wanted_replicas=status.get("replicas", 0),
        engines=status.get("engines", 0),
        engines_served=status.get("enginesServed", 0),
        nodes=tuple(_row(row) for row in status.get("nodes") or ()),
        conditions=tuple(_condition(one) for one in status.get("conditions") or ()),
        moved=status.get("moved") or "",
    )


def _row(row: Json) -> NodeRow:
    proof = row.get("lastProofTime")
    return NodeRow(
        node=row["node"],
        state=row["state"],
        engines=tuple(row.get("engines") or ()),
        health=row.get("health") or "",
        last_proof=datetime.fromisoformat(proof) if proof else None,
        message=row.get("message") or "",
    )


def _condition(one: Json) -> Condition:
    return Condition(
        type=one["type"],
        status=ConditionStatus(one["status"]),
        reason=one.get("reason", ""),
        message=one.get("message", ""),
        since=datetime.fromisoformat(one["lastTransitionTime"]) if one.get("lastTransitionTime") else _LONG_AGO,
    )


def _leads(what: str, process: Process, pod: Json, container: str) -> bool:
    """Whether it is the process that a role means: the daemon of a cache, else the first of its container."""
    if what == "cache":
        return bool(process.argv) and process.argv[0].rpartition("/")[2] == "vineyardd"
    return process.inner_pid == 1 and (what != "engine" or container == engine_container(pod)["name"])


def _life(what: str, process: Process, pod: Json, whole: Sequence[Process]) -> Life:
    meta, labels = pod["metadata"], pod["metadata"].get("labels") or {}
    workload = _workload(pod)
    of_cache = what in {"cache", "transfer"}
    in_user_hands = of_cache or what == "engine"
    node = pod["spec"]["nodeName"]
    return Life(
        role=what,
        pid=process.pid,
        node=None if what == "nats" else node,
        namespace=meta["namespace"] if in_user_hands else None,
        owner=labels.get(CACHE_LABEL, "") if of_cache else meta["uid"] if what == "engine" else "",
        name=meta["name"] if what == "engine" else "",
        workload=workload.name if workload and what == "engine" else "",
        deleting="deletionTimestamp" in meta,
        incarnation=_incarnation(process) if what == "cache" else None,
        rss_bytes=sum(one.rss_bytes for one in whole),
        paused=process.state == "T",
        began=datetime.fromtimestamp(process.began, UTC),
        # Every engine names the same path, each in a file system of its own.
        socket=given_socket(node, process) if what == "engine" and process.socket else None,
    )


def life_of(pod: Pod) -> Life:
    """Give the life that an engine's pod stands for, whether its process runs or not."""
    return Life(
        role="engine",
        pid=0,
        node=None if isinstance(pod, PodWaitingV1) else pod.node,
        namespace=pod.namespace,
        owner=pod.uid,
        name=pod.name,
        workload=pod.workload.name if pod.workload else "",
        deleting=pod.deleting,
    )


def given_socket(node: str, process: Process) -> str:
    """Name the socket that a process was given."""
    return f"{process.socket} of pid {process.pid} on {node}"


def _incarnation(process: Process) -> str | None:
    words = [word for argument in process.argv for word in argument.partition("=")[::2]]
    words = [word for word in words if word]
    return words[words.index("--deployment") + 1] if "--deployment" in words[:-1] else None


def _workload(pod: Json) -> Owner | None:
    owner = next((one for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")), None)
    if owner is None:
        return None
    kind, name = owner["kind"], owner["name"]
    revision = (pod["metadata"].get("labels") or {}).get("pod-template-hash")
    if kind == "ReplicaSet" and revision and name.endswith(f"-{revision}"):
        kind, name = "Deployment", name.removesuffix(f"-{revision}")
    return Owner(kind=kind, name=name, uid=owner["uid"])


def _mounts_sockets(pod: Json) -> bool:
    paths = [(one.get("hostPath") or {}).get("path", "") for one in pod["spec"].get("volumes") or ()]
    return any(path.rstrip("/") == _ROOT or path.startswith(f"{_ROOT}/") for path in paths)


def _why_waiting(pod: Json) -> str:
    return str(_condition_of(pod, "PodScheduled").get("message", ""))


def _condition_of(item: Json, name: str) -> Json:
    conditions: Sequence[Json] = item["status"].get("conditions") or ()
    return next((one for one in conditions if one["type"] == name), {})
