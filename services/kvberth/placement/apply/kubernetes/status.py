"""Renders a status as the KVCache's own `status` on Kubernetes. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kvberth_schemas.events import KVCacheStatusV1, NodeRow

Json = dict[str, Any]


def status_body(status: KVCacheStatusV1, pods: Mapping[str, str]) -> Json:
    """Return the status, every field of ours; `pods` names the cache's pod by node."""
    return {
        "observedGeneration": status.observed_generation,
        "term": status.term,
        "replicas": status.wanted_replicas,
        "engines": status.engines,
        "enginesServed": status.engines_served,
        "caches": sum(1 for row in status.nodes if row.state == "serving"),
        "nodes": [_row(row, pods.get(row.node)) for row in status.nodes],
        "moved": status.moved or None,
        "movedTime": _time(status.moved_at),
        "conditions": [
            {
                "type": item.type,
                "status": item.status.value,
                "reason": item.reason,
                "message": item.message[:32_768],
                "lastTransitionTime": _time(item.since),
                "observedGeneration": status.observed_generation,
            }
            for item in status.conditions
        ],
    }


def is_said(body: Json, live: Mapping[str, Any]) -> bool:
    """Whether a KVCache says all this already, the term of whoever wrote it aside."""
    return all(_plain(live.get(key)) == _plain(value) for key, value in body.items() if key != "term")


def _row(row: NodeRow, pod: str | None) -> Json:
    found: Json = {
        "node": row.node,
        "pool": row.pool or None,
        "state": row.state,
        "pod": pod,
        "socket": row.socket,
        "incarnation": row.incarnation,
        "engines": list(row.engines),
        "enginesWithoutCache": list(row.without_cache) or None,
        "memoryLimit": row.memory_limit,
        "health": row.health or None,
        "lastProofTime": _time(row.last_proof),
        "message": row.message or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _time(at: datetime | None) -> str | None:
    """Whole seconds, as Kubernetes' own times."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at is not None else None


def _plain(value: object) -> object:
    """Null and absent are the same."""
    if isinstance(value, Mapping):
        return {key: _plain(found) for key, found in value.items() if found is not None}
    if isinstance(value, list):
        return [_plain(found) for found in value]
    return value
