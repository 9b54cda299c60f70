"""How patient each part is. All times are seconds; the defaults are for production, tests shorten them."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Where the API server is and how long one request may take."""

    kubeconfig: Path | None = None
    """None: the pod's own ServiceAccount where there is one, else kubectl's default file."""
    context: str | None = None
    user_agent: str = "kvberth"
    request_s: float = 10.0
    """Deadline of a request from its first byte to its last, a list's page included."""
    reload_every_s: float = 5.0
    """Credentials are read anew after a 401, at most this often."""
    max_answer_bytes: int = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffSettings:
    """Decorrelated jitter: each wait is random between `first_s` and three times the last one, at most `most_s`."""

    first_s: float = 0.5
    most_s: float = 30.0
    forget_after_s: float = 60.0
    """So long a good stream makes the next wait short again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorSettings:
    """List and watch."""

    page_size: int = 500
    page_s: float = 30.0
    """Deadline of one page of a list."""
    watch_least_s: int = 240
    watch_most_s: int = 300
    """The server is asked to end a watch after a random time between the two."""
    silence_s: float = 70.0
    """A stream that says nothing for so long is dead: bookmarks come every 60 s."""
    floor_s: float = 1.0
    """Least time between two beginnings of a watch that ended cleanly."""
    resync_s: float = 600.0
    """How often every object is told again, without asking the server."""
    max_frame_bytes: int = 16 * 2**20
    backoff: BackoffSettings = field(default_factory=BackoffSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """The keyed work queue."""

    workers: int = 4
    capacity: int = 100_000
    """Different keys that may wait; one more is refused and counted, and the next resync brings it again."""
    handle_s: float = 30.0
    """Deadline of handling one key."""
    retry_first_s: float = 0.2
    retry_most_s: float = 60.0
    per_second: float = 10.0
    burst: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """Leader election by a Lease of coordination.k8s.io/v1."""

    namespace: str
    name: str
    identity: str
    """Unique per process life or pod: ``<pod name>_<pod uid>``."""
    duration_s: int = 15
    """Others wait this long, by their own clock, after the last renewal that they saw."""
    renew_deadline_s: float = 10.0
    """Work is cancelled when no renewal succeeded for so long; must be well below `duration_s`."""
    retry_s: float = 2.0
    """Between two renewals."""
    look_s: float = 1.0
    """Between two looks of who waits, give or take a fifth: so soon one that stops is followed."""
    request_s: float = 3.0
    stop_s: float = 3.0
    """How long cancelled work may take to end; with `renew_deadline_s` at most `duration_s`."""

    def __post_init__(self) -> None:
        """Refuse times with which two leaders could be at work."""
        if self.renew_deadline_s + self.stop_s > self.duration_s or self.retry_s >= self.renew_deadline_s:
            raise ValueError(
                f"lease {self.namespace}/{self.name}: renew_deadline_s {self.renew_deadline_s} + stop_s {self.stop_s} "
                f"must not pass duration_s {self.duration_s}, and retry_s {self.retry_s} must be below renew_deadline_s"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSettings:
    """Kubernetes Events."""

    controller: str
    """``kvberth.dev/placement``."""
    instance: str
    capacity: int = 1024
    """Events that may wait, and events that are remembered to count repetitions."""
    series_every_s: float = 30.0
    """How often a repeated event's count is written at most."""
    remember_s: float = 600.0
    """An event not repeated for so long is written as a new one."""
    attempts: int = 5
    request_s: float = 5.0
    backoff: BackoffSettings = field(default_factory=lambda: BackoffSettings(first_s=0.2, most_s=10.0))
