"""What may be expected of the machine: processes, sockets, paths, metrics, logs, memory. Pure."""

from typing import Literal, Self

from pydantic import Field, model_validator

from kvberth.scenario.format.base import SOME, Count, ExactDuration, HowMany, Name, Part, Regex, timed
from kvberth.scenario.format.targets import AnyTarget

_ONE = Count(at_least=1, at_most=1)


class ProcessIs(Part):
    """Processes that the kernel really runs, whatever the bus says."""

    role: Literal["cache", "engine", "placement", "scheduler", "runner", "node_agent", "nats", "up"]
    node: Name | None = None
    kvcache: Name | None = None
    """Caches only."""
    workload: Name | None = None
    """Engines only."""
    count: HowMany = _ONE

    @model_validator(mode="after")
    def _whose(self) -> Self:
        for key, role, value in (("kvcache", "cache", self.kvcache), ("workload", "engine", self.workload)):
            if value is not None and self.role != role:
                raise ValueError(f"a process of the role {self.role} has no '{key}'; that is for the role {role}")
        return self

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


class ReadyIs(Part):
    """Whether a service calls itself ready: ``/readyz``, on Kubernetes as the kubelet's probe found it."""

    of: AnyTarget
    """A service: ``placement``, ``{service: {name: runner, node: l20-a}}``."""
    value: bool = True
    says: Regex | None = None
    """What its answer holds; not known on Kubernetes."""

    def __str__(self) -> str:
        """Say it."""
        is_ready = f"{self.of} is {'ready' if self.value else 'not ready'}"
        return f"{is_ready} and says '{self.says}'" if self.says else is_ready


class LogSays(Part):
    """Lines of the log of an engine, a cache, a service, NATS or `up`."""

    of: AnyTarget
    line: Regex
    count: HowMany = SOME
    since: Name | None = None
    """Only lines written after that mark."""

    def __str__(self) -> str:
        """Say it."""
        return f"{self.count} lines '{self.line}' in the log of {self.of}" + (
            f" since '{self.since}'" if self.since else ""
        )


class CliSays(Part):
    """What `kvberth status` prints, run as a user would: anew while this is waited for."""

    line: Regex
    """Found in one line of it."""
    since: Name | None = None
    """It was found after that mark, whatever was printed later; default: the last one that was given in this step."""
    by: ExactDuration | None = None
    """By a command that was given at most so long after that mark."""

    @model_validator(mode="after")
    def _by_since(self) -> Self:
        if self.by and not self.since:
            raise ValueError("'by' counts from a mark; name it by 'since'")
        return self

    def __str__(self) -> str:
        """Say it."""
        return f"'kvberth status' prints '{self.line}'" + timed(self.since, self.by)


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


def _on(node: str | None) -> str:
    return f" on {node}" if node else ""
