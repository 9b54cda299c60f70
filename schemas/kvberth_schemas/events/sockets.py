"""Sockets of caches. Written by the agent of their node."""

from enum import StrEnum
from typing import ClassVar

from kvberth_schemas.model import Event


class SocketLostReason(StrEnum):
    """Why a socket does not answer."""

    MISSING = "missing"
    STALE = "stale"
    REFUSED = "refused"
    HUNG = "hung"
    DENIED = "denied"
    PROTOCOL = "protocol"


class SocketReadyV1(Event):
    """A register request on the socket was answered."""

    ce_type: ClassVar[str] = "kvberth.socket.ready.v1"
    cache: str
    namespace: str
    node: str
    path: str
    incarnation: str
    """The daemon's deployment id; ``local`` or empty: not started by us."""
    instance_id: int
    version: str
    memory_usage: int
    memory_limit: int


class SocketLostV1(Event):
    """The socket does not answer, and why."""

    ce_type: ClassVar[str] = "kvberth.socket.lost.v1"
    cache: str
    namespace: str
    node: str
    path: str
    reason: SocketLostReason
    message: str
    incarnation: str | None = None
    """The last daemon that answered there, if any did."""


class SocketGoneV1(Event):
    """The directory is no longer kept; nothing is said about its socket any more."""

    ce_type: ClassVar[str] = "kvberth.socket.gone.v1"
    cache: str
    namespace: str
    node: str
