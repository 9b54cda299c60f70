"""What the clients give for a blob: a new one to write into, and where a sealed one lies."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Blob:
    """A new, unsealed blob: write into `buffer`, then seal `object_id`. The buffer is not zeroed by the daemon."""

    object_id: int
    buffer: memoryview


@dataclass(frozen=True, slots=True)
class SharedBlob:
    """Where a blob lies, for a process that maps it by itself: `size` bytes at `offset` of the memory behind `fd`.

    The descriptor is the holder's to close. The same memory comes with the same `map_bytes`.
    """

    fd: int
    map_bytes: int
    offset: int
    size: int
