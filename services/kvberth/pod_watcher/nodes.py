"""What a live node says: trimmed on entry, and turned into its event. Pure."""

from collections.abc import Mapping
from decimal import Decimal

from kvberth.kvcache import as_resources
from kvberth.pod_watcher.objects import Condition, NodeObject
from kvberth_schemas.events import NodeChangedV1, Resources, Taint
from kvberth_schemas.quantity import parse_quantity

_MILLI = Decimal("0.001")


def trim_node(item: NodeObject) -> NodeChangedV1:
    """Return how a node is, without what its pods request. Raises ValueError where a quantity can't be read."""
    ready = _ready(item)
    return NodeChangedV1(
        name=item.metadata.name,
        resource_version=int(item.metadata.resource_version),
        ready=ready.status == "True",
        unschedulable=item.spec.unschedulable,
        taints=tuple(Taint(key=one.key, value=one.value, effect=one.effect) for one in item.spec.taints or ()),
        labels=item.metadata.labels,
        allocatable=_allocatable(item.status.allocatable or {}),
        requested=Resources(),
        why="" if ready.status == "True" else _why(ready),
    )


def node_event(node: NodeChangedV1, requested: Resources) -> NodeChangedV1:
    """Return how a node is, with what its pods request."""
    return node.model_copy(update={"requested": requested})


def _allocatable(texts: Mapping[str, str]) -> Resources:
    """Rounded down: what a node has only in part can't be given."""
    amounts = {name: parse_quantity(text) for name, text in texts.items()}
    steps = {name: _MILLI if name == "cpu" else Decimal(1) for name in amounts}
    return as_resources({name: amount // steps[name] * steps[name] for name, amount in amounts.items()})


def _ready(item: NodeObject) -> Condition:
    found = (one for one in item.status.conditions or () if one.type == "Ready")
    return next(found, Condition(type="Ready", status="Unknown", message="its kubelet has said nothing yet"))


def _why(ready: Condition) -> str:
    told = ready.message or ready.reason
    return f"its condition Ready is {ready.status}" + (f": {told}" if told else "")
