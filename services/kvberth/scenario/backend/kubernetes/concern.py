"""Whether a rule is about what a pod stands for, so that it can't be judged where nobody sees the pod. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from kvberth.scenario.backend.kubernetes import observed
from kvberth.scenario.backend.kubernetes.observed import Json
from kvberth.scenario.facts import Life
from kvberth.scenario.format import Expectation, Target
from kvberth.scenario.judge.lives import resolve

_USERS: Final = frozenset({"cache", "engine", "transfer"})


def lives_of(pod: Json) -> list[Life]:
    """Give the lives that a pod stands for, whether it runs or not; none: it is none of a scenario's."""
    what = observed.role(pod)
    if what is None:
        return []
    life = replace(observed.life_of(observed.pod_state(pod)), role=what)
    if what != "cache":
        return [life]
    cache = replace(life, owner=pod["metadata"]["labels"][observed.CACHE_LABEL])
    return [cache, replace(cache, role="transfer")] if observed.has_worker(pod) else [cache]


def stands_for(pod: Json, target: Target) -> bool:
    """Whether a pod is a target's."""
    return bool(resolve(target, lives_of(pod)))


def concerned(parts: Iterable[Expectation], pods: Iterable[Json]) -> set[str]:
    """Give the nodes with a pod whose process some expectation is about."""
    asked = list(parts)
    lives = (life for pod in pods for life in lives_of(pod))
    return {life.node for life in lives if life.node and any(_is_about(part, life) for part in asked)}


def _is_about(part: Expectation, life: Life) -> bool:
    value: Any = part.value
    match part.kind:
        case "process":
            whose = value.kvcache or value.workload
            return bool(life.role == value.role and whose in {None, life.owner, life.workload})
        case "same" | "changed" if not value.of:
            return value.services or life.role in _USERS
        case "same" | "changed":
            return any(resolve(target, [life]) for target in value.of)
        case "memory":
            return bool(resolve(value.of, [life]))
        case "lives" if value.engine:
            return bool(resolve(Target(engine=value.engine), [life]))
        case "lives":
            return bool(resolve(Target(cache=value.cache), [life])) if value.cache else life.role == "cache"
        case "reaches" | "start_order":
            return bool((life.role, life.namespace, life.workload) == ("engine", value.namespace, value.workload))
    return False
