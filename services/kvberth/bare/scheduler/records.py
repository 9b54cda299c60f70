"""What the scheduler remembers over its restarts: manifests, pods and nodes. Data only; decides nothing."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kvberth_schemas.events import GateResult, LastEnd, Owner, Resources, SocketMount, Taint, Toleration
from kvberth_schemas.manifests import LabelSelector, NodeSelector
from kvberth_schemas.wants import RestartPolicy, Why


class Record(BaseModel):
    """One file of the state directory."""

    model_config = ConfigDict(frozen=True)

    resource_version: int = 0
    """Set when the record is stored; grows with every change of anything."""


class ManifestRecord(Record):
    """A Deployment, StatefulSet or KVCache as it was applied."""

    kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    created: datetime
    document: dict[str, Any]
    gone: datetime | None = None
    """When the user deleted it: kept for a while, so that his word outlives a crash and a wiped bus."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes two manifests the same object."""
        return self.kind, self.namespace, self.name


class PodShape(BaseModel):
    """What a pod's template said when the pod was made; a later change of the template does not reach it."""

    model_config = ConfigDict(frozen=True)

    model: str
    labels: dict[str, str] = Field(default_factory=dict)
    requests: Resources = Resources()
    node_selector: dict[str, str] = Field(default_factory=dict)
    node_affinity: NodeSelector | None = None
    anti_affinity: tuple[LabelSelector, ...] = ()
    """Pods of the same namespace that may not be on the same node."""
    tolerations: tuple[Toleration, ...] = ()
    priority_class: str | None = None
    sockets: tuple[SocketMount, ...] = ()
    run_as_user: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    legacy: bool = False
    env: dict[str, str] = Field(default_factory=dict)
    grace_s: float = 30.0
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    pretended: tuple[str, ...] = ()
    """Parts of the template that nothing runs for, in words."""


class PodRecord(Record):
    """A pod, from the moment it is wanted until some time after it is gone."""

    uid: str
    name: str
    namespace: str
    owner: Owner
    created: datetime
    shape: PodShape
    node: str | None = None
    waiting_for: str = ""
    """Why it has no node."""
    at_gate: str = ""
    """What its gate waits for."""
    gate: GateResult | None = None
    """How its gate ended that let the engine start."""
    ready: bool = False
    was_ready: bool = False
    restarts: int = 0
    last_end: LastEnd | None = None
    """How its process last ended."""
    log: str = ""
    """Where its process writes to."""
    deleting: bool = False
    why: Why = Why.WANTED
    """What led to its deletion."""
    gone: datetime | None = None
    gone_why: str = ""
    ended: bool = False
    """Its runner reported the end of its process: nothing of it runs, and its want can go."""
    adopted: bool = False
    """Taken over from the bus: no want of ours asks for it."""

    @property
    def alive(self) -> bool:
        """Whether it is not gone, deleting or not."""
        return self.gone is None

    @property
    def active(self) -> bool:
        """Whether it counts among the pods that its owner wants."""
        return self.gone is None and not self.deleting

    @property
    def belongs_to(self) -> tuple[str, str, str]:
        """The key of the manifest that it was made of."""
        return self.owner.kind, self.namespace, self.owner.name


class NodeRecord(Record):
    """A node as its runner registered it, and whether the user cordoned it."""

    name: str
    labels: dict[str, str] = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Resources
    registered_unschedulable: bool = False
    cordoned: bool | None = None
    """The user's word; None: as registered."""
    boot_id: str = ""
    root: str = ""
    """Directory for sockets; empty: not known (taken over from the bus)."""

    @property
    def unschedulable(self) -> bool:
        """Whether new pods stay away."""
        return self.registered_unschedulable if self.cordoned is None else self.cordoned
