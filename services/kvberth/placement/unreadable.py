"""Sorts the things whose last message can't be read: unknown, never absent. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from kvberth_schemas.subjects import Entity, EventSubject


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Things whose last message can't be read: unknown, never absent."""

    pods: frozenset[str] = frozenset()
    """Namespaces with such a pod."""
    processes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By namespace: nodes with such a process."""
    specs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By namespace and name: why."""
    nodes: frozenset[str] = frozenset()
    healths: frozenset[tuple[str, str, str]] = frozenset()
    """By namespace, KVCache and node: what was proven before is not known to stand."""

    @classmethod
    def of(cls, whys: Mapping[EventSubject, str]) -> "Unreadable":
        """Sort subjects by what they are about."""
        processes: dict[str, set[str]] = defaultdict(set)
        for subject in whys:
            if subject.entity is Entity.PROCESS and subject.namespace and subject.node:
                processes[subject.namespace].add(subject.node)
        return cls(
            pods=frozenset(item.namespace for item in whys if item.entity is Entity.POD and item.namespace),
            processes={namespace: frozenset(nodes) for namespace, nodes in processes.items()},
            specs={
                (item.namespace, item.object): why
                for item, why in whys.items()
                if item.entity is Entity.SPEC and item.namespace
            },
            nodes=frozenset(item.object for item in whys if item.entity is Entity.NODE),
            healths=frozenset(
                (item.namespace, item.object, item.node)
                for item in whys
                if item.entity is Entity.HEALTH and item.namespace and item.node
            ),
        )
