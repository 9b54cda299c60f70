"""What a runner remembers of each process of its node. Pure data: reads and writes nothing."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kvberth.bare.process.record import ProcessRecord
from kvberth.kvcache.gates import opens
from kvberth_schemas import names
from kvberth_schemas.events import GateResult, LastEnd, ProcessRole
from kvberth_schemas.wants import CacheWantV1, EngineWantV1


class State(StrEnum):
    """What a process is doing as far as its runner knows; the lock has the last word."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which process: the role, and whose it is (a pod's uid, or a KVCache's name)."""

    role: ProcessRole
    namespace: str
    owner: str

    @property
    def stem(self) -> str:
        """Give the name of its files."""
        return f"{self.role}.{names.encode(self.namespace)}.{names.encode(self.owner)}"


class Record(ProcessRecord):
    """One process through all its lives. Times are seconds of CLOCK_BOOTTIME, which survives the runner."""

    key: Key
    state: State
    want: EngineWantV1 | CacheWantV1
    """What was wanted when this life started."""
    cause: str | None = None
    """Envelope id of that want."""
    traceparent: str | None = None
    started: datetime | None = None
    started_at: float = 0.0
    ready: bool = False
    unready: str = ""
    """Why it is not ready any more; empty while it is, and before it ever was."""
    socket_lost_at: float | None = None
    """Since when a cache that was ready lives without its socket."""
    incarnation: str | None = None
    port: int | None = None
    """Engines: where /health is asked."""
    restarts: int = 0
    crashes: int = 0
    """Lives in a row that were too short; grows the back-off."""
    terminated_at: float | None = None
    """When this life was told to end."""
    stopped: bool = False
    """Whether it was told to end for good, not to be started anew."""
    ended_at: float | None = None
    found_ended_at: float | None = None
    """When a starting runner last found that it had ended unwatched."""
    exit_code: int | None = None
    message: str = ""
    last_end: LastEnd | None = None
    """Outlives the next start, as `exit_code` and `message` do not."""
    log: str = ""
    """Where its output goes; empty before it ever ran."""
    at_gate: bool = False
    """Engines: this life is the gate's, which runs before the engine; `unready` says what it waits for."""
    gate: GateResult | None = None
    """Engines: how the last gate ended."""

    @property
    def gate_open(self) -> bool:
        """Whether its gate has let the engine start, so that it does not run again before another life."""
        return self.gate is not None and opens(self.gate)
