"""Judges the last states on the bus: engines, conditions, status, nodes. Pure."""

import re

from kvberth.scenario.facts import Facts, Pod, Verdict
from kvberth.scenario.format.states import ConditionOf, Engines, NodeIs, StatusOf
from kvberth_schemas.events import KVCacheStatusV1, PodWaitingV1

_UNKNOWN_STATUS = Verdict(None, "unknown: placement is silent, or the bus does not give its last states")
_UNKNOWN_STATE = Verdict(None, "unknown: the scheduler is silent, or the bus does not give its last states")


def engines(expected: Engines, facts: Facts) -> Verdict:
    """Pods of a workload."""
    if not facts.scheduler_known:
        return _UNKNOWN_STATE
    pods = [pod for pod in facts.pods if _is_of(pod, expected)]
    waiting = [pod for pod in pods if isinstance(pod, PodWaitingV1)]
    nodes = sorted(pod.node for pod in pods if not isinstance(pod, PodWaitingV1))
    checks = [
        expected.count is None or expected.count.allows(len(pods)),
        expected.nodes is None or nodes == sorted(expected.nodes),
        expected.ready is None or expected.ready.allows(sum(pod.ready for pod in pods)),
        expected.waiting is None or expected.waiting.allows(len(waiting)),
        expected.why is None or any(re.search(expected.why, pod.why) for pod in waiting),
        expected.restarts is None or all(expected.restarts.allows(pod.restarts) for pod in pods),
    ]
    return Verdict(all(checks), "; ".join(map(_told, pods)) or f"{expected.workload} has no engine")


def condition(expected: ConditionOf, facts: Facts) -> Verdict:
    """One condition of a KVCache."""
    if not facts.placement_known:
        return _UNKNOWN_STATUS
    found = _status(facts, expected.namespace, expected.kvcache)
    if found is None:
        return Verdict(False, f"{expected.kvcache} has no status")
    for item in found.conditions:
        if item.type == expected.type:
            holds = (
                expected.status in {None, item.status.value}
                and expected.reason in {None, item.reason}
                and (expected.message is None or re.search(expected.message, item.message) is not None)
            )
            return Verdict(holds, f"{item.type}={item.status.value}, reason {item.reason}: {item.message}")
    return Verdict(False, f"no such condition; there are {', '.join(item.type for item in found.conditions)}")


def status(expected: StatusOf, facts: Facts) -> Verdict:
    """The rest of a KVCache's status."""
    if not facts.placement_known:
        return _UNKNOWN_STATUS
    found = _status(facts, expected.namespace, expected.kvcache)
    if found is None:
        return Verdict(not expected.exists, f"{expected.kvcache} has no status")
    rows = {row.node: row.state for row in found.nodes}
    checks = [
        expected.exists,
        expected.engines is None or expected.engines.allows(found.engines),
        expected.served is None or expected.served.allows(found.engines_served),
        expected.nodes is None or sorted(rows) == sorted(expected.nodes),
        all(rows.get(node) == state for node, state in expected.states.items()),
        expected.moved is None or re.search(expected.moved, found.moved) is not None,
        expected.generation in {None, found.observed_generation},
        expected.mentions is None or re.search(expected.mentions, found.model_dump_json()) is not None,
    ]
    return Verdict(all(checks), _status_told(found))


def node(expected: NodeIs, facts: Facts) -> Verdict:
    """A node."""
    if not facts.scheduler_known:
        return _UNKNOWN_STATE
    found = next((item for item in facts.nodes if item.name == expected.name), None)
    if found is None:
        return Verdict(not expected.exists, f"{expected.name} is not known")
    checks = [
        expected.exists,
        expected.ready in {None, found.ready},
        expected.cordoned in {None, found.unschedulable},
        all(found.labels.get(key) == value for key, value in expected.labels.items()),
    ]
    ready = "ready" if found.ready else f"not ready ({found.why})"
    return Verdict(all(checks), f"{ready}{', cordoned' if found.unschedulable else ''}, labels {found.labels}")


def _is_of(pod: Pod, expected: Engines) -> bool:
    owner = pod.workload.name if pod.workload else ""
    right = pod.namespace == expected.namespace and owner == expected.workload
    return right and expected.deleting in {None, pod.deleting}


def _told(pod: Pod) -> str:
    where = f"waiting ({pod.why})" if isinstance(pod, PodWaitingV1) else f"on {pod.node}"
    words = ["ready" if pod.ready else "not ready", *(["ending"] if pod.deleting else []), f"{pod.restarts} restarts"]
    return f"{pod.name} {where}, {', '.join(words)}"


def _status(facts: Facts, namespace: str, name: str) -> KVCacheStatusV1 | None:
    return next((item for item in facts.statuses if (item.namespace, item.name) == (namespace, name)), None)


def _status_told(found: KVCacheStatusV1) -> str:
    rows = ", ".join(f"{row.node} {row.state}" for row in found.nodes) or "no rows"
    moved = f", moved '{found.moved}'" if found.moved else ""
    served = f"{found.engines_served} of {found.engines} engines served"
    conditions = "; ".join(f"{c.type}={c.status.value} {c.reason}: {c.message}" for c in found.conditions)
    return f"{served}, {rows}{moved}, generation {found.observed_generation}, {conditions}"
