"""The events, one module per area; every class is one released version of one fact."""

from kvberth_schemas.events.caches import CacheMovedV1, CachePlacedV1, CacheRemovedV1
from kvberth_schemas.events.health import CacheHealthGoneV1, CacheHealthV1, HealthReason, Verdict
from kvberth_schemas.events.kvcaches import (
    Condition,
    ConditionStatus,
    KVCacheGoneV1,
    KVCacheSpecV1,
    KVCacheStatusGoneV1,
    KVCacheStatusV1,
    NodeRow,
)
from kvberth_schemas.events.nodes import NodeChangedV1, NodeGoneV1, Resources, Taint
from kvberth_schemas.events.pods import (
    GateResult,
    LastEnd,
    Owner,
    PodEvent,
    PodGoneV1,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodState,
    PodWaitingV1,
    SocketMount,
    Toleration,
)
from kvberth_schemas.events.processes import ProcessEndedV1, ProcessGoneV1, ProcessRole, ProcessStartedV1
from kvberth_schemas.events.sockets import SocketGoneV1, SocketLostReason, SocketLostV1, SocketReadyV1
from kvberth_schemas.events.transfers import CacheBlocksV1, TransferCompletedV1

__all__ = (
    "CacheBlocksV1",
    "CacheHealthGoneV1",
    "CacheHealthV1",
    "CacheMovedV1",
    "CachePlacedV1",
    "CacheRemovedV1",
    "Condition",
    "ConditionStatus",
    "GateResult",
    "HealthReason",
    "KVCacheGoneV1",
    "KVCacheSpecV1",
    "KVCacheStatusGoneV1",
    "KVCacheStatusV1",
    "LastEnd",
    "NodeChangedV1",
    "NodeGoneV1",
    "NodeRow",
    "Owner",
    "PodEvent",
    "PodGoneV1",
    "PodReadyV1",
    "PodRole",
    "PodScheduledV1",
    "PodState",
    "PodWaitingV1",
    "ProcessEndedV1",
    "ProcessGoneV1",
    "ProcessRole",
    "ProcessStartedV1",
    "Resources",
    "SocketGoneV1",
    "SocketLostReason",
    "SocketLostV1",
    "SocketMount",
    "SocketReadyV1",
    "Taint",
    "Toleration",
    "TransferCompletedV1",
    "Verdict",
)
