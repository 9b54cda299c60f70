"""Decides what to say about a socket after one more look at it. Pure: no clock, no I/O.

An answer counts at once, and so does proof of the contrary; a missed deadline needs a second one before a socket that
answered is called lost. Between two kinds of lost, one look is not enough either: a daemon that starts passes through
several of them within milliseconds, and nobody needs to hear of each.
"""

from dataclasses import dataclass, replace

from kvberth_schemas.events import SocketLostReason, SocketLostV1, SocketReadyV1

Said = SocketReadyV1 | SocketLostV1


@dataclass(frozen=True, slots=True)
class CacheAddress:
    """Which cache's socket it is; ``path`` is the socket's."""

    node: str
    namespace: str
    cache: str
    path: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A daemon registered us and told its status; memory in bytes."""

    incarnation: str
    instance_id: int
    version: str
    memory_usage: int
    memory_limit: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Nobody answered, and why. ``certain`` is False for a deadline that may have been missed by accident."""

    reason: SocketLostReason
    message: str
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Standing:
    """What was said last, and the failure that was seen since then, ``times`` in a row."""

    said: Said | None = None
    failed: Failed | None = None
    times: int = 0


def judge(address: CacheAddress, standing: Standing, outcome: Answered | Failed) -> tuple[Standing, Said | None]:
    """Give the new standing, and the event to publish where there is something new to say."""
    if isinstance(outcome, Answered):
        event = None if _known(standing.said, outcome) else _ready(address, outcome)
        return Standing(said=event or standing.said), event
    times = standing.times + 1 if standing.failed and standing.failed.reason == outcome.reason else 1
    seen = replace(standing, failed=outcome, times=times)
    if times < _needed(standing.said, outcome):
        return seen, None
    lost = _lost(address, standing.said, outcome)
    if lost == standing.said:
        return seen, None
    return replace(seen, said=lost), lost


def _needed(said: Said | None, outcome: Failed) -> int:
    if said is None:
        return 1
    if isinstance(said, SocketReadyV1):
        return 1 if outcome.certain else 2
    return 2


def _known(said: Said | None, answered: Answered) -> bool:
    """Whether that daemon was reported; how much of its memory is in use changes and is no news here."""
    return isinstance(said, SocketReadyV1) and (
        said.incarnation,
        said.instance_id,
        said.version,
        said.memory_limit,
    ) == (answered.incarnation, answered.instance_id, answered.version, answered.memory_limit)


def _ready(address: CacheAddress, answered: Answered) -> SocketReadyV1:
    return SocketReadyV1(
        cache=address.cache,
        namespace=address.namespace,
        node=address.node,
        path=address.path,
        incarnation=answered.incarnation,
        instance_id=answered.instance_id,
        version=answered.version,
        memory_usage=answered.memory_usage,
        memory_limit=answered.memory_limit,
    )


def _lost(address: CacheAddress, said: Said | None, failed: Failed) -> SocketLostV1:
    return SocketLostV1(
        cache=address.cache,
        namespace=address.namespace,
        node=address.node,
        path=address.path,
        reason=failed.reason,
        message=failed.message,
        incarnation=said.incarnation if said else None,
    )
