"""What is read of live objects: only fields that some event needs. Pure.

Lenient where manifests are strict: the API server let these objects in, and one that can't be read would be Unknown.
"""

from typing import Any

from pydantic import ConfigDict, Field

from kvberth.kube import KubeObject, Trimmed


class Variable(Trimmed):
    """An environment variable of a container; its value is never kept."""

    name: str


class Mount(Trimmed):
    """Where a volume appears in a container."""

    name: str
    mount_path: str
    sub_path: str | None = None


class Amounts(Trimmed):
    """Requests and limits as texts of quantities."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class SecurityContext(Trimmed):
    """Under whom a pod or a container runs."""

    run_as_user: int | None = None
    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] | None = None


class Container(Trimmed):
    """A container's spec."""

    name: str
    env: tuple[Variable, ...] | None = None
    resources: Amounts | None = None
    volume_mounts: tuple[Mount, ...] | None = None
    restart_policy: str | None = None
    security_context: SecurityContext | None = None


class HostPath(Trimmed):
    """A path of the node."""

    path: str


class Volume(Trimmed):
    """A volume; only hostPath is read."""

    name: str
    host_path: HostPath | None = None


class Toleration(Trimmed):
    """What a pod tolerates."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class PodSpec(Trimmed):
    """What is read of a pod's spec."""

    node_name: str | None = None
    init_containers: tuple[Container, ...] | None = None
    containers: tuple[Container, ...] = Field(min_length=1)
    volumes: tuple[Volume, ...] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    security_context: SecurityContext | None = None
    overhead: dict[str, str] | None = None
    resources: Amounts | None = None
    """Of the pod as a whole; they win over the sum of its containers'."""


class Condition(Trimmed):
    """One of an object's conditions."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class Terminated(Trimmed):
    """How a container ended."""

    message: str = ""


class Running(Trimmed):
    """That a container runs; nothing of it is read."""


class ContainerState(Trimmed):
    """A container's state: whether it runs, or how it ended."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Trimmed):
    """What the kubelet says of a container."""

    name: str
    restart_count: int = 0
    state: ContainerState | None = None


class PodStatus(Trimmed):
    """What is read of a pod's status."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None


class PodObject(KubeObject):
    """A pod."""

    spec: PodSpec
    status: PodStatus = PodStatus()


class Taint(Trimmed):
    """A taint of a node."""

    key: str
    value: str | None = None
    effect: str


class NodeSpec(Trimmed):
    """What is read of a node's spec."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class NodeStatus(Trimmed):
    """What is read of a node's status."""

    allocatable: dict[str, str] | None = None
    conditions: tuple[Condition, ...] | None = None


class NodeObject(KubeObject):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class KVCacheObject(KubeObject):
    """A KVCache, whole: its user's fields are kept, known or not."""

    model_config = ConfigDict(extra="allow")

    spec: Any = None

    @property
    def others(self) -> dict[str, Any]:
        """The fields at the top that this model does not name."""
        return self.model_extra or {}


class WorkloadSpec(Trimmed):
    """What is read of a workload's spec."""

    replicas: int | None = None


class WorkloadObject(KubeObject):
    """A Deployment, ReplicaSet or StatefulSet."""

    spec: WorkloadSpec = WorkloadSpec()
