"""KVCaches: the manifest as the user applied it, and the status as placement sees it."""

from enum import StrEnum
from typing import Any, ClassVar

from pydantic import AwareDatetime

from kvberth_schemas.model import Event, Message


class KVCacheSpecV1(Event):
    """A KVCache as applied. Written by pod_watcher or the scheduler."""

    ce_type: ClassVar[str] = "kvberth.kvcache.spec.v1"
    uid: str
    name: str
    namespace: str
    generation: int
    resource_version: int
    created: AwareDatetime
    paused: bool = False
    deleting: bool = False
    manifest: dict[str, Any]


class KVCacheGoneV1(Event):
    """A KVCache is not there. Only ``by_user`` is the user's word; a reconciliation says just that it was not found."""

    ce_type: ClassVar[str] = "kvberth.kvcache.gone.v1"
    uid: str
    name: str
    namespace: str
    by_user: bool
    why: str
    resource_version: int = 0
    """The KVCache's last one that its writer knew; 0: not known."""


class ConditionStatus(StrEnum):
    """As in Kubernetes' conditions."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Message):
    """One condition; ``reason`` is a constant, ``message`` a sentence with names and numbers."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    since: AwareDatetime


class NodeRow(Message):
    """One node that has, or should have, a cache of the KVCache."""

    node: str
    pool: str = ""
    state: str
    """``serving`` (socket answered), ``starting``, ``leaving``, ``unknown`` or ``missing``."""
    socket: str | None = None
    incarnation: str | None = None
    engines: tuple[str, ...] = ()
    without_cache: tuple[str, ...] = ()
    """Those of the engines whose gate let them start although the cache had not answered."""
    memory_limit: int | None = None
    health: str = ""
    """In a word: why the verdict on its health stands, such as ``Proven`` or ``Hung``."""
    last_proof: AwareDatetime | None = None
    """When bytes last came back; while they do, up to half a minute old."""
    message: str = ""


class KVCacheStatusV1(Event):
    """The status of a KVCache, for readers with and without Kubernetes. Written by placement."""

    ce_type: ClassVar[str] = "kvberth.kvcache.status.v1"
    uid: str
    name: str
    namespace: str
    observed_generation: int
    term: int
    wanted_replicas: int
    engines: int
    """Engines that are bound to a node and stay."""
    engines_served: int
    engines_waiting: int = 0
    """Engines without a node; they count in neither of the others."""
    nodes: tuple[NodeRow, ...] = ()
    conditions: tuple[Condition, ...] = ()
    moved: str = ""
    """The last move in a sentence (``relocated from l20-a to l20-b``), with its time in ``moved_at``."""
    moved_at: AwareDatetime | None = None
    successors: tuple[str, ...] = ()
    """Nodes whose engines came in place of others whose caches have not ended yet."""


class KVCacheStatusGoneV1(Event):
    """The KVCache whose status this was is gone."""

    ce_type: ClassVar[str] = "kvberth.kvcache.status-gone.v1"
    name: str
    namespace: str
