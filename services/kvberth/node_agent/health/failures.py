"""What a failed call says of a cache, in words that stay the same while the reason does. Pure.

Whoever reads events takes other words for news, so what differs from proof to proof (ids, sizes, the daemon's own text)
is a detail, for the log.
"""

from kvberth.node_agent.health.verdict import Failed, NoEvidence
from kvberth.vineyard import (
    CannotAsk,
    ConnectionGone,
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
from kvberth_schemas.events import HealthReason

_OWN = ""
_NOT_VISIBLE = "what was sealed on one connection is not found on another"
_KINDS: tuple[tuple[type[VineyardError], HealthReason, str], ...] = (
    (SocketMissing, HealthReason.MISSING, _OWN),
    (SocketPathTooLong, HealthReason.MISSING, _OWN),
    (SocketStale, HealthReason.STALE, _OWN),
    (SocketDenied, HealthReason.DENIED, _OWN),
    (ConnectionGone, HealthReason.GONE, "vineyardd closed the connection in the midst of a proof"),
    (ProtocolError, HealthReason.PROTOCOL, "what answers here does not speak vineyardd's protocol"),
    (ObjectMissing, HealthReason.NOT_VISIBLE, _NOT_VISIBLE),
    (ObjectNotSealed, HealthReason.NOT_VISIBLE, _NOT_VISIBLE),
    (StoreFull, HealthReason.FULL, "the store is full: it has no room for a few bytes"),
    (RequestRefused, HealthReason.REFUSED, "vineyardd refused what was asked of it"),
    (VineyardError, HealthReason.REFUSED, _OWN),
)


def seen_in(error: VineyardError) -> Failed | NoEvidence:
    """Give what an error shows; a missed deadline is not for here."""
    if isinstance(error, CannotAsk):
        return NoEvidence("this agent could ask nobody: it lacks file descriptors, memory or the like", error.what)
    reason, words = next((reason, words) for kind, reason, words in _KINDS if isinstance(error, kind))
    return Failed(reason, f"{error.path}: {words or error.what}", error.what if words else "")
