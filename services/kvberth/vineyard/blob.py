"""What both clients give for a new blob."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Blob:
    """A new, unsealed blob: write into `buffer`, then seal `object_id`. The buffer is not zeroed by the daemon."""

    object_id: int
    buffer: memoryview
