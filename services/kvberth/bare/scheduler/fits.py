"""Whether a node's labels and taints let a pod in. Pure."""

from collections.abc import Iterable, Mapping

from kvberth_schemas.events import Taint, Toleration
from kvberth_schemas.manifests import NodeSelector, NodeSelectorTerm, Requirement

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
"""Kubernetes' own mirror of a cordon; here the cordon itself counts."""

_KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that keeps a pod with these tolerations out."""
    known = tuple(tolerations)
    for taint in taints:
        if taint.effect not in _KEEPS_OUT or taint.key == UNSCHEDULABLE_TAINT:
            continue
        if not any(_tolerates(toleration, taint) for toleration in known):
            return taint
    return None


def missing_label(labels: Mapping[str, str], selector: Mapping[str, str]) -> str | None:
    """Return the first pair of a nodeSelector that a node does not carry, as `key=value`."""
    return next((f"{key}={value}" for key, value in sorted(selector.items()) if labels.get(key) != value), None)


def unmet_affinity(name: str, labels: Mapping[str, str], selector: NodeSelector | None) -> str | None:
    """Return what a node lacks for required affinity, in words; None when one of the terms holds."""
    if selector is None:
        return None
    terms = selector.node_selector_terms
    if any(_term_holds(term, name, labels) for term in terms):
        return None
    return " or ".join(_words(term) for term in terms) or "any term of its node affinity"


def _term_holds(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not expressions and not fields:
        return False  # as in Kubernetes: an empty term matches no node
    return all(_holds(item, labels) for item in expressions) and all(
        item.key == "metadata.name" and _holds(item, {"metadata.name": name}) for item in fields
    )


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement.key), requirement.values or ()
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    have, limit = _number(value), _number(values[0] if len(values) == 1 else None)
    if have is None or limit is None:
        return False
    return have > limit if requirement.operator == "Gt" else have < limit


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _words(term: NodeSelectorTerm) -> str:
    parts = [_expression(item) for item in (*(term.match_expressions or ()), *(term.match_fields or ()))]
    return " and ".join(parts) or "an empty term"


def _expression(item: Requirement) -> str:
    values = ",".join(item.values or ())
    match item.operator:
        case "In":
            return f"{item.key}={values}"
        case "NotIn":
            return f"{item.key} not in {values}"
        case "Exists":
            return item.key
        case "DoesNotExist":
            return f"no {item.key}"
    return f"{item.key} {'>' if item.operator == 'Gt' else '<'} {values}"


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    exists = toleration.operator == "Exists"
    if not toleration.key:
        return exists
    if toleration.key != taint.key:
        return False
    return exists or (toleration.operator in {None, "", "Equal"} and (toleration.value or "") == (taint.value or ""))
