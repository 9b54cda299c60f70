"""Proven health of caches. Written by the agent of their node."""

from enum import StrEnum
from typing import ClassVar

from pydantic import AwareDatetime

from kvberth_schemas.model import Event


class Verdict(StrEnum):
    """What the last proofs say."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    FAILED = "failed"
    UNKNOWN = "unknown"


class HealthReason(StrEnum):
    """Why a verdict stands: the words that `reason` of `cache.health` has so far; readers must bear others."""

    PROVEN = "Proven"
    SLOW = "Slow"
    """It answers, but every call takes long, or one that moves bytes took too long."""
    FULL = "Full"
    HUNG = "Hung"
    MISSING = "Missing"
    STALE = "Stale"
    DENIED = "Denied"
    REFUSED = "Refused"
    GONE = "Gone"
    """It closed a connection: in the midst of a proof, or the one that is kept, however soon its next life answered."""
    PROTOCOL = "Protocol"
    WRONG_BYTES = "WrongBytes"
    NOT_VISIBLE = "NotVisible"
    """What was sealed on one connection is not found on another."""
    WRONG_ACCOUNTS = "WrongAccounts"
    """What it says of its memory can't be true."""
    NOT_PROBED = "NotProbed"


class CacheHealthV1(Event):
    """Bytes went into the cache and came back, or they did not. Said at each change, and renewed with new numbers."""

    ce_type: ClassVar[str] = "kvberth.cache.health.v1"
    cache: str
    namespace: str
    node: str
    incarnation: str | None
    verdict: Verdict
    reason: str
    message: str
    last_proof: AwareDatetime | None = None
    """When bytes last came back as they went in. A verdict that is not said anew stands: see ``alive``."""
    round_trip_s: float | None = None
    memory_usage: int | None = None
    memory_limit: int | None = None
    metadata: str = "local"
    blocks: str | None = None
    """Why its transfer worker does not serve; empty: it does; none: nobody knows (yet)."""


class CacheHealthGoneV1(Event):
    """The cache's directory is no longer kept."""

    ce_type: ClassVar[str] = "kvberth.cache.health-gone.v1"
    cache: str
    namespace: str
    node: str
