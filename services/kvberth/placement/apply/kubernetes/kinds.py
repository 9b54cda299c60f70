"""What placement reads of Kubernetes objects: its own children, workloads, pods, Events, KVCaches. Data only."""

from datetime import datetime
from typing import Any, Final

from pydantic import Field

from kvberth.kube import Kind, KubeObject, Trimmed, whole
from kvberth.kube.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    KVCACHES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)

CORE_EVENTS: Final = Resource("", "v1", "events", "Event")
"""As controllers write them: the older API, which alone can be selected by the object's uid under that name."""


class SetStatus(Trimmed):
    """How far the DaemonSet controller is."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0


class LiveSet(KubeObject):
    """A DaemonSet as it is."""

    spec: dict[str, Any]
    status: SetStatus = SetStatus()


class LiveService(KubeObject):
    """A Service as it is."""

    spec: dict[str, Any] = Field(default_factory=dict)


class _WorkloadSpec(Trimmed):
    replicas: int | None = None
    selector: dict[str, Any] = Field(default_factory=dict)


class LiveOwner(KubeObject):
    """A Deployment or StatefulSet."""

    spec: _WorkloadSpec = _WorkloadSpec()

    @property
    def wanted(self) -> int:
        """How many pods it wants; Kubernetes' default is one."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class _HostPath(Trimmed):
    path: str = ""


class _Volume(Trimmed):
    host_path: _HostPath | None = None


class _Container(Trimmed):
    image: str = ""


class _PodSpec(Trimmed):
    node_name: str | None = None
    volumes: tuple[_Volume, ...] = ()
    containers: tuple[_Container, ...] = ()


class _PodStatus(Trimmed):
    phase: str = ""


class LivePod(KubeObject):
    """A pod, as far as it can use a cache or be one."""

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def ended(self) -> bool:
        """Whether all its processes have ended."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def host_paths(self) -> tuple[str, ...]:
        """The host's directories that it may mount."""
        return tuple(volume.host_path.path for volume in self.spec.volumes if volume.host_path is not None)


class LiveEvent(KubeObject):
    """An Event of a controller."""

    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def at(self) -> datetime | None:
        """When it was seen last."""
        return self.last_timestamp or self.event_time or self.metadata.creation_timestamp


class _BudgetStatus(Trimmed):
    conditions: tuple[dict[str, Any], ...] = ()


class LiveBudget(KubeObject):
    """A PodDisruptionBudget."""

    status: _BudgetStatus = _BudgetStatus()


class LiveKVCache(KubeObject):
    """A KVCache as it is: what is needed to write its status, and to see whose it is."""

    status: dict[str, Any] = Field(default_factory=dict)


SETS: Final = whole(DAEMON_SETS, LiveSet)
SERVICE: Final = whole(SERVICES, LiveService)
POD: Final = whole(PODS, LivePod)
EVENT: Final = whole(CORE_EVENTS, LiveEvent)
BUDGET: Final = whole(POD_DISRUPTION_BUDGETS, LiveBudget)
KVCACHE: Final = whole(KVCACHES, LiveKVCache)
OWNERS: Final[dict[str, Kind[LiveOwner]]] = {
    "Deployment": whole(DEPLOYMENTS, LiveOwner),
    "StatefulSet": whole(STATEFUL_SETS, LiveOwner),
}
