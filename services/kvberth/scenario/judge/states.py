"""Judges the last states on the bus: engines, conditions, status, nodes. Pure."""

import re

from kvberth.scenario import durations
from kvberth.scenario.facts import Facts, Heard, Pod, Verdict
from kvberth.scenario.format.states import ConditionOf, Engines, NodeIs, StatusOf
from kvberth.scenario.judge import events
from kvberth_schemas.events import Condition, KVCacheStatusV1, NodeRow, PodWaitingV1

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
    """One condition of a KVCache, now or since a mark."""
    if expected.since:
        return _was_said(expected, facts)
    if not facts.placement_known:
        return _UNKNOWN_STATUS
    found = _status(facts, expected.namespace, expected.kvcache)
    if found is None:
        return Verdict(False, f"{expected.kvcache} has no status")
    for item in found.conditions:
        if item.type == expected.type:
            return Verdict(_is_so(expected, item), _condition_told(item))
    return Verdict(False, f"no such condition; there are {', '.join(item.type for item in found.conditions)}")


def _was_said(expected: ConditionOf, facts: Facts) -> Verdict:
    """Whether a status after the mark, said in time, has the condition so."""
    told: list[tuple[Heard, Condition]] = []
    for heard in events.since(facts, expected.since):
        if heard.type == "kvcache.status" and (heard.namespace, heard.name) == (expected.namespace, expected.kvcache):
            conditions = [Condition.model_validate(item) for item in heard.body["conditions"]]
            told += [(heard, item) for item in conditions if item.type == expected.type]
    right = [heard for heard, item in told if _is_so(expected, item)]
    in_time, late = events.timely(right, facts.marks[expected.since or ""].at, expected.by)
    said = dict.fromkeys(_condition_told(item) for _, item in told)
    return Verdict(bool(in_time), ("; then ".join(said) or "nothing was said of it") + late)


def _is_so(expected: ConditionOf, item: Condition) -> bool:
    return (
        expected.status in {None, item.status.value}
        and expected.reason in {None, item.reason}
        and (expected.message is None or re.search(expected.message, item.message) is not None)
    )


def _condition_told(item: Condition) -> str:
    return f"{item.type}={item.status.value}, reason {item.reason}: {item.message}"


def status(expected: StatusOf, facts: Facts) -> Verdict:
    """The rest of a KVCache's status."""
    if not facts.placement_known:
        return _UNKNOWN_STATUS
    found = _status(facts, expected.namespace, expected.kvcache)
    if found is None:
        return Verdict(not expected.exists, f"{expected.kvcache} has no status")
    rows = {row.node: row.state for row in found.nodes}
    health = {row.node: row.health for row in found.nodes}
    checks = [
        expected.exists,
        expected.engines is None or expected.engines.allows(found.engines),
        expected.served is None or expected.served.allows(found.engines_served),
        expected.nodes is None or sorted(rows) == sorted(expected.nodes),
        all(rows.get(node) == state for node, state in expected.states.items()),
        all(health.get(node) == word for node, word in expected.health.items()),
        all(_is_proof_near(expected, found, node, facts) for node in expected.proofs),
        expected.moved is None or re.search(expected.moved, found.moved) is not None,
        expected.generation in {None, found.observed_generation},
        expected.mentions is None or re.search(expected.mentions, found.model_dump_json()) is not None,
    ]
    return Verdict(all(checks), _status_told(found))


def _is_proof_near(expected: StatusOf, found: KVCacheStatusV1, node: str, facts: Facts) -> bool:
    at = next((row.last_proof for row in found.nodes if row.node == node), None)
    mark = facts.marks[expected.since or ""].at
    return at is not None and abs((at - mark).total_seconds()) <= durations.parse(expected.proofs[node], {})


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
    rows = ", ".join(map(_row_told, found.nodes)) or "no rows"
    moved = f", moved '{found.moved}'" if found.moved else ""
    served = f"{found.engines_served} of {found.engines} engines served"
    conditions = "; ".join(f"{c.type}={c.status.value} {c.reason}: {c.message}" for c in found.conditions)
    return f"{served}, {rows}{moved}, generation {found.observed_generation}, {conditions}"


def _row_told(row: NodeRow) -> str:
    proof = f", last proof {row.last_proof:%H:%M:%S}" if row.last_proof else ""
    return f"{row.node} {row.state}" + (f" ({row.health}{proof})" if row.health else "")
