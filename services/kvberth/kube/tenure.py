"""Who may lead, judged from what a Lease says and how long we saw it say so. Pure.

The times that stand in a Lease are another machine's clock and are never compared with ours: a Lease is old when *we*
saw no renewal for as long as its holder promised to renew it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from kvberth.kube.settings import LeaseSettings

TERM_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""A new Lease's first term is the seconds since then, so that a Lease that somebody deleted never gives a term that
readers of the bus saw before; leaseTransitions has 31 bits, which last until 2094."""

_MICRO = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a Lease says."""

    holder: str
    term: int
    duration_s: int
    renewed: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """A Lease and since when, by our own clock, it says the same."""

    record: LeaseRecord
    since_s: float


def read_lease(raw: Mapping[str, Any]) -> LeaseRecord:
    """Read a Lease; what is missing is empty, which makes it free."""
    spec, meta = raw.get("spec") or {}, raw["metadata"]
    return LeaseRecord(
        holder=spec.get("holderIdentity") or "",
        term=spec.get("leaseTransitions") or 0,
        duration_s=spec.get("leaseDurationSeconds") or 0,
        renewed=f"{spec.get('acquireTime')} {spec.get('renewTime')}",
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
    )


def sight(before: Sighting | None, record: LeaseRecord, now_s: float) -> Sighting:
    """Note a Lease; an edit that renews nothing (an annotation) doesn't make it younger."""
    if before is not None and replace(before.record, resource_version=record.resource_version) == record:
        return Sighting(record, before.since_s)
    return Sighting(record, now_s)


def is_free(seen: Sighting, identity: str, now_s: float) -> bool:
    """Whether the Lease may be taken: released, ours from an earlier life, or not renewed for its whole duration."""
    record = seen.record
    return record.holder in ("", identity) or now_s - seen.since_s > record.duration_s


def taken(record: LeaseRecord, settings: LeaseSettings, now: datetime) -> dict[str, Any]:
    """The Lease as it is when we take it: every taking is a new term, our own earlier life's included."""
    return _lease(settings, settings.identity, record.term + 1, now, record)


def renewed(record: LeaseRecord, settings: LeaseSettings, now: datetime, acquired: datetime) -> dict[str, Any]:
    """The Lease as it is when we renew it."""
    value = _lease(settings, settings.identity, record.term, now, record)
    value["spec"]["acquireTime"] = acquired.strftime(_MICRO)
    return value


def released(record: LeaseRecord, settings: LeaseSettings, now: datetime) -> dict[str, Any]:
    """The Lease as it is when we give it up: anybody may take it at once, with the next term."""
    return _lease(settings, "", record.term, now, record)


def created(settings: LeaseSettings, now: datetime) -> dict[str, Any]:
    """A Lease where there is none."""
    return _lease(settings, settings.identity, int((now - TERM_EPOCH).total_seconds()), now, None)


def _lease(settings: LeaseSettings, holder: str, term: int, now: datetime, onto: LeaseRecord | None) -> dict[str, Any]:
    metadata = {"name": settings.name, "namespace": settings.namespace}
    if onto is not None:
        metadata |= {"uid": onto.uid, "resourceVersion": onto.resource_version}
    time = now.strftime(_MICRO)
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": settings.duration_s,
        "acquireTime": time,
        "renewTime": time,
        "leaseTransitions": term,
    }
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
