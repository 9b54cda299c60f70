"""Receipts of the data path, summed up; at most one event a second and cache."""

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
