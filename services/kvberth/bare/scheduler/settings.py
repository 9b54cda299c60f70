"""What the scheduler can be told from outside."""

from pydantic import Field

from kvberth.service import ServiceSettings


class SchedulerSettings(ServiceSettings):
    """The settings of all services, and how patient the scheduler is with silent nodes."""

    not_ready_after_s: float = Field(3.0, gt=0, le=3600)
    """Seconds without a sign of life of its runner after which a node is NotReady. Default 3: three are missing."""

    not_ready_eviction_s: float = Field(300.0, gt=0, le=7 * 24 * 3600)
    """Seconds of silence after which a node's engines are bound elsewhere. Default 300, as in Kubernetes."""

    tick_s: float = Field(0.5, gt=0, le=5)
    """Seconds between two looks at the nodes' silence when nothing else happens. Default 0.5."""
