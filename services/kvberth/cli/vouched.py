"""What may be shown of the statuses of a placement that is silent: nothing that it vouched for holds any more. Pure.

The number of engines served is left out by the table itself, which has no number for it.
"""

from dataclasses import replace

from kvberth.cli.overview import Overview
from kvberth_schemas.events import Condition, ConditionStatus, KVCacheStatusV1, NodeRow
from kvberth_schemas.subjects import Service

REASON = "PlacementSilent"


def vouched(overview: Overview) -> Overview:
    """Return what is known: what was said, and while placement is silent Unknown with the times of the last proofs."""
    if Service.PLACEMENT.value not in overview.silent:
        return overview
    known = tuple((spec, status and _unknown(status)) for spec, status in overview.kvcaches)
    return replace(overview, kvcaches=known)


def _unknown(status: KVCacheStatusV1) -> KVCacheStatusV1:
    rows = tuple(map(_doubted, status.nodes))
    conditions = tuple(_condition(found, rows) for found in status.conditions)
    return status.model_copy(update={"nodes": rows, "conditions": conditions})


def _condition(found: Condition, rows: tuple[NodeRow, ...]) -> Condition:
    if found.type == "Accepted":  # the manifest's own, which does not change by itself
        return found
    message = f"{found.type} is unknown: nobody says it any more"
    if found.type == "Healthy":
        proofs = [f"{row.node} at {row.last_proof:%Y-%m-%dT%H:%M:%SZ}" for row in rows if row.last_proof]
        message += f"; bytes last came back on {', '.join(proofs)}" if proofs else ""
    return found.model_copy(update={"status": ConditionStatus.UNKNOWN, "reason": REASON, "message": message})


def _doubted(row: NodeRow) -> NodeRow:
    return row.model_copy(update={"state": "unknown", "health": "", "message": ""})
