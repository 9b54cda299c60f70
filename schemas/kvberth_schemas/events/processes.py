"""Processes of the bare backend. Written by the runner of their node."""

from enum import StrEnum
from typing import ClassVar

from pydantic import AwareDatetime

from kvberth_schemas.events.pods import GateResult, LastEnd
from kvberth_schemas.model import Event


class ProcessRole(StrEnum):
    """What a process is; the runner never looks at an image."""

    ENGINE = "engine"
    CACHE = "cache"
    TRANSFER = "transfer"
    """A cache's transfer worker. Its memory is the cache's, which counts it."""


class ProcessStartedV1(Event):
    """A process runs (or, with ``ready``, has answered)."""

    ce_type: ClassVar[str] = "kvberth.process.started.v1"
    node: str
    namespace: str
    owner: str
    """The pod's uid (engines) or the KVCache's name (caches and their transfer workers)."""
    name: str
    """The pod's name, or the KVCache's."""
    role: ProcessRole
    pid: int
    started: AwareDatetime
    ready: bool
    restarts: int = 0
    memory_bytes: int = 0
    """What the pod or cache asked for, which counts in the node's ``requested``."""
    cpu_millis: int = 0
    gpus: int = 0
    incarnation: str | None = None
    """Caches: the id that the daemon was started with."""
    kvcache_uid: str | None = None
    model: str | None = None
    """Engines: the value of the label ``model.aibrix.ai/name``."""
    workload: str | None = None
    """Engines: ``Kind/name`` of the top owner, so that a scheduler that lost its directory can take the pod over."""
    directories: tuple[str, ...] = ()
    """Host directories that the process uses (as in manifests, not as mapped)."""
    wanted: bool = True
    """False: it runs although no want asks for it."""
    message: str = ""
    last_end: LastEnd | None = None
    """How the life before this one ended; None: this is the first."""
    log: str = ""
    """The file on its node that its output goes to."""
    at_gate: bool = False
    """Engines: what runs is the gate before the engine, which has not started; the message says what it waits for."""
    gate: GateResult | None = None
    """Engines: how the gate ended that let it start; None where none did."""


class ProcessEndedV1(Event):
    """A process ended, or was never started; ``restarting`` says that the runner will start it again."""

    ce_type: ClassVar[str] = "kvberth.process.ended.v1"
    node: str
    namespace: str
    owner: str
    name: str
    role: ProcessRole
    exit_code: int | None = None
    """None: not known (the process was adopted, or never ran)."""
    restarts: int = 0
    restarting: bool = False
    incarnation: str | None = None
    message: str = ""
    last_end: LastEnd | None = None
    """The end that this tells of; None: it never ran."""
    log: str = ""
    """The file on its node that its output went to."""
    at_gate: bool = False
    """Engines: what ended is the gate before the engine, which has not started."""
    gate: GateResult | None = None
    """Engines: how the gate ended that let it start; None where none did."""


class ProcessGoneV1(Event):
    """Nothing is known of that process any more: its record was removed."""

    ce_type: ClassVar[str] = "kvberth.process.gone.v1"
    node: str
    namespace: str
    owner: str
    role: ProcessRole
