"""Judges expectations against facts. Pure: no clock, no I/O."""

from collections.abc import Callable
from typing import Any, Final

from kvberth.scenario.facts import Facts, Verdict
from kvberth.scenario.format.expectations import Expectation
from kvberth.scenario.judge import events, lives, machine, states

_JUDGES: Final[dict[str, Callable[[Any, Facts], Verdict]]] = {
    "caches": lives.caches,
    "engines": states.engines,
    "condition": states.condition,
    "status": states.status,
    "node": states.node,
    "event": events.seen,
    "order": events.in_order,
    "start_order": events.start_order,
    "lives": lives.lives,
    "same": lives.same,
    "changed": lives.changed,
    "process": machine.process,
    "socket": machine.socket,
    "path": machine.path,
    "metric": machine.metric,
    "ready": machine.ready,
    "log": machine.log,
    "memory": machine.memory,
    "cli": machine.cli,
    "reaches": lives.reaches,
}

_OF_MACHINES: Final = frozenset(
    {"caches", "socket", "path", "process", "same", "changed", "lives", "memory", "reaches", "start_order"}
)


def judge(expectation: Expectation, facts: Facts) -> Verdict:
    """Tell whether an expectation holds, and what was seen."""
    kind = expectation.kind
    if kind == "not":
        inner = judge(expectation.value, facts)
        return Verdict(None if inner.holds is None else not inner.holds, inner.seen)
    if kind == "any_of":
        verdicts = [judge(item, facts) for item in expectation.value]
        held = [verdict.holds for verdict in verdicts]
        holds = True if True in held else None if None in held else False
        return Verdict(holds, " | ".join(verdict.seen for verdict in verdicts))
    if kind in _OF_MACHINES and (hidden := _hidden(expectation.value, facts)):
        return Verdict(None, f"unknown: nobody can look at {', '.join(hidden)}")
    return _JUDGES[kind](expectation.value, facts)


def _hidden(value: Any, facts: Facts) -> list[str]:  # noqa: ANN401 (any kind's own value)
    """Give the nodes that an expectation is about and that can't be looked at; without a node it is about all."""
    node = getattr(value, "node", None)
    return sorted(facts.unseen if node is None else facts.unseen & {node})
