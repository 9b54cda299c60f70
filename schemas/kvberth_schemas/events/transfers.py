"""The data path, summed up: receipts, and what is there; at most one event a second and cache."""

from typing import ClassVar

from kvberth_schemas.model import Event


class TransferCompletedV1(Event):
    """What became of the blocks offered since the last one."""

    ce_type: ClassVar[str] = "kvberth.transfer.completed.v1"
    cache: str
    namespace: str
    node: str
    engine: str
    stored: int
    present: int
    dropped: dict[str, int]
    """By reason."""
    bytes: int
    seconds: float
    queue_s: float


class CacheBlocksV1(Event):
    """What a cache's block store holds. The counts are of one life of its transfer worker, or of one epoch in it."""

    ce_type: ClassVar[str] = "kvberth.cache.blocks.v1"
    cache: str
    namespace: str
    node: str
    blocks: int
    bytes: int
    """Of the slots that the blocks occupy."""
    capacity_bytes: int
    stored: int
    evicted: int
    removed: int
    engines: int
    """How many are registered."""
    complaint: str = ""
    """Why there is no store, or nothing can be stored at this moment; empty: it serves."""
    waiting_for: tuple[str, ...] = ()
    """The clients (``<epoch>.<client>``) that map an earlier store, for which the next one waits."""
