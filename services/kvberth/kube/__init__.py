"""The edge to a Kubernetes API server: reads, writes and leadership that survive networks. Imports no service.

The extra `kubernetes` brings what it needs; it is imported only by services that run there.
"""

from kvberth.kube.client import APPLY_PATCH, JSON, MERGE_PATCH, Call, Client
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
    NotFound,
    Refused,
    ServerTrouble,
    Throttled,
    Unauthorized,
    Unreachable,
)
from kvberth.kube.kinds import Kind, whole
from kvberth.kube.metrics import Metrics
from kvberth.kube.objects import Entry, Key, KubeObject, Meta, OwnerReference, Trimmed, Unreadable
from kvberth.kube.reflector import Reflector, Selection
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

__all__ = [
    "APPLY_PATCH",
    "JSON",
    "MERGE_PATCH",
    "AlreadyExists",
    "BackoffSettings",
    "Call",
    "Cause",
    "Change",
    "Client",
    "ClientSettings",
    "Conflict",
    "DeadlinePassed",
    "Entry",
    "Expired",
    "Forbidden",
    "Invalid",
    "Key",
    "Kind",
    "KubeError",
    "KubeObject",
    "KubeSettingsError",
    "LeaseSettings",
    "Meta",
    "Metrics",
    "NotFound",
    "OwnerReference",
    "QueueSettings",
    "RecorderSettings",
    "Reflector",
    "ReflectorSettings",
    "Refused",
    "Resource",
    "Selection",
    "ServerTrouble",
    "Throttled",
    "Trimmed",
    "Unauthorized",
    "Unreachable",
    "Unreadable",
    "Verb",
    "whole",
]
