"""Sorts what went wrong with a directory or a socket into the reasons that events carry. Pure."""

import errno

from kvberth.node_agent.sockets.verdict import Answered, Failed
from kvberth.vineyard import (
    DaemonHung,
    InstanceStatus,
    ProtocolError,
    Registration,
    SocketDenied,
    SocketMissing,
    SocketPathTooLong,
    SocketStale,
    VineyardError,
)
from kvberth_schemas.events import SocketLostReason

_REASONS: tuple[tuple[type[VineyardError], SocketLostReason], ...] = (
    (SocketMissing, SocketLostReason.MISSING),
    (SocketPathTooLong, SocketLostReason.MISSING),
    (SocketStale, SocketLostReason.STALE),
    (SocketDenied, SocketLostReason.DENIED),
    (DaemonHung, SocketLostReason.HUNG),
    (ProtocolError, SocketLostReason.PROTOCOL),
)


def answered(registration: Registration, status: InstanceStatus) -> Answered:
    """Put together what a daemon said about itself."""
    return Answered(
        status.deployment, registration.instance_id, registration.version, status.memory_usage, status.memory_limit
    )


def unanswered(error: VineyardError) -> Failed:
    """Sort a failure of the client; whatever has no reason of its own means that the daemon turned us away."""
    reason = next((reason for kind, reason in _REASONS if isinstance(error, kind)), SocketLostReason.REFUSED)
    return Failed(reason, str(error), certain=reason is not SocketLostReason.HUNG)


def hung(path: str, answer_s: float) -> Failed:
    """A deadline of ``answer_s`` seconds has passed; always the same words, so that a longer wait is no news."""
    return Failed(
        SocketLostReason.HUNG, f"{path}: vineyardd gave no answer within {answer_s:g} s, it hangs or starts", False
    )


def closed(path: str) -> Failed:
    """The daemon closed the connection that was held, and who listens now has not answered yet."""
    return Failed(
        SocketLostReason.HUNG, f"{path}: vineyardd closed the connection, and its successor does not answer yet"
    )


def unusable(path: str, error: OSError) -> Failed:
    """The directory can't be made or looked at."""
    denied = error.errno in {errno.EACCES, errno.EPERM}
    reason = SocketLostReason.DENIED if denied else SocketLostReason.MISSING
    return Failed(reason, f"{path}: the cache's directory can't be kept here ({error.strerror})")


def no_directory(path: str, kind: str) -> Failed:
    """Something else is in the directory's place."""
    return Failed(SocketLostReason.MISSING, f"{path}: this is {kind}, a cache's directory should be here; remove it")
