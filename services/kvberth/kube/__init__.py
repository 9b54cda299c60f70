"""The edge to a Kubernetes API server: reads, writes and leadership that survive networks. Imports no service.

The extra `kubernetes` brings what it needs; it is imported only by services that run there.
"""

from kvberth.kube.applier import FIELD_MANAGER, Applier, Eviction, Target
from kvberth.kube.client import APPLY_PATCH, JSON, MERGE_PATCH, Call, Client
from kvberth.kube.conflicts import ConflictKind, ConflictReport, explain
from kvberth.kube.election import Election, Leadership
from kvberth.kube.errors import (
    AlreadyExists,
    Cause,
    Conflict,
    DeadlinePassed,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    KubeSettingsError,
    LeaseHeldByRunaway,
    NotFound,
    Refused,
    ServerTrouble,
    Throttled,
    Unauthorized,
    Unreachable,
)
from kvberth.kube.fence import FENCE, FenceVerdict, fence_verdict
from kvberth.kube.kinds import Kind, whole
from kvberth.kube.listing import Selection, get, list_all
from kvberth.kube.metrics import Metrics
from kvberth.kube.objects import Entry, Key, KubeObject, Meta, OwnerReference, Trimmed, Unreadable
from kvberth.kube.queue import WorkQueue
from kvberth.kube.recorder import EventRecorder
from kvberth.kube.reflector import Reflector
from kvberth.kube.resources import Resource
from kvberth.kube.settings import (
    BackoffSettings,
    ClientSettings,
    LeaseSettings,
    QueueSettings,
    RecorderSettings,
    ReflectorSettings,
)
from kvberth.kube.store import Change, Verb
from kvberth.kube.tally import EventType, Occurrence, Regarding

__all__ = [
    "APPLY_PATCH",
    "FENCE",
    "FIELD_MANAGER",
    "JSON",
    "MERGE_PATCH",
    "AlreadyExists",
    "Applier",
    "BackoffSettings",
    "Call",
    "Cause",
    "Change",
    "Client",
    "ClientSettings",
    "Conflict",
    "ConflictKind",
    "ConflictReport",
    "DeadlinePassed",
    "Election",
    "Entry",
    "EventRecorder",
    "EventType",
    "Eviction",
    "Expired",
    "FenceVerdict",
    "Forbidden",
    "Invalid",
    "Key",
    "Kind",
    "KubeError",
    "KubeObject",
    "KubeSettingsError",
    "Leadership",
    "LeaseHeldByRunaway",
    "LeaseSettings",
    "Meta",
    "Metrics",
    "NotFound",
    "Occurrence",
    "OwnerReference",
    "QueueSettings",
    "RecorderSettings",
    "Reflector",
    "ReflectorSettings",
    "Refused",
    "Regarding",
    "Resource",
    "Selection",
    "ServerTrouble",
    "Target",
    "Throttled",
    "Trimmed",
    "Unauthorized",
    "Unreachable",
    "Unreadable",
    "Verb",
    "WorkQueue",
    "explain",
    "fence_verdict",
    "get",
    "list_all",
    "whole",
]
