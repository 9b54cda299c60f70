"""What is known of a cache's health: proven, not proven, or unknown, with the time of the last proof. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kvberth.placement.reasons import Reason
from kvberth.placement.snapshot import Cache, Snapshot
from kvberth_schemas.events import ConditionStatus, HealthReason, SocketReadyV1, Verdict
from kvberth_schemas.quantity import format_bytes

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
_STATUSES = {Verdict.DEGRADED: FALSE, Verdict.FAILED: FALSE, Verdict.UNKNOWN: UNKNOWN}


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether bytes go into a cache and come back, why not, and when they last did."""

    status: ConditionStatus
    reason: Reason | HealthReason
    message: str = ""
    at: datetime | None = None


def proof_of(kvcache: str, node: str, cache: Cache, snapshot: Snapshot) -> Proof:
    """Return what is proven of a KVCache's cache on a node now. What nobody vouches for any more is unknown."""
    at = _last(node, cache, snapshot)
    where = snapshot.cluster.nodes.get(node)
    if where is not None and not where.ready:
        return Proof(UNKNOWN, Reason.AGENT_SILENT, f"the node is not ready{_since(at)}", at)
    if node not in snapshot.freshness.agents:
        return Proof(UNKNOWN, Reason.AGENT_SILENT, f"its node agent is silent{_since(at)}", at)
    if cache.health is None:
        return Proof(UNKNOWN, HealthReason.NOT_PROBED, "no bytes were put in yet")
    said = cache.health.said
    if said.verdict is not Verdict.HEALTHY:
        return Proof(_STATUSES[said.verdict], _reason(said.reason), f"{said.message}{_since(at)}", at)
    if isinstance(cache.socket, SocketReadyV1) and cache.socket.incarnation != said.incarnation:
        return Proof(
            UNKNOWN, HealthReason.NOT_PROBED, f"its daemon is new, and no bytes were put in yet{_since(at)}", at
        )
    other = _other_size(cache, snapshot.revisions.get(kvcache, {}), said.memory_limit)
    return Proof(FALSE, Reason.SIZE_DIFFERS, other, at) if other else Proof(TRUE, HealthReason.PROVEN, "", at)


def _last(node: str, cache: Cache, snapshot: Snapshot) -> datetime | None:
    """When bytes last came back: said now and then only, but an agent that lives vouches for what it said."""
    if cache.health is None or cache.health.said.last_proof is None:
        return None
    said = cache.health.said
    heard = snapshot.freshness.silent_since.get(node)
    if heard is None or said.verdict is not Verdict.HEALTHY or said.last_proof is None:
        return said.last_proof
    return max(said.last_proof, heard)


def _other_size(cache: Cache, revisions: Mapping[str, str], limit: int | None) -> str:
    """What was asked for never reached the daemon: say both. A pod of an older manifest has the size of that."""
    wanted = cache.wanted
    if wanted is None or not wanted.run or limit is None or wanted.size_bytes in {0, limit}:
        return ""
    pod = cache.process.pod if cache.process is not None else None
    if pod is not None and (pod.revision is None or pod.revision != revisions.get(wanted.pool)):
        return ""
    return f"configured {format_bytes(wanted.size_bytes)}, effective {format_bytes(limit)}"


def _since(at: datetime | None) -> str:
    return f"; bytes last came back at {at:%Y-%m-%dT%H:%M:%SZ}" if at is not None else "; no bytes ever came back"


def _reason(text: str) -> Reason | HealthReason:
    try:
        return HealthReason(text)
    except ValueError:  # a newer agent's
        return Reason.NOT_ANSWERING
