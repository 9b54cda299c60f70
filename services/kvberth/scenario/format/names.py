"""Which nodes a scenario names, so that a rule about a misspelt one does not hold for ever. Pure."""

from collections.abc import Iterator

from pydantic import BaseModel

from kvberth.scenario.format.events import EventMatch
from kvberth.scenario.format.states import NodeIs, StatusOf
from kvberth.scenario.format.steps import Step

_ABOUT_NODES = frozenset({"node.changed", "node.gone"})
_NODE_FIELDS = ("node", "origin", "to")
_NODE_VERBS = frozenset({"cordon", "uncordon", "drain", "node_down", "node_up", "node_delete"})


def nodes_named(value: object) -> Iterator[str]:
    """Give every node that a piece of a scenario names; steps in a window are not looked into."""
    if isinstance(value, list):
        for item in value:
            yield from nodes_named(item)
    elif isinstance(value, BaseModel):
        if isinstance(value, NodeIs) and value.exists:
            yield value.name
        if isinstance(value, StatusOf):
            yield from (*value.states, *value.health, *value.proofs)
        if isinstance(value, EventMatch):
            yield from _in_message(value)
        for name in type(value).model_fields:
            yield from _in_field(value, name, getattr(value, name))


def _in_message(match: EventMatch) -> Iterator[str]:
    if match.name is not None and match.type in _ABOUT_NODES:
        yield match.name
    yield from (value for field in _NODE_FIELDS if isinstance(value := match.fields.get(field), str))


def _in_field(owner: BaseModel, name: str, value: object) -> Iterator[str]:
    is_node = name == "node" or (isinstance(owner, Step) and name in _NODE_VERBS)
    if isinstance(value, str) and is_node:
        yield value
    elif isinstance(value, list) and name == "nodes":
        yield from map(str, value)
    elif name != "steps":
        yield from nodes_named(value)
