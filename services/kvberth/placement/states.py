"""What is known of single things: engines, nodes, KVCaches, caches. Frozen data, decides nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kvberth.kvcache import GateSpec, KVCacheSpec
from kvberth.placement.tolerated import Tolerated
from kvberth_schemas.events import (
    CacheHealthV1,
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
    """By the clock of whoever said it."""
    heard_s: float = 0.0
    """When placement heard it, by its own steady clock."""


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
    user: int | None = None
    """The uid that its pod names; None where it names none."""
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
    cordoned: bool = False


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
    """Whether the directory is kept (or, for a stop, dropped) as well; where it stands alone, whether it is kept."""
    since: datetime
    """When this was asked for first, in this state."""
    cause: str | None
    traceparent: str | None = None
    started: datetime | None = None
    """When the cache was asked to run, where that is known."""
    needs: Needs | None = None
    """What it was asked to provide to its engines; None where no backend looks at that (bare)."""
    block_bytes: int = 0
    """What the store of a transfer worker holds beside it (bare)."""
    only_directory: bool = False
    """No cache was asked for, but its directory, so that gates there follow the manifest. It never runs."""


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
    """What its node's agent proved of a cache last, and the event by which it said so first."""

    said: CacheHealthV1
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
        """Whether it was told to stop, or its directory, where that stood alone, to go."""
        return self.wanted is not None and not self.wanted.run and not self.claimed

    @property
    def claimed(self) -> bool:
        """Whether its directory alone is asked for."""
        return self.wanted is not None and self.wanted.only_directory and self.wanted.directory

    @property
    def answers(self) -> bool:
        """Whether a register request was answered by the very daemon that runs there."""
        if not isinstance(self.socket, SocketReadyV1):
            return False
        return self.process is None or (
            self.process.running and self.process.incarnation in {None, self.socket.incarnation}
        )
