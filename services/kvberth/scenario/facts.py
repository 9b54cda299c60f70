"""What was found out about a stack at one moment, by asking it and by looking at the machine. Data only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from kvberth_schemas.events import (
    KVCacheStatusV1,
    NodeChangedV1,
    PodReadyV1,
    PodScheduledV1,
    PodWaitingV1,
)

Pod = PodScheduledV1 | PodReadyV1 | PodWaitingV1
SocketState = Literal["answers", "missing", "stale", "silent", "denied", "other"]


class Place(NamedTuple):
    """Where a cache is, or could be."""

    node: str
    namespace: str
    kvcache: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a register request at a socket led to."""

    state: SocketState
    incarnation: str | None = None
    instance_id: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Life:
    """A process that the kernel runs. Roles are those of `ProcessIs`, and `gate` for what runs before an engine."""

    role: str
    pid: int
    node: str | None = None
    namespace: str | None = None
    owner: str = ""
    """A KVCache's name, or a pod's uid."""
    name: str = ""
    """Engines: the pod's name."""
    workload: str = ""
    deleting: bool = False
    incarnation: str | None = None
    rss_bytes: int = 0
    paused: bool = False
    began: datetime | None = field(default=None, compare=False)
    """When it was started, where the backend can tell and nobody says it on the bus."""
    socket: str | None = None
    """Engines: the socket's path that it was given."""

    @property
    def place(self) -> tuple[str, str | None, str | None, str]:
        """What stays when a process is replaced: role, node, namespace, owner."""
        return (self.role, self.node, self.namespace, self.owner)

    def __str__(self) -> str:
        """Name it."""
        what = f"{self.role} {self.name or self.owner}".strip()
        where = f" on {self.node}" if self.node else ""
        incarnation = f", incarnation {self.incarnation[:8]}" if self.incarnation else ""
        return f"{what}{where} (pid {self.pid}{incarnation})"


@dataclass(frozen=True, slots=True)
class Heard:
    """One message of the bus, in the order of its stream."""

    time: datetime
    id: str
    subject: str
    type: str
    """Without ``kvberth.`` and the version."""
    node: str | None
    namespace: str | None
    name: str
    body: Mapping[str, Any]
    cause: str | None
    stream: str
    sequence: int

    def __str__(self) -> str:
        """Give it in one line."""
        where = f" on {self.node}" if self.node else ""
        detail = self.body.get("message") or self.body.get("why") or ""
        return f"{self.time:%H:%M:%S.%f}"[:-3] + f" {self.type} {self.name}{where}" + (f": {detail}" if detail else "")


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of a metric."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a service says of itself."""

    ready: bool
    text: str | None
    """Its whole answer; None where only the verdict is known."""


@dataclass(frozen=True, slots=True)
class PathFact:
    """What lies at a path."""

    state: Literal["missing", "directory", "socket", "file", "other"]
    empty: bool = False
    mode: int = 0


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command printed, and when it was given."""

    began: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment to which later ones are compared."""

    at: datetime
    heard: int
    """How many messages had been heard."""
    lives: tuple[Life, ...] = ()
    answers: Mapping[Place, Answer] = field(default_factory=dict)
    metrics: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    logs: Mapping[str, int] = field(default_factory=dict)
    """Length of each log in lines, by target."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Only what the expectations at hand ask for is filled in, beside what the bus says."""

    at: datetime
    nodes: tuple[NodeChangedV1, ...] = ()
    pods: tuple[Pod, ...] = ()
    statuses: tuple[KVCacheStatusV1, ...] = ()
    scheduler_known: bool = True
    """Whether the last states are complete and the scheduler is alive, so that its word counts."""
    placement_known: bool = True
    heard: Sequence[Heard] = ()
    answers: Mapping[Place, Answer] = field(default_factory=dict)
    given: Mapping[str, Answer] = field(default_factory=dict)
    """What the sockets answer that engines were given, by path."""
    lives: tuple[Life, ...] = ()
    unseen: frozenset[str] = frozenset()
    """Nodes of which nobody told what runs there and what its sockets answer."""
    paths: Mapping[tuple[str, str], PathFact] = field(default_factory=dict)
    metrics: Mapping[str, Sequence[Sample] | str] = field(default_factory=dict)
    """By target; a text says why it can't be had."""
    readiness: Mapping[str, Readiness | str] = field(default_factory=dict)
    logs: Mapping[str, Sequence[str] | str] = field(default_factory=dict)
    printed: Sequence[Printed] = ()
    """What each `kvberth status` printed that has ended."""
    step_began: datetime | None = None
    """What was printed by a command that was given before answers nothing that is asked without a mark."""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    begun: int = 0
    """From which message on counts what names no mark."""
    lived: tuple[Life, ...] = ()
    """Who lived already when that began."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an expectation holds (None: can't be known at this moment), and what was seen instead."""

    holds: bool | None
    seen: str
