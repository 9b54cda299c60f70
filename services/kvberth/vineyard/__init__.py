"""Clients of the Vineyard IPC protocol, for asyncio and for threads: kvberth learns from them all about a vineyardd.

Own client, because the official one holds the interpreter lock while it waits (for up to 300 s on a hung daemon).
This library decides nothing about caches; it only asks one daemon on one Unix socket and says clearly what came back.
"""

from kvberth.vineyard.binary import find_vineyardd
from kvberth.vineyard.blob import Blob, SharedBlob
from kvberth.vineyard.blocking import BlockingClient
from kvberth.vineyard.client import Client, probe
from kvberth.vineyard.errors import (
    BinaryMissing,
    CannotAsk,
    ConnectionGone,
    DaemonHung,
    NotASocket,
    ObjectMissing,
    ObjectNotSealed,
    ProtocolError,
    RequestRefused,
    SocketDenied,
    SocketMissing,
    SocketPathTooLong,
    SocketStale,
    StoreFull,
    VineyardError,
)
from kvberth.vineyard.kept import KeptClient
from kvberth.vineyard.question import StandingQuestion
from kvberth.vineyard.wire import InstanceStatus, Registration

__all__ = [
    "BinaryMissing",
    "Blob",
    "BlockingClient",
    "CannotAsk",
    "Client",
    "ConnectionGone",
    "DaemonHung",
    "InstanceStatus",
    "KeptClient",
    "NotASocket",
    "ObjectMissing",
    "ObjectNotSealed",
    "ProtocolError",
    "Registration",
    "RequestRefused",
    "SharedBlob",
    "SocketDenied",
    "SocketMissing",
    "SocketPathTooLong",
    "SocketStale",
    "StandingQuestion",
    "StoreFull",
    "VineyardError",
    "find_vineyardd",
    "probe",
]
