"""Nodes: what they have, what is asked of them, who may come. Written by pod_watcher or the scheduler."""

from typing import ClassVar

from pydantic import Field

from kvberth_schemas.model import Event, Message


class Resources(Message):
    """An amount of cpu (thousandths of a core), memory (bytes) and GPUs."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    gpus: int = 0


class Taint(Message):
    """A taint, as in the node's spec."""

    key: str
    value: str | None = None
    effect: str


class NodeChangedV1(Event):
    """A node as it is now."""

    ce_type: ClassVar[str] = "kvberth.node.changed.v1"
    name: str
    resource_version: int
    ready: bool
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    allocatable: Resources
    requested: Resources
    """Sum over the node's pods; on bare its caches are included."""
    why: str = ""
    """Why it is not ready, in a sentence."""


class NodeGoneV1(Event):
    """A node was deleted, or was not found by a reconciliation."""

    ce_type: ClassVar[str] = "kvberth.node.gone.v1"
    name: str
    why: str
