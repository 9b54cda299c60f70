"""Turns single messages of the bus into placement's own facts. Pure, and never raises on what a user wrote."""

from dataclasses import replace
from datetime import datetime

from kvberth.kvcache import GateSpec, normalise
from kvberth.kvcache.gates import started_without
from kvberth.placement.needs import needs_of
from kvberth.placement.states import (
    CacheProcess,
    Cause,
    DepartedEngine,
    Engine,
    EngineProcess,
    Health,
    KVCache,
    Life,
    Needs,
    Node,
    Wanted,
    WorkloadKey,
)
from kvberth_schemas.envelope import Envelope
from kvberth_schemas.events import (
    CacheHealthV1,
    GateResult,
    KVCacheGoneV1,
    KVCacheSpecV1,
    NodeChangedV1,
    Owner,
    PodGoneV1,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodWaitingV1,
    ProcessEndedV1,
    ProcessStartedV1,
    Verdict,
)
from kvberth_schemas.wants import CacheWantV1, DirWantV1, Why

NO_PROCESS = CacheProcess(running=False, restarting=False, incarnation=None, message="")
"""The runner says that nothing is known of the process any more."""


def cause_of(envelope: Envelope, sequence: int, heard_s: float = 0.0) -> Cause:
    """Return the event behind a fact, heard at a moment of the steady clock."""
    return Cause(envelope.id, envelope.traceparent, sequence, envelope.time, heard_s)


def engine(event: PodScheduledV1 | PodReadyV1 | PodWaitingV1, cause: Cause) -> Engine | None:
    """Return the engine that a pod is; None for other pods."""
    if event.model is None or event.role is not PodRole.ENGINE:
        return None
    return Engine(
        uid=event.uid,
        name=event.name,
        model=event.model,
        node=None if isinstance(event, PodWaitingV1) else event.node,
        host_paths=tuple(mount.host_path for mount in event.sockets),
        workload=_key(event.workload),
        deleting=event.deleting,
        why_waiting=event.why if isinstance(event, PodWaitingV1) else "",
        cause=cause,
        needs=needs_of(event),
        wanted=event.workload.wanted if event.workload is not None else None,
        without_cache=_without_cache(event.gate),
        user=event.run_as_user,
        ungated=event.legacy and event.restarts > 0,
    )


def departed(event: PodGoneV1, cause: Cause) -> DepartedEngine | None:
    """Return the engine that left; None for other pods."""
    if event.model is None or event.role is not PodRole.ENGINE:
        return None
    return DepartedEngine(event.uid, event.model, event.node, _key(event.workload), cause)


def kvcache(event: KVCacheSpecV1, cause: Cause) -> KVCache:
    """Return a KVCache as applied. One that is being deleted counts as turned off."""
    try:
        spec = normalise(event.manifest)
    except Exception as error:  # noqa: BLE001 -- one manifest must never stop the others, whatever is in it
        return replace(unreadable_kvcache(event.name, f"its manifest can't be read: {error!r}", event), cause=cause)
    return KVCache(
        name=event.name,
        uid=event.uid,
        generation=event.generation,
        created=event.created,
        life=Life.DELETED if event.deleting else Life.LIVE,
        spec=None if event.deleting else replace(spec, namespace=event.namespace, name=event.name),
        paused=event.paused or spec.paused,
        cause=cause,
    )


def gone_kvcache(event: KVCacheGoneV1, cause: Cause) -> KVCache:
    """Return a KVCache that is gone: by the user's word, or merely not found."""
    return KVCache(
        name=event.name,
        uid=event.uid,
        generation=0,
        created=cause.time,
        life=Life.DELETED if event.by_user else Life.NOT_FOUND,
        spec=None,
        paused=False,
        cause=cause,
        why=f"the KVCache was not found, though nobody deleted it: {event.why}",
    )


def unreadable_kvcache(name: str, why: str, event: KVCacheSpecV1) -> KVCache:
    """Return a KVCache of which only the outline is known."""
    return KVCache(name, event.uid, event.generation, event.created, Life.UNREADABLE, None, event.paused, None, why)


def node(event: NodeChangedV1) -> Node:
    """Return a node."""
    return Node(
        event.name,
        event.ready,
        event.labels,
        event.allocatable,
        event.requested,
        event.taints,
        event.unschedulable,
    )


def engine_process(event: ProcessStartedV1) -> EngineProcess | None:
    """Return a living engine process; None when its model is not known and it uses no cache's directory."""
    if event.model is None and not event.directories:
        return None
    return EngineProcess(event.owner, event.node, event.model or "", event.directories)


def cache_process(event: ProcessStartedV1 | ProcessEndedV1) -> CacheProcess:
    """Return what the runner says of a cache's process."""
    if isinstance(event, ProcessStartedV1):
        return CacheProcess(running=True, restarting=False, incarnation=event.incarnation, message=event.message)
    return CacheProcess(
        running=False, restarting=event.restarting, incarnation=event.incarnation, message=event.message
    )


def health(event: CacheHealthV1, cause: Cause, before: Health | None) -> Health:
    """Return what is proven of a cache; a verdict that is said again, renewed, stands since it was heard first."""
    if before is None or _verdict(before.said) != _verdict(event):
        return Health(event, cause)
    return Health(event, before.cause)


def _verdict(event: CacheHealthV1) -> tuple[object, ...]:
    """What stands. A cache that was proven since, though nobody heard it, fails anew."""
    proof = None if event.verdict is Verdict.HEALTHY else event.last_proof
    return event.incarnation, event.verdict, event.reason, proof


def wanted(cache: CacheWantV1 | None, directory: DirWantV1 | None, cause: Cause, because: str | None) -> Wanted:
    """Return what two wants ask for together; `because` is the id of the event that led to them.

    A directory without a cache is one that stands alone, or what a crash between the two leaves.
    """
    run = cache is not None and cache.state == "run"
    kept = directory is not None and directory.state == "keep"
    either = cache or directory
    return Wanted(
        run=run,
        why=either.why if either is not None else Why.WANTED,
        uid=cache.kvcache_uid if cache is not None else "",
        pool=cache.pool if cache is not None else "",
        size_bytes=cache.size_bytes if cache is not None else 0,
        memory_bytes=cache.memory_bytes if cache is not None else 0,
        cpu_millis=cache.cpu_millis if cache is not None else 0,
        gate=_gate(directory),
        directory=kept if cache is None else directory is not None and kept == run,
        since=cause.time,
        cause=because,
        traceparent=cause.traceparent,
        started=cause.time if run else None,
        block_bytes=cache.block_bytes if cache is not None else 0,
        only_directory=cache is None,
    )


def claimed(gate: GateSpec, uid: str, needs: Needs | None, now: datetime) -> Wanted:
    """Return what is asked for where a directory stands alone."""
    return Wanted(
        run=False,
        why=Why.WANTED,
        uid=uid,
        pool="",
        size_bytes=0,
        memory_bytes=0,
        cpu_millis=0,
        gate=gate,
        directory=True,
        since=now,
        cause=None,
        needs=needs,
        only_directory=True,
    )


def released(old: Wanted, now: datetime) -> Wanted:
    """Return what is asked for once such a directory was let go."""
    return replace(old, why=Why.IDLE, directory=False, since=now)


def stopped(old: Wanted | None, cache: CacheWantV1, now: datetime) -> Wanted:
    """Return what is asked for once a cache was told to stop; when it was started is remembered for its move."""
    return Wanted(
        run=False,
        why=Why(cache.why),
        uid=cache.kvcache_uid,
        pool=cache.pool,
        size_bytes=cache.size_bytes,
        memory_bytes=cache.memory_bytes,
        cpu_millis=cache.cpu_millis,
        gate=old.gate if old is not None else GateSpec(),
        directory=True,
        since=now,
        cause=None,
        started=old.started if old is not None else None,
    )


def _without_cache(gate: GateResult | None) -> str:
    if gate is None or not started_without(gate):
        return ""
    waited = "" if gate.waited_s is None else f" after {gate.waited_s:.0f} s"
    return f"{gate.outcome}{waited}: {gate.reason}" if gate.reason else f"{gate.outcome}{waited}"


def _gate(directory: DirWantV1 | None) -> GateSpec:
    if directory is None:
        return GateSpec()
    timeout = directory.gate_timeout_s
    return GateSpec(directory.gate_policy, None if timeout is None else int(timeout))


def _key(owner: Owner | None) -> WorkloadKey | None:
    return None if owner is None else (owner.kind, owner.name)
