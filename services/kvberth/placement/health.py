"""What is known of a cache's health: proven, not proven, or unknown, with the time of the last proof. Pure."""

from dataclasses import dataclass
from datetime import datetime

from kvberth.kvcache import KVCacheSpec
from kvberth.placement.reasons import Reason
from kvberth.placement.snapshot import Snapshot
from kvberth.placement.states import Cache, KVCache
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


def proof_of(item: KVCache, node: str, cache: Cache, snapshot: Snapshot) -> Proof:
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
    size, limit = _expected_size(item, cache, snapshot), said.memory_limit
    if None not in {size, limit} and size != limit:  # what was asked for never reached the daemon
        wanted, has = format_bytes(size or 0), format_bytes(limit or 0)
        differs = f"its store has {has}, not {wanted}, the memory that is configured less its headroom"
        return Proof(FALSE, Reason.SIZE_DIFFERS, differs, at)
    return Proof(TRUE, HealthReason.PROVEN, "", at)


def size_of(spec: KVCacheSpec, pool: str) -> int | None:
    """Return how large a new cache of a pool is, in bytes; None where there is no such pool."""
    if not spec.pools:
        return spec.size_bytes
    return next((item.size.size_bytes for item in spec.pools if item.name == pool), None)


def _last(node: str, cache: Cache, snapshot: Snapshot) -> datetime | None:
    """When bytes last came back: said now and then only, but an agent that lives vouches for what it said."""
    if cache.health is None or cache.health.said.last_proof is None:
        return None
    said = cache.health.said
    heard = snapshot.freshness.silent_since.get(node)
    if heard is None or said.verdict is not Verdict.HEALTHY or said.last_proof is None:
        return said.last_proof
    return max(said.last_proof, heard)


def _expected_size(item: KVCache, cache: Cache, snapshot: Snapshot) -> int | None:
    """How large the cache that runs must be; None where that is not known, as of a pod of an older manifest."""
    wanted = cache.wanted
    if wanted is None or not wanted.run or item.spec is None:
        return None
    pod = cache.process.pod if cache.process is not None else None
    if pod is None:
        return wanted.size_bytes or None
    current = snapshot.revisions.get(item.name, {}).get(wanted.pool)
    return size_of(item.spec, wanted.pool) if pod.revision is not None and pod.revision == current else None


def _since(at: datetime | None) -> str:
    return f"; bytes last came back at {at:%Y-%m-%dT%H:%M:%SZ}" if at is not None else "; no bytes ever came back"


def _reason(text: str) -> Reason | HealthReason:
    try:
        return HealthReason(text)
    except ValueError:  # a newer agent's
        return Reason.NOT_ANSWERING
