"""The log of what placement did with caches; no state reader opens it."""

from typing import ClassVar

from kvberth_schemas.model import Event


class CachePlacedV1(Event):
    """A cache was asked for on a node."""

    ce_type: ClassVar[str] = "kvberth.cache.placed.v1"
    cache: str
    namespace: str
    to: str
    reason: str
    message: str
    plan: str


class CacheMovedV1(Event):
    """The cache on ``origin`` has ended after its engine went; the one that was asked for on ``to`` took over."""

    ce_type: ClassVar[str] = "kvberth.cache.moved.v1"
    cache: str
    namespace: str
    origin: str
    to: str
    message: str
    plan: str


class CacheRemovedV1(Event):
    """A cache was given up."""

    ce_type: ClassVar[str] = "kvberth.cache.removed.v1"
    cache: str
    namespace: str
    origin: str
    reason: str
    message: str
    plan: str
