"""What placement knows at one moment about one namespace: frozen data, decides nothing.

Absent and unknown are different things here: `Freshness` says whose word counts, `unreadable_*` what can't be told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kvberth.kvcache import GateSpec, KVCacheSpec
from kvberth.placement.reasons import Reason
from kvberth.placement.tolerated import Tolerated
from kvberth_schemas.events import (
    CacheHealthV1,
    KVCacheStatusV1,
    NodeRow,
    Resources,
    SocketGoneV1,
    SocketLostV1,
    SocketReadyV1,
    Taint,
)
from kvberth_schemas.wants import Why

WorkloadKey = tuple[str, str]
"""Kind and name of an engine's top owner."""


@dataclass(frozen=True, slots=True)
class Cause:
    """The event behind a fact, so that what follows from it can name it."""

    id: str
    traceparent: str | None
    sequence: int
    time: datetime


class Life(StrEnum):
    """Whether a KVCache is there, and whose word says otherwise."""

    LIVE = "live"
    DELETED = "deleted"
    """By the user: turned off, whatever its engines do."""
    NOT_FOUND = "not found"
    """A reconciliation did not find it, which is nobody's word: nothing is touched."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class KVCache:
    """One KVCache; `spec` is None when it is not `LIVE`."""

    name: str
    uid: str
    generation: int
    created: datetime
    life: Life
    spec: KVCacheSpec | None
    paused: bool
    cause: Cause | None
    why: str = ""
    """What is wrong when it is neither live nor deleted."""

    @property
    def off(self) -> bool:
        """Whether the user wants no caches: the KVCache is deleted, or `replicas` is 0."""
        return self.life is Life.DELETED or (self.spec is not None and not self.spec.on)

    @property
    def frozen(self) -> bool:
        """Whether nothing of it may be added or removed."""
        if self.life is Life.DELETED:
            return False
        return self.spec is None or not self.spec.accepted or self.paused


@dataclass(frozen=True, slots=True)
class Priority:
    """A priority class and what it is worth."""

    name: str = ""
    value: int = 0


@dataclass(frozen=True, slots=True)
class Needs:
    """What the engines on a node need of the cache beside them, besides its being there (Kubernetes)."""

    tolerations: frozenset[Tolerated] = frozenset()
    rpc: bool = False
    """Whether one of them is legacy, so that it may ask the daemon over TCP."""
    strangers: frozenset[str] = frozenset()
    """Engines that are neither root nor in the group of the directories."""
    priority: Priority = Priority()
    """The highest of theirs."""

    def cover(self, other: "Needs") -> bool:
        """Whether what these need is enough for others."""
        return (
            all(any(mine.covers(theirs) for mine in self.tolerations) for theirs in other.tolerations)
            and self.priority.value >= other.priority.value
            and (self.rpc or not other.rpc)
            and bool(self.strangers) == bool(other.strangers)
        )


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine's pod, by uid; `node` is None while it waits."""

    uid: str
    name: str
    model: str
    node: str | None
    host_paths: tuple[str, ...]
    workload: WorkloadKey | None
    deleting: bool
    why_waiting: str
    cause: Cause
    needs: Needs = Needs()
    wanted: int | None = None
    """How many its top owner wanted when this was said; None where that is not known."""
    without_cache: str = ""
    """How its gate let it start although its cache had not answered, in words; empty where it did not."""
    ungated: bool = False
    """Whether it is legacy and was restarted: gates run once per pod, so it needs its cache at once."""


@dataclass(frozen=True, slots=True)
class EngineGroup:
    """Engines that belong alike as far as they themselves say: one model, the same directories. By node."""

    model: str
    host_paths: tuple[str, ...]
    bound: dict[str, tuple[Engine, ...]]
    """Those that stay."""
    ending: dict[str, tuple[Engine, ...]]
    """Bound and deleting: they still use their sockets."""
    waiting: dict[str, Engine]
    """By uid: those without a node."""


@dataclass(frozen=True, slots=True)
class DepartedEngine:
    """An engine that is really gone: when it left which node."""

    uid: str
    model: str
    node: str | None
    workload: WorkloadKey | None
    cause: Cause


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """A living process of an engine (bare): it uses its socket, whatever became of its pod."""

    uid: str
    node: str
    model: str
    host_paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One node as the scheduler sees it."""

    name: str
    ready: bool
    labels: Mapping[str, str]
    allocatable: Resources
    requested: Resources
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What placement has asked for on a node."""

    run: bool
    why: Why
    uid: str
    pool: str
    size_bytes: int
    memory_bytes: int
    cpu_millis: int
    gate: GateSpec
    directory: bool
    """Whether the directory is kept (or, for a stop, dropped) as well."""
    since: datetime
    """When this was asked for first, in this state."""
    cause: str | None
    traceparent: str | None = None
    started: datetime | None = None
    """When the cache was asked to run, where that is known."""
    needs: Needs | None = None
    """What it was asked to provide to its engines; None where no backend looks at that (bare)."""


@dataclass(frozen=True, slots=True)
class Held:
    """A step that was not taken, since it failed or something outside forbids it: why, and until when it is not tried
    again."""

    reason: Reason
    message: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps the backend from doing what is asked for about a KVCache."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class CachePod:
    """The newest pod of a cache on a node (Kubernetes)."""

    uid: str
    revision: str | None
    """What it was made from; None where it does not say so."""
    requests: Resources
    deleting: bool


@dataclass(frozen=True, slots=True)
class CacheProcess:
    """What the runner says of a cache's process."""

    running: bool
    restarting: bool
    incarnation: str | None
    message: str
    pod: CachePod | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """What its node's agent proved of a cache last, and since when it says so."""

    said: CacheHealthV1
    since: datetime
    cause: Cause


SocketState = SocketReadyV1 | SocketLostV1 | SocketGoneV1


@dataclass(frozen=True, slots=True)
class Cache:
    """Everything known of one KVCache's cache on one node."""

    wanted: Wanted | None = None
    process: CacheProcess | None = None
    socket: SocketState | None = None
    health: Health | None = None

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.running

    @property
    def asked(self) -> bool:
        """Whether it is wanted to run."""
        return self.wanted is not None and self.wanted.run

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        return self.wanted is not None and not self.wanted.run

    @property
    def answers(self) -> bool:
        """Whether a register request was answered by the very daemon that runs there."""
        if not isinstance(self.socket, SocketReadyV1):
            return False
        return self.process is None or (
            self.process.running and self.process.incarnation in {None, self.socket.incarnation}
        )


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
class AtRest:
    """The caches of a KVCache of which nothing is to be done: what was said of them, and all that it followed from.

    Every mapping is by node, and has the same nodes. None is changed once it is here.
    """

    item: KVCache
    revisions: Mapping[str, str] | None = None
    caches: dict[str, Cache] = field(default_factory=dict)
    engines: dict[str, tuple[Engine, ...]] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    rows: dict[str, NodeRow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a plan saw of a KVCache's engines, so that the next one sees who came."""

    engines: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By node: uids of engines that stay; those at rest are left out."""
    successors: frozenset[str] = frozenset()
    """Nodes of engines that came in place of others which have not left yet."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What placement itself remembers of a namespace."""

    statuses: Mapping[str, KVCacheStatusV1] = field(default_factory=dict)
    removals: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    """By KVCache: when caches were removed lately."""
    restarts: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    """By KVCache: when caches were restarted lately."""
    idle_since: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    """By KVCache and node: since when a cache was seen without an engine."""
    at_rest: Mapping[str, AtRest] = field(default_factory=dict)
    """By KVCache. Changes no plan, only what it costs."""
    arrivals: Mapping[str, Arrivals] = field(default_factory=dict)
    """By KVCache. Changes only whether an end is told as a move."""
    held: Mapping[tuple[str, str], Held] = field(default_factory=dict)
    """By KVCache and node."""


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
    memory: Memory = Memory()
    live: Mapping[WorkloadKey, LiveWorkload] = field(default_factory=dict)
    unreadable_pods: bool = False
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    """By KVCache."""
    revisions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By KVCache, by pool: what a new cache would be made from (Kubernetes)."""
    waiting_caches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By KVCache: why pods of caches have no node (Kubernetes)."""
    unreadable_process_nodes: frozenset[str] = frozenset()
