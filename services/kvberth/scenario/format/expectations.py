"""What may be expected, one model per kind. Each says itself in words; `kvberth.scenario.judge` judges it. Pure."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from kvberth.scenario.format.base import Count, Duration, HowMany, Name, Names, OneOf, Part, Regex, one_or_more
from kvberth.scenario.format.events import EventMatch
from kvberth.scenario.format.targets import AnyTarget, CacheTarget, EngineTarget, Targets

_ONE = Count(at_least=1, at_most=1)
_SOME = Count(at_least=1, at_most=None)


class Caches(Part):
    """Caches of a KVCache answer a real register request on exactly these nodes, and on no other."""

    kvcache: Name
    nodes: list[Name]
    namespace: Name = "default"

    def __str__(self) -> str:
        """Say it."""
        return f"caches of {self.kvcache} answer on exactly {', '.join(sorted(self.nodes)) or 'no node'}"


class Engines(Part):
    """Engine pods of a workload, as the bus says."""

    workload: Name
    namespace: Name = "default"
    count: HowMany | None = None
    nodes: list[Name] | None = None
    """The nodes of the pods counted, each as often as it has one, in any order."""
    ready: HowMany | None = None
    """How many of them are ready."""
    waiting: HowMany | None = None
    """How many pods have no node."""
    why: Regex | None = None
    """Why a waiting one has none."""
    restarts: HowMany | None = None
    """Of each of them."""
    deleting: bool | None = None
    """Count only those that are being deleted (true), or are not (false); default: all."""

    def __str__(self) -> str:
        """Say it."""
        said = [f"{self.count} engines"] if self.count else []
        said += [f"engines on {', '.join(sorted(self.nodes)) or 'no node'}"] if self.nodes is not None else []
        said += [f"{self.ready} ready"] if self.ready else []
        said += [f"{self.waiting} waiting"] if self.waiting else []
        said += [f"waiting because of '{self.why}'"] if self.why else []
        said += [f"{self.restarts} restarts each"] if self.restarts else []
        which = {True: " (ending ones)", False: " (staying ones)", None: ""}[self.deleting]
        return f"{self.workload}{which} has {', '.join(said) or 'engines'}"


def _word(value: object) -> object:
    """YAML reads a bare True as a boolean; it means the word."""
    return str(value) if isinstance(value, bool) else value


class ConditionOf(Part):
    """A condition of a KVCache."""

    kvcache: Name
    type: Name
    namespace: Name = "default"
    status: Annotated[
        Literal["True", "False", "Unknown"] | None,
        BeforeValidator(_word, json_schema_input_type=Literal["True", "False", "Unknown"] | bool | None),
    ] = None
    reason: Name | None = None
    message: Regex | None = None

    def __str__(self) -> str:
        """Say it."""
        words = [f"{key} {value}" for key, value in (("status", self.status), ("reason", self.reason)) if value]
        words += [f"message '{self.message}'"] if self.message else []
        return f"{self.kvcache} has the condition {self.type} with {', '.join(words) or 'any status'}"


class StatusOf(Part):
    """The status of a KVCache beside its conditions."""

    kvcache: Name
    namespace: Name = "default"
    exists: bool = True
    engines: HowMany | None = None
    served: HowMany | None = None
    """Engines that are served."""
    nodes: list[Name] | None = None
    """Exactly the nodes that its rows name."""
    states: dict[Name, Name] = Field(default_factory=dict)
    """State of a node's row: ``serving``, ``starting``, ``leaving``, ``unknown`` or ``missing``."""
    moved: Regex | None = None
    """The sentence about the last move."""
    generation: int | None = None
    """The observed generation."""
    mentions: Regex | None = None
    """Found anywhere in the status, every name and message included; with ``not:`` nowhere."""

    def __str__(self) -> str:
        """Say it."""
        if not self.exists:
            return f"{self.kvcache} has no status"
        said = [f"{self.engines} engines"] if self.engines else []
        said += [f"{self.served} served"] if self.served else []
        said += [f"rows for {', '.join(sorted(self.nodes)) or 'no node'}"] if self.nodes is not None else []
        said += [f"{node} {state}" for node, state in self.states.items()]
        said += [f"moved '{self.moved}'"] if self.moved else []
        said += [f"generation {self.generation}"] if self.generation is not None else []
        said += [f"'{self.mentions}' somewhere"] if self.mentions else []
        return f"the status of {self.kvcache} has {', '.join(said) or 'any content'}"


class NodeIs(Part):
    """A node, as the bus says."""

    name: Name
    exists: bool = True
    ready: bool | None = None
    cordoned: bool | None = None
    labels: dict[str, str] = Field(default_factory=dict)

    def __str__(self) -> str:
        """Say it."""
        if not self.exists:
            return f"the node {self.name} is not known"
        said = [("ready" if self.ready else "not ready")] if self.ready is not None else []
        said += [("cordoned" if self.cordoned else "not cordoned")] if self.cordoned is not None else []
        said += [f"{key}={value}" for key, value in self.labels.items()]
        return f"the node {self.name} is {', '.join(said) or 'known'}"


class EventSeen(EventMatch):
    """So many messages like that were on the bus."""

    count: HowMany = _SOME
    """How many; default: at least one."""
    since: Name | None = None
    """Only what was said after that mark; default: everything (in a ``during``: since it began)."""

    def __str__(self) -> str:
        """Say it."""
        return f"{self.count} x {super().__str__()}" + (f" since '{self.since}'" if self.since else "")


class InOrder(Part):
    """Messages that were on the bus in that order; others may stand between."""

    events: list[EventMatch] = Field(min_length=2)
    since: Name | None = None

    def __str__(self) -> str:
        """Say it."""
        return "in this order: " + "; then ".join(map(str, self.events))


class StartOrder(Part):
    """A cache on the engine's node answered before each engine's container started (exactly: at its process' start)."""

    workload: Name
    kvcache: Name
    namespace: Name = "default"
    since: Name | None = None
    """Only engines that were started after that mark."""

    def __str__(self) -> str:
        """Say it."""
        return f"each engine of {self.workload} started after a cache of {self.kvcache} answered on its node"


class Lives(Part):
    """How many different lives (processes, for caches also incarnations) a cache or an engine has had."""

    cache: CacheTarget | None = None
    engine: EngineTarget | None = None
    count: HowMany
    since: Name | None = None
    """Only lives that began after that mark."""

    def __str__(self) -> str:
        """Say it."""
        window = f"since '{self.since}'" if self.since else "ever"
        return f"{self.count} lives of {self.cache or self.engine or 'all caches'} {window}"


class Identity(Part):
    """What a process is, against a mark: pid; for caches also incarnation and the instance id that it answers."""

    since: Name
    """The mark to compare with."""
    of: Targets | None = None
    """The processes; default: every engine and cache that lived at the mark."""
    services: bool = False
    """Compare the services and NATS as well."""

    def whom(self) -> str:
        """Say whom it is about."""
        if self.of:
            return " and ".join(map(str, self.of))
        return "every engine, cache and service" if self.services else "every engine and cache"


class ProcessIs(Part):
    """Processes that the kernel really runs, whatever the bus says."""

    role: Literal["cache", "engine", "placement", "scheduler", "runner", "node_agent", "nats", "up"]
    node: Name | None = None
    kvcache: Name | None = None
    """Caches only."""
    workload: Name | None = None
    """Engines only."""
    count: HowMany = _ONE

    def __str__(self) -> str:
        """Say it."""
        of = self.kvcache or self.workload
        return f"{self.count} running {self.role} process(es)" + (f" of {of}" if of else "") + _on(self.node)


class SocketIs(Part):
    """What a socket really answers."""

    kvcache: Name
    node: Name
    namespace: Name = "default"
    state: Literal["answers", "missing", "stale", "silent", "denied", "other"]
    """``answers`` a register; ``missing`` (no socket there); ``stale`` (nobody listens); ``silent`` (accepts, says
    nothing); ``denied``; ``other`` (something else speaks there)."""

    def __str__(self) -> str:
        """Say it."""
        return f"the socket of {self.kvcache} on {self.node} is: {self.state}"


class PathIs(Part):
    """What really lies in a node's root for sockets."""

    node: Name
    path: str = Field(examples=["default/my-kvcache", "default/my-kvcache/vineyard.sock"])
    """Below the node's root: ``<namespace>/<kvcache>`` is a cache's directory."""
    state: Literal["missing", "present", "directory", "empty", "socket", "file"]
    mode: str | None = Field(None, pattern="^0?[0-7]{3,4}$", examples=["0700"])

    def __str__(self) -> str:
        """Say it."""
        return f"{self.path} on {self.node} is: {self.state}" + (f", mode {self.mode}" if self.mode else "")


class MetricIs(Part):
    """A metric of a service, scraped."""

    of: AnyTarget
    """A service: ``placement``, ``{service: {name: runner, node: l20-a}}``."""
    name: Name
    labels: dict[str, str] = Field(default_factory=dict)
    """The series whose labels hold these are added up; no series counts as 0."""
    op: Literal["==", "!=", "<", "<=", ">", ">="] = "=="
    value: float
    since: Name | None = None
    """Judge the growth since that mark."""

    def __str__(self) -> str:
        """Say it."""
        labels = "{" + ",".join(f'{key}="{value}"' for key, value in self.labels.items()) + "}" if self.labels else ""
        grown = f" has grown since '{self.since}'" if self.since else ""
        return f"{self.name}{labels} of {self.of}{grown} {self.op} {self.value:g}"


class LogSays(Part):
    """Lines of the log of an engine, a cache, a service, NATS or `up`."""

    of: AnyTarget
    line: Regex
    count: HowMany = _SOME
    since: Name | None = None
    """Only lines written after that mark."""

    def __str__(self) -> str:
        """Say it."""
        return f"{self.count} lines '{self.line}' in the log of {self.of}" + (
            f" since '{self.since}'" if self.since else ""
        )


class MemoryIs(Part):
    """Resident memory of a process."""

    of: AnyTarget
    at_most: str | None = Field(None, examples=["100Mi"])
    """Absolute bound, a Kubernetes quantity."""
    grown_at_most: str | None = Field(None, examples=["2Mi"])
    """Bound for the growth since the mark ``since``."""
    since: Name | None = None

    def __str__(self) -> str:
        """Say it."""
        bounds = [f"at most {self.at_most}"] if self.at_most else []
        bounds += [f"at most {self.grown_at_most} more than at '{self.since}'"] if self.grown_at_most else []
        return f"the resident memory of {self.of} is {' and '.join(bounds)}"


class Reaches(Part):
    """The socket that each engine of a workload was given leads to the daemon of that KVCache on its own node."""

    workload: Name
    kvcache: Name
    namespace: Name = "default"

    def __str__(self) -> str:
        """Say it."""
        return f"each engine of {self.workload} reaches the daemon of {self.kvcache} on its node"


def _all_lives(value: object) -> object:
    """Let ``same: before`` stand for ``same: {since: before}``."""
    return {"since": value} if isinstance(value, str) else value


AnyIdentity = Annotated[Identity, BeforeValidator(_all_lives, json_schema_input_type=Name | Identity)]


class Expectation(OneOf):
    """One thing that must be true: exactly one kind, and when."""

    apart: ClassVar[frozenset[str]] = frozenset({"within", "needs", "requires", "measure"})

    caches: Caches | None = None
    engines: Engines | None = None
    condition: ConditionOf | None = None
    status: StatusOf | None = None
    node: NodeIs | None = None
    event: EventSeen | None = None
    order: InOrder | None = None
    start_order: StartOrder | None = None
    lives: Lives | None = None
    same: AnyIdentity | None = None
    """The processes are those that they were at the mark: not one was restarted or replaced."""
    changed: AnyIdentity | None = None
    """Each of the processes is another one than at the mark, and there is one."""
    process: ProcessIs | None = None
    socket: SocketIs | None = None
    path: PathIs | None = None
    metric: MetricIs | None = None
    log: LogSays | None = None
    memory: MemoryIs | None = None
    reaches: Reaches | None = None
    not_: "Expectation | None" = Field(None, alias="not")
    """The expectation below does not hold."""
    any_of: list["Expectation"] | None = Field(None, min_length=2)
    """At least one of them holds."""

    within: Duration | None = None
    """How long it may take to come true, from the beginning of its step; default: the step's."""
    needs: Names = Field(default_factory=list)
    """Abilities of kvberth without which it can't hold yet: skipped and counted while one is missing."""
    requires: Names = Field(default_factory=list)
    """Abilities of the backend without which it can't be judged: skipped and counted there."""
    measure: Name | None = None
    """Report the seconds until it came true under this name."""

    def __str__(self) -> str:
        """Say it."""
        if self.kind == "not":
            return f"not: {self.value}"
        if self.kind == "any_of":
            return "any of: " + " | ".join(map(str, self.value))
        if self.kind in {"same", "changed"}:
            verb = "the same process" if self.kind == "same" else "another process"
            return f"{self.value.whom()} is {verb} as at '{self.value.since}'"
        return str(self.value)

    def parts(self) -> list["Expectation"]:
        """Give the expectation, or those that it is made of."""
        if self.kind == "not":
            return self.value.parts()  # type: ignore[no-any-return]
        if self.kind == "any_of":
            return [part for item in self.value for part in item.parts()]
        return [self]


def _on(node: str | None) -> str:
    return f" on {node}" if node else ""


Expectations = Annotated[
    list[Expectation],
    BeforeValidator(one_or_more, json_schema_input_type=Expectation | list[Expectation]),
    Field(min_length=1),
]
