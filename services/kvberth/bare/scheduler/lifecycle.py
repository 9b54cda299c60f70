"""What the evidence of runners makes of pods: ready, restarted, gone; and pods that nobody here knows. Pure.

A pod is gone when its runner says that its process ended, or when its node was deleted. Nothing is ever inferred from
absence.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kvberth.bare.scheduler.records import NodeRecord, PodRecord, PodShape
from kvberth.bare.scheduler.state import State
from kvberth_schemas.events import (
    NodeChangedV1,
    Owner,
    ProcessEndedV1,
    ProcessGoneV1,
    ProcessRole,
    ProcessStartedV1,
    Resources,
    SocketMount,
)
from kvberth_schemas.wants import RestartPolicy

ProcessEvent = ProcessStartedV1 | ProcessEndedV1 | ProcessGoneV1


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a runner said last about one process, and the event's id and trace."""

    id: str
    event: ProcessEvent
    traceparent: str | None = None


def after(pod: PodRecord, event: ProcessEvent, now: datetime) -> PodRecord:
    """Return a pod after what its runner says about its process; what another node says of it does not count."""
    if event.node != pod.node:
        return pod
    if not pod.alive:
        # What runs of a pod that is gone (a want of it came back with a killed NATS server) is told to stop once more.
        return _with(pod, ended=not isinstance(event, ProcessStartedV1) and not _restarting(event))
    if isinstance(event, ProcessGoneV1):
        return _with(pod, ready=False)
    lives = {"restarts": event.restarts, "last_end": event.last_end, "log": event.log}
    if isinstance(event, ProcessStartedV1):
        ready = {"ready": event.ready, "was_ready": pod.was_ready or event.ready}
        return _with(pod, **ready, **lives, **_gate(event))
    if _is_over(pod, event):
        why = event.message or f"its process on {event.node} ended"
        return _with(pod, gone=now, gone_why=why, ended=True, ready=False, **lives)
    return _with(pod, ready=False, **lives, **_gate(event))


def unknown_pods(state: State, evidence: Iterable[Evidence], now: datetime) -> list[PodRecord]:
    """Return the pods whose engines run although nothing here knows them, as they are taken over."""
    return [
        _adopted(state, item.event, now)
        for item in evidence
        if isinstance(item.event, ProcessStartedV1)
        and item.event.role is ProcessRole.ENGINE
        and item.event.owner not in state.pods
    ]


def unknown_nodes(state: State, said: Iterable[NodeChangedV1], heard: Iterable[str]) -> list[NodeRecord]:
    """Return the nodes that an earlier life of this scheduler published, whose runners live and which it forgot."""
    living = set(heard)
    return [
        NodeRecord(
            name=event.name,
            labels=event.labels,
            taints=event.taints,
            allocatable=event.allocatable,
            cordoned=event.unschedulable or None,
        )
        for event in said
        if event.name in living and event.name not in state.nodes
    ]


def caches_on(evidence: Iterable[Evidence]) -> dict[str, list[Resources]]:
    """Return what the running caches of each node asked for."""
    found: dict[str, list[Resources]] = {}
    for item in evidence:
        event = item.event
        if isinstance(event, ProcessStartedV1) and event.role is ProcessRole.CACHE:
            found.setdefault(event.node, []).append(_requests(event))
    return found


def _is_over(pod: PodRecord, event: ProcessEndedV1) -> bool:
    """An engine that its want keeps running is not over: whatever ended, its runner will start it again."""
    if event.restarting:
        return False
    return pod.deleting or pod.adopted or pod.shape.restart_policy is not RestartPolicy.ALWAYS


def _restarting(event: ProcessEvent) -> bool:
    return isinstance(event, ProcessEndedV1) and event.restarting


def _adopted(state: State, event: ProcessStartedV1, now: datetime) -> PodRecord:
    kind, _, name = (event.workload or "").partition("/")
    manifest = state.manifest((kind, event.namespace, name))
    return PodRecord(
        uid=event.owner,
        name=event.name,
        namespace=event.namespace,
        owner=Owner(kind=kind or "Pod", name=name or event.name, uid=manifest.uid if manifest else ""),
        created=min(event.started, now),
        shape=PodShape(
            model=event.model or "",
            requests=_requests(event),
            sockets=tuple(SocketMount(host_path=path, mount_path=path) for path in event.directories),
        ),
        node=event.node,
        ready=event.ready,
        was_ready=event.ready,
        restarts=event.restarts,
        last_end=event.last_end,
        log=event.log,
        adopted=True,
        at_gate=event.message if event.at_gate else "",
        gate=event.gate,
    )


def _requests(event: ProcessStartedV1) -> Resources:
    return Resources(cpu_millis=event.cpu_millis, memory_bytes=event.memory_bytes, gpus=event.gpus)


def _gate(event: ProcessStartedV1 | ProcessEndedV1) -> dict[str, object]:
    return {"at_gate": event.message if event.at_gate else "", "gate": event.gate}


def _with(pod: PodRecord, **changes: object) -> PodRecord:
    same = all(getattr(pod, name) == value for name, value in changes.items())
    return pod if same else pod.model_copy(update=changes)
