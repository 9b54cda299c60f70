"""What is known of the transfer worker beside a cache: it serves, it does not and why, or nobody knows. Pure."""

from dataclasses import dataclass

from kvberth.placement.reasons import Reason
from kvberth.placement.snapshot import Snapshot
from kvberth.placement.states import Cache
from kvberth_schemas.events import ConditionStatus, HealthReason


@dataclass(frozen=True, slots=True)
class Blocks:
    """Whether blocks can be stored in a cache, and why not."""

    status: ConditionStatus
    reason: Reason | HealthReason
    message: str = ""


def blocks_of(node: str, cache: Cache, snapshot: Snapshot) -> Blocks:
    """Return what a node's agent heard last of the transfer worker beside a cache; a silent one's word is unknown."""
    where = snapshot.cluster.nodes.get(node)
    if where is not None and not where.ready:
        return Blocks(ConditionStatus.UNKNOWN, Reason.AGENT_SILENT, "the node is not ready")
    if node not in snapshot.freshness.agents:
        return Blocks(ConditionStatus.UNKNOWN, Reason.AGENT_SILENT, "its node agent is silent")
    if cache.health is None:
        return Blocks(ConditionStatus.UNKNOWN, HealthReason.NOT_PROBED, "its transfer worker was not asked yet")
    words = cache.health.said.blocks
    if words is None:
        return Blocks(
            ConditionStatus.UNKNOWN, HealthReason.NOT_PROBED, "nobody could say yet whether its transfer worker serves"
        )
    if words:
        return Blocks(ConditionStatus.FALSE, Reason.NOT_SERVING, words.rstrip("."))
    return Blocks(ConditionStatus.TRUE, Reason.SERVING)
