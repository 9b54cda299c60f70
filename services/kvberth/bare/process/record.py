"""What is written down about a process so that it is found again. Pure data: reads and writes nothing."""

from pydantic import BaseModel, ConfigDict


class ProcessRecord(BaseModel):
    """One life of a process. Whoever starts processes adds fields of his own; a reader passes over those."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    life: str
    """New for every start; the process and its children carry it in their environment."""
    boot_id: str
    """Pids and start times of another boot mean nothing."""
    pid: int | None = None
    """None while it is being started."""
    start_ticks: int | None = None
    """When the process started, so that its pid is never taken for another process's."""
