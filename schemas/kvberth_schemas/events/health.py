"""Proven health of caches. Written by the agent of their node."""

from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from kvberth_schemas.model import Event


class Verdict(StrEnum):
    """What the last proofs say."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    FAILED = "failed"
    UNKNOWN = "unknown"


class CacheHealthV1(Event):
    """Bytes went into the cache and came back, or they did not."""

    ce_type: ClassVar[str] = "kvberth.cache.health.v1"
    cache: str
    namespace: str
    node: str
    incarnation: str | None
    verdict: Verdict
    reason: str
    message: str
    last_proof: datetime | None = None
    round_trip_s: float | None = None
    memory_usage: int | None = None
    memory_limit: int | None = None
    metadata: str = "local"


class CacheHealthGoneV1(Event):
    """The cache's directory is no longer kept."""

    ce_type: ClassVar[str] = "kvberth.cache.health-gone.v1"
    cache: str
    namespace: str
    node: str
