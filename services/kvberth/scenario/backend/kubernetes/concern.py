"""Whether a rule is about what a pod stands for, so that it can't be judged where nobody sees the pod. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from kvberth.scenario.backend.kubernetes import observed
from kvberth.scenario.backend.kubernetes.observed import Json
from kvberth.scenario.facts import Life
from kvberth.scenario.format import Expectation, Target
from kvberth.scenario.judge.lives import resolve

_USERS: Final = frozenset({"cache", "engine"})


def life_of(pod: Json) -> Life | None:
    """Give the life that a pod stands for, whether it runs or not; None: it is none of a scenario's."""
    what = observed.role(pod)
    if what is None:
        return None
    life = replace(observed.life_of(observed.pod_state(pod)), role=what)
    return replace(life, owner=pod["metadata"]["labels"][observed.CACHE_LABEL]) if what == "cache" else life


def stands_for(pod: Json, target: Target) -> bool:
    """Whether a pod is a target's."""
    life = life_of(pod)
    return life is not None and bool(resolve(target, [life]))


def concerned(parts: Iterable[Expectation], pods: Iterable[Json]) -> set[str]:
    """Give the nodes with a pod whose process some expectation is about."""
    asked = list(parts)
    lives = (life for pod in pods if (life := life_of(pod)) is not None and life.node is not None)
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
