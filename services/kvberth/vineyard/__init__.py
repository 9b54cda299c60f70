"""An asyncio client of the Vineyard IPC protocol: what kvberth knows about a vineyardd, it learns through here.

Own client, because the official one holds the interpreter lock while it waits (for up to 300 s on a hung daemon).
This library decides nothing about caches; it only asks one daemon on one Unix socket and says clearly what came back.
"""

from kvberth.vineyard.binary import find_vineyardd
from kvberth.vineyard.client import Blob, Client, probe
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
from kvberth.vineyard.wire import InstanceStatus, Registration

__all__ = [
    "BinaryMissing",
    "Blob",
    "CannotAsk",
    "Client",
    "ConnectionGone",
    "DaemonHung",
    "InstanceStatus",
    "NotASocket",
    "ObjectMissing",
    "ObjectNotSealed",
    "ProtocolError",
    "Registration",
    "RequestRefused",
    "SocketDenied",
    "SocketMissing",
    "SocketPathTooLong",
    "SocketStale",
    "StoreFull",
    "VineyardError",
    "find_vineyardd",
    "probe",
]
