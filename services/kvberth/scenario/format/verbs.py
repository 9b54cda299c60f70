"""What may be done in a step, one model per verb that needs more than a name. Pure."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from kvberth.scenario.format.base import Duration, Name, OneOf, Part
from kvberth.scenario.format.events import EventMatch
from kvberth.scenario.format.targets import AnyTarget, EngineTarget

Kind = Literal["Deployment", "StatefulSet", "KVCache", "Pod"]


class Delete(Part):
    """An object, or the pod of an engine."""

    kind: Kind | None = None
    name: Name | None = None
    engine: EngineTarget | None = None
    """The pod of that engine, instead of kind and name."""
    namespace: Name = "default"

    def __str__(self) -> str:
        """Say it."""
        return f"delete {f'the pod of {self.engine}' if self.engine else f'{self.kind} {self.name}'}"


class Patch(Part):
    """A merge patch for an object that this scenario applied; it is applied again with it."""

    kind: Literal["Deployment", "StatefulSet", "KVCache"]
    name: Name
    namespace: Name = "default"
    merge: dict[str, Any]

    def __str__(self) -> str:
        """Say it."""
        return f"patch {self.kind} {self.name}"


class Scale(Part):
    """How many engines a workload wants."""

    workload: Name
    kind: Literal["Deployment", "StatefulSet"] = "Deployment"
    namespace: Name = "default"
    replicas: int = Field(ge=0, le=1000)

    def __str__(self) -> str:
        """Say it."""
        return f"scale {self.workload} to {self.replicas}"


class Taint(Part):
    """A taint, as in a v1 Node."""

    key: Name
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class NodeSpec(Part):
    """A node and what it claims to have; the default is an L20 node with one GPU."""

    name: Name
    gpus: int = Field(1, ge=0)
    cpu: str = "60"
    memory: str = "192Gi"
    labels: dict[str, str] = Field(
        default_factory=lambda: {"machine.cluster.vke.volcengine.com/gpu-name": "NVIDIA-L20"}
    )
    """Replaces the default label."""
    taints: list[Taint] = Field(default_factory=list)
    unschedulable: bool = False


def _plain_node(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


AnyNode = Annotated[
    NodeSpec,
    BeforeValidator(_plain_node, json_schema_input_type=Name | NodeSpec),
    Field(examples=["l20-a", {"name": "l20-a", "gpus": 2}]),
]
"""A node's name, or more of it."""


class Labels(Part):
    """New labels of a node; null removes one."""

    node: Name
    labels: dict[str, str | None]

    def __str__(self) -> str:
        """Say it."""
        return f"label {self.node} with {', '.join(f'{key}={value}' for key, value in self.labels.items())}"


class Kill(Part):
    """A process that gets a signal, and whose end is waited for."""

    target: AnyTarget
    signal: Literal["KILL", "TERM", "INT", "SEGV", "ABRT"] = "KILL"

    def __str__(self) -> str:
        """Say it."""
        return f"kill {self.target}" + ("" if self.signal == "KILL" else f" with SIG{self.signal}")


def _plain_kill(value: object) -> object:
    """Let a target stand for ``{target: …}``."""
    return value if isinstance(value, dict) and "target" in value else {"target": value}


AnyKill = Annotated[Kill, BeforeValidator(_plain_kill, json_schema_input_type=AnyTarget | Kill)]


class Publish(OneOf):
    """A message on the bus that nobody of kvberth said."""

    apart: ClassVar[frozenset[str]] = frozenset({"subject", "headers", "type", "times", "every"})

    again: "Again | None" = None
    """An earlier message once more."""
    json_: Any = Field(None, alias="json")
    """This value as the body, on ``subject``."""
    text: str | None = None
    """This text as the body, on ``subject``."""
    base64: str | None = None
    """These bytes as the body, on ``subject``."""
    subject: str | None = Field(None, examples=["kvberth.evt.v1.-.default.some=20uid.pod"])
    type: str | None = None
    """Makes a right envelope around the body, of this type (``pod.scheduled``); default: no envelope at all."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers, over those of the envelope."""
    times: int = Field(1, ge=1, le=100_000)
    """How often; ``{n}`` in subject and body stands for the number, from 1. There and in headers ``{now}``,
    ``{now+7m}``, ``{now-1h}`` stand for times."""
    every: Duration = "0s"
    """What passes between two of them."""

    def __str__(self) -> str:
        """Say it."""
        what = str(self.value) if self.kind == "again" else f"{self.kind} on {self.subject}"
        return f"publish {what}" + (f", {self.times} times" if self.times > 1 else "")


class Again(Part):
    """An earlier message, byte for byte."""

    event: EventMatch
    which: Literal["first", "last"] = "first"
    """Where several match."""
    since: Name | None = None
    """Only among those after that mark."""
    id: Literal["same", "new"] = "new"
    """``same``: a duplicate, which the stream drops within two minutes; ``new``: a late message that is stored."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """Fields of the body that are changed, by dotted path."""

    def __str__(self) -> str:
        """Say it."""
        return f"again the {self.which} {self.event} with {'its old' if self.id == 'same' else 'a new'} id"


class FileAct(OneOf):
    """Something done to the files of a node's root for sockets (see ``path`` among the expectations)."""

    apart: ClassVar[frozenset[str]] = frozenset({"node", "mode"})

    node: Name
    mkdir: str | None = None
    """Make a directory, with ``mode``."""
    chmod: str | None = None
    """Give it ``mode``."""
    remove: str | None = None
    """Remove a file, a socket, or a directory with all in it."""
    stale_socket: str | None = None
    """Put a socket there on which nobody listens, in place of what is there."""
    write: str | None = None
    """Put a plain file there, in place of what is there."""
    mode: str = Field("0755", pattern="^0?[0-7]{3,4}$")

    def __str__(self) -> str:
        """Say it."""
        return f"{self.kind.replace('_', ' ')} {self.value} on {self.node}"


class Peer(Part):
    """A hostile program at a cache's socket, in place of what is there; it lives until the scenario ends."""

    node: Name
    kvcache: Name
    namespace: Name = "default"
    does: Literal["silent", "closes", "garbage"] = "silent"
    """``silent``: accepts, never answers; ``closes``: hangs up at once; ``garbage``: answers nonsense."""

    def __str__(self) -> str:
        """Say it."""
        return f"put a peer that is '{self.does}' at the socket of {self.kvcache} on {self.node}"


class Filled(Part):
    """The memory of a cache, which blobs of the scenario take to the last byte."""

    node: Name
    kvcache: Name
    namespace: Name = "default"

    def __str__(self) -> str:
        """Name it."""
        return f"the memory of {self.kvcache} on {self.node}"


class Fault(Part):
    """A proxy before a cache's daemon, from the first fault on, or before NATS or the API server, all the time."""

    bus: Literal[True] | None = None
    """Between NATS and all services of kvberth, instead of a cache; who tells the story is not affected."""
    api: Literal[True] | None = None
    """Between the API server and the services that talk to it; a bare machine has none."""
    node: Name | None = None
    kvcache: Name | None = None
    namespace: Name = "default"
    does: Literal["none", "silence", "reset", "slow", "half-open"]
    """``silence``: takes connections and bytes and passes nothing on; ``reset``: ends every connection; ``slow``:
    passes answers on after ``delay``; ``half-open``: connections that are open now are silent for good, new ones pass;
    ``none``: passes everything on."""
    delay: Duration = "100ms"

    @model_validator(mode="after")
    def _before_one(self) -> Self:
        cache = self.node is not None and self.kvcache is not None
        if [self.bus, self.api, cache or None].count(None) != 2 or (not cache and (self.node or self.kvcache)):
            raise ValueError(
                "a fault stands before one thing; write either 'bus: true', or 'api: true', or 'node' and 'kvcache'"
            )
        return self

    @property
    def way(self) -> Literal["bus", "api"] | None:
        """Which of the services' ways fails; None where a cache does."""
        return "bus" if self.bus else "api" if self.api else None

    def __str__(self) -> str:
        """Say it."""
        ways = {"bus": "NATS", "api": "the API server", None: f"the cache of {self.kvcache} on {self.node}"}
        return f"fault '{self.does}'{f' by {self.delay}' if self.does == 'slow' else ''} before {ways[self.way]}"
