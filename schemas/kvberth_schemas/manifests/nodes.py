"""The v1 Node as the bare backend's nodes file and its runners give it."""

from typing import Literal

from kvberth_schemas.manifests.base import Resources, Seq, Text, Tolerant
from kvberth_schemas.manifests.pods import Effect, ObjectMeta


class Taint(Tolerant):
    """What keeps pods off a node."""

    key: Text
    value: str | None = None
    effect: Effect


class NodeSpec(Tolerant):
    """What an operator sets on a node."""

    unschedulable: bool | None = None
    taints: Seq[Taint] | None = None


class NodeCondition(Tolerant):
    """One condition, such as Ready."""

    type: Text
    status: Literal["True", "False", "Unknown"]
    reason: str | None = None
    message: str | None = None


class NodeStatus(Tolerant):
    """What a node offers."""

    allocatable: Resources | None = None
    conditions: Seq[NodeCondition] | None = None


class Node(Tolerant):
    """A node (v1)."""

    api_version: Literal["v1"]
    kind: Literal["Node"]
    metadata: ObjectMeta
    spec: NodeSpec | None = None
    status: NodeStatus | None = None

    @property
    def name(self) -> str:
        """Name of the object (its hostname label may differ)."""
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        """Labels, empty where the node has none."""
        return dict(self.metadata.labels or {})

    @property
    def unschedulable(self) -> bool:
        """Whether the node is cordoned."""
        return bool(self.spec and self.spec.unschedulable)

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Taints, empty where the node has none."""
        return (self.spec and self.spec.taints) or ()

    @property
    def allocatable(self) -> dict[str, str]:
        """Texts of quantities by resource name."""
        return dict((self.status and self.status.allocatable) or {})

    @property
    def ready(self) -> bool:
        """Whether the condition Ready is True; a node that states no conditions counts as ready."""
        conditions = (self.status and self.status.conditions) or ()
        stated = [condition.status for condition in conditions if condition.type == "Ready"]
        return stated[-1] == "True" if stated else not conditions
