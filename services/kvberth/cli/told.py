"""What each KVCache says of itself in `kvberth status`: every cause once, and a move only while it is news. Pure.

Placement says of each condition why it does not hold; what merely follows from another one is left out here.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from kvberth.cli.overview import Overview, condition
from kvberth_schemas.events import Condition, ConditionStatus, KVCacheStatusV1, NodeRow

MOVE_IS_NEWS_FOR: Final = timedelta(minutes=10)
_ROUTINE: Final = ("caches beside all engines, on ", "no cache runs")
"""Parts of what placement says of a placed KVCache that need no word: how they begin."""
_NOT_PLACED: Final = ("no cache was placed on ", "no cache was asked for")
"""What follows where a cache could not be placed, which `Placed` tells with its cause."""
_NO_DAEMON: Final = frozenset({"Missing", "Stale", "Gone", "Hung"})
"""Healths of a cache whose transfer worker says that there is no store: nobody answers there."""


def told_lines(overview: Overview, now: datetime) -> list[str]:
    """Give what each KVCache says of itself, one line a sentence."""
    statuses = [status for _, status in overview.kvcaches if status]
    return [f"{status.namespace}/{status.name}: {line}" for status in statuses for line in _says(status, now)]


def _says(status: KVCacheStatusV1, now: datetime) -> list[str]:
    """Give what a person should read: a move of late, what is not as it should be, and what is worth a word."""
    wrong = [found for found in status.conditions if found.status is not ConditionStatus.TRUE and not _is_dull(found)]
    told = [_without_what_follows(found, status) for found in wrong]
    placed = condition(status, "Placed")
    remarks = placed.message.split("; ") if placed and placed.status is ConditionStatus.TRUE else []
    remarks = [part for part in remarks if not part.startswith(_ROUTINE)]
    remarks += list(_of_rows(status.nodes, wrong))
    remarks = [part for part in remarks if not any(part in found.message for found in wrong)]
    move = [status.moved] if status.moved and _is_news(status, now) else []
    return list(dict.fromkeys(filter(None, (*move, *told, *remarks))))


def _is_dull(found: Condition) -> bool:
    return found.type == "Ready" or found.reason == "NotProbed"


def _is_news(status: KVCacheStatusV1, now: datetime) -> bool:
    return status.moved_at is None or now - status.moved_at < MOVE_IS_NEWS_FOR


def _without_what_follows(found: Condition, status: KVCacheStatusV1) -> str:
    """What a condition says beyond others: `Placed` tells why one is missing, `Healthy` how long one is silent."""
    placed, healthy = condition(status, "Placed"), condition(status, "Healthy")
    if found.type == "BlocksReady" and healthy is not None:
        return "; ".join(_of_blocks_alone(found, healthy, status.nodes))
    silent = found.type == "SocketsReady" and found.status is ConditionStatus.UNKNOWN
    if silent and healthy is not None and (healthy.status, healthy.reason) == (found.status, found.reason):
        return ""
    if found.type not in {"SocketsReady", "Healthy"} or placed is None or placed.status is ConditionStatus.TRUE:
        return found.message
    missing = {f"{row.node}: no cache is there" for row in status.nodes if row.state == "missing"}
    parts = found.message.split("; ")
    return "; ".join(part for part in parts if part not in missing and not part.startswith(_NOT_PLACED))


def _of_blocks_alone(blocks: Condition, healthy: Condition, rows: tuple[NodeRow, ...]) -> Iterator[str]:
    """What is said of transfer workers but for what follows from their caches, or their agents, of which `Healthy` says
    it."""
    told = healthy.message.split("; ")
    gone = tuple(f"{row.node}: " for row in rows if row.health in _NO_DAEMON)
    gone = tuple(node for node in gone if any(part.startswith(node) for part in told))
    for part in blocks.message.split("; "):
        follows = part.startswith(tuple(f"{node}There is no store" for node in gone))
        if part not in told and not follows:
            yield part


def _of_rows(rows: tuple[NodeRow, ...], wrong: list[Condition]) -> Iterator[str]:
    """What rows say that no condition says, with the node or without it."""
    unplaced = any(found.type == "Placed" for found in wrong)
    for row in rows:
        said = any(row.message in found.message for found in wrong)
        if row.message and not said and not (unplaced and row.message.startswith(_NOT_PLACED)):
            yield f"{row.node}: {row.message}"
