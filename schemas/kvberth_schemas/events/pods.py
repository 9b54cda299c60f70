"""Pods: where engines (and caches on Kubernetes) are, and what they ask for. Written by pod_watcher or scheduler."""

from enum import StrEnum
from typing import ClassVar

from pydantic import AwareDatetime

from kvberth_schemas.events.nodes import Resources
from kvberth_schemas.model import Event, Message


class PodRole(StrEnum):
    """What a pod is to kvberth."""

    ENGINE = "engine"
    CACHE = "cache"
    ETCD = "etcd"


class Owner(Message):
    """The top owner of a pod (a Deployment, say), and how many pods it wants (None: not known for its kind)."""

    kind: str
    name: str
    uid: str
    wanted: int | None = None


class Toleration(Message):
    """A toleration, as in the pod's spec."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class SocketMount(Message):
    """A directory on the host that may hold a cache's socket, and where the pod sees it."""

    host_path: str
    mount_path: str


class GateResult(Message):
    """How the gate ended: what runs before an engine and lets it start once its cache answers."""

    outcome: str
    """``open``; or why the engine started nevertheless: ``timeout``, ``skipped``, ``fault``, ``unreadable``."""
    reason: str = ""
    waited_s: float | None = None
    message: str = ""


class LastEnd(Message):
    """How the last life of a process ended that did."""

    at: AwareDatetime
    exit_code: int | None = None
    """128 + n after signal n; None: not known (the process was adopted, or could not be started)."""
    message: str = ""


class PodState(Event):
    """The whole present state of a pod, so that the last event of a subject needs no earlier one."""

    ce_type: ClassVar[str]

    uid: str
    name: str
    namespace: str
    resource_version: int
    role: PodRole
    model: str | None = None
    """Value of the label ``model.aibrix.ai/name``."""
    workload: Owner | None = None
    kvcache: str | None = None
    """For caches: the KVCache that owns it."""
    requests: Resources
    tolerations: tuple[Toleration, ...] = ()
    priority_class: str | None = None
    priority: int | None = None
    """Kubernetes: what the priority class is worth."""
    sockets: tuple[SocketMount, ...] = ()
    """The directories below ``/var/run/vineyard-kubernetes`` that the pod mounts."""
    run_as_user: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    legacy: bool = False
    ready: bool = False
    restarts: int = 0
    deleting: bool = False
    pretended: tuple[str, ...] = ()
    """Bare: parts of the manifest that nothing runs for, as ``container aibrix-runtime``."""
    gate: GateResult | None = None
    """How the gate of this pod ended; None while it has not, or where there is none."""
    last_end: LastEnd | None = None
    """Bare: how its process last ended."""
    log: str = ""
    """Bare: the file on its node that its process writes to; empty before it ran."""
    revision: str | None = None
    """Kubernetes: what the pod of a cache was made from (its annotation ``kvberth.dev/hash``)."""
    at_gate: str = ""
    """What its gate waits for, in a sentence; empty where none waits."""


class PodScheduledV1(PodState):
    """A pod is bound to a node and has not been ready yet."""

    ce_type: ClassVar[str] = "kvberth.pod.scheduled.v1"
    node: str


class PodReadyV1(PodState):
    """A bound pod has been ready; ``ready`` says whether it is now."""

    ce_type: ClassVar[str] = "kvberth.pod.ready.v1"
    node: str


class PodWaitingV1(PodState):
    """A pod has no node yet, and why."""

    ce_type: ClassVar[str] = "kvberth.pod.waiting.v1"
    why: str


class PodGoneV1(Event):
    """A pod is really gone: its processes have ended, or its node was deleted."""

    ce_type: ClassVar[str] = "kvberth.pod.gone.v1"
    uid: str
    name: str
    namespace: str
    node: str | None = None
    role: PodRole
    model: str | None = None
    workload: Owner | None = None
    why: str
    resource_version: int = 0
    """The pod's last one that its writer knew: an older state that is said later is no news. 0: not known."""

    @classmethod
    def after(cls, last: PodState, why: str, *, resource_version: int = 0) -> "PodGoneV1":
        """Say the end of a pod whose last state is known."""
        return cls(
            uid=last.uid,
            name=last.name,
            namespace=last.namespace,
            node=getattr(last, "node", None),  # a waiting pod has none
            role=last.role,
            model=last.model,
            workload=last.workload,
            why=why,
            resource_version=resource_version,
        )


PodEvent = PodScheduledV1 | PodReadyV1 | PodWaitingV1 | PodGoneV1
