"""Wants: what a node is asked to run or keep. Only an explicit ``stop`` or ``drop`` ends something."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from kvberth_schemas.events.pods import SocketMount
from kvberth_schemas.model import Want


class Why(StrEnum):
    """What led to a want."""

    WANTED = "wanted"
    MOVED = "moved"
    USER = "user"
    SCALED = "scaled"
    IDLE = "idle"
    """Its engine has left and none came in its place. Unlike `scaled` it is no word of the user: engines hold it up."""
    HUNG = "hung"
    UPGRADE = "upgrade"


class RestartPolicy(StrEnum):
    """As in Kubernetes."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


EnvName = Annotated[str, StringConstraints(pattern=r"^[^=\x00]+$")]
EnvValue = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Env = Annotated[dict[EnvName, EnvValue], Field(json_schema_extra={"additionalProperties": False})]
"""Variables that a process can have. The door refuses others, so no want of ours ever held one."""


class EngineWantV1(Want):
    """Run (or stop) the engine of a pod. Written by the scheduler, read by the runner."""

    ce_type: ClassVar[str] = "kvberth.want.engine.v1"
    state: Literal["run", "stop"]
    why: Why
    namespace: str
    pod_uid: str
    pod_name: str
    model: str
    workload: str | None = None
    """``Kind/name`` of the top owner."""
    env: Env = Field(default_factory=dict)
    sockets: tuple[SocketMount, ...] = ()
    """Host directories with sockets, and where the manifest mounts them."""
    grace_s: float = 30.0
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    gate: bool = False
    """Whether a gate runs before the engine, once per pod, until the cache in the first of `sockets` answers."""
    cpu_millis: int = 0
    memory_bytes: int = 0
    gpus: int = 0


class CacheWantV1(Want):
    """Run (or stop) a cache. Written by placement on bare, read by the runner."""

    ce_type: ClassVar[str] = "kvberth.want.cache.v1"
    state: Literal["run", "stop"]
    why: Why
    namespace: str
    kvcache: str
    kvcache_uid: str
    pool: str = ""
    size_bytes: int
    """The daemon's ``--size``."""
    memory_bytes: int = 0
    """What the cache counts for in its node's ``requested``: the manifest's memory."""
    cpu_millis: int = 0
    env: Env = Field(default_factory=dict)
    block_bytes: int = 0
    """Above 0, a transfer worker runs beside the daemon, and its store holds so many bytes of blocks."""
    not_incarnation: str | None = None
    """A daemon of this incarnation is ended and started anew."""


class DirWantV1(Want):
    """Keep (or drop) a cache's directory. Written by placement, read by the node's agent."""

    ce_type: ClassVar[str] = "kvberth.want.dir.v1"
    state: Literal["keep", "drop"]
    why: Why
    namespace: str
    kvcache: str
    mode: int = 0o700
    gid: int | None = None
    gate_policy: Literal["wait", "startWithoutCache"] | None = None
    gate_timeout_s: float | None = None
    cache: bool | None = None
    """Whether a cache was asked for in it; false: it stands alone, or stood so until its end. None: nobody said."""
