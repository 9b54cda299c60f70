"""What placement knows at one moment about one namespace: frozen data, decides nothing.

Absent and unknown are different things here: `Freshness` says whose word counts, `unreadable_*` what can't be told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kvberth.placement.memory import Memory, Trouble
from kvberth.placement.states import (
    Cache,
    DepartedEngine,
    EngineGroup,
    EngineProcess,
    KVCache,
    Node,
    WorkloadKey,
)
from kvberth_schemas.events import Resources


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whose word counts now. `stale` is the sentence when pods, nodes or specs are unknown."""

    stale: str | None
    runners: frozenset[str]
    agents: frozenset[str]
    silent_since: Mapping[str, datetime] = field(default_factory=dict)
    """By node whose agent's word ceased to count: when it was heard last."""

    @property
    def known(self) -> bool:
        """Whether pods, nodes and specs are fresh and complete."""
        return self.stale is None


@dataclass(frozen=True, slots=True)
class LiveWorkload:
    """The answer to a live read, made right before a removal."""

    found: bool
    wanted: int
    bound: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """What all namespaces share. The mappings are views of the index: valid until it takes the next row."""

    nodes: Mapping[str, Node]
    promised: Mapping[str, Resources]
    """By node: caches that are wanted there and do not run yet, so `requested` does not hold them."""
    label_values: Mapping[str, frozenset[str]]
    engines_elsewhere: Mapping[str, Mapping[str, int]]
    """By model: the number of engines in each namespace."""
    unreadable_nodes: frozenset[str]
    largest_memory: int | None = None
    """Bytes that the largest node has in all; None where no node is known."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One namespace at one moment."""

    namespace: str
    term: int
    kvcaches: tuple[KVCache, ...]
    engines: tuple[EngineGroup, ...]
    bound: Mapping[WorkloadKey, int]
    """By workload: the engines that are bound and stay."""
    departed: tuple[DepartedEngine, ...]
    orphans: tuple[EngineProcess, ...]
    """Living processes whose pods are bound nowhere."""
    caches: Mapping[str, Mapping[str, Cache]]
    """By KVCache, by node."""
    cluster: Cluster
    freshness: Freshness
    memory: Memory = field(default_factory=Memory)
    live: Mapping[WorkloadKey, LiveWorkload] = field(default_factory=dict)
    steady_s: float = 0.0
    """What the steady clock shows by which things were heard."""
    unreadable_pods: bool = False
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    """By KVCache."""
    revisions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By KVCache, by pool: what a new cache would be made from (Kubernetes)."""
    waiting_caches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By KVCache: why pods of caches have no node (Kubernetes)."""
    drains: Mapping[str, str] = field(default_factory=dict)
    """By uid of an engine on a cordoned node that no budget lets go: what a drain would wait for (Kubernetes)."""
    unreadable_process_nodes: frozenset[str] = frozenset()
