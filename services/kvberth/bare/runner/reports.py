"""Makes the `process.*` events of a record. Pure: says what is known, decides nothing."""

from dataclasses import dataclass
from typing import Protocol

from kvberth.bare.runner.record import Key, Record
from kvberth.kvcache.paths import host_directory
from kvberth_schemas import subjects
from kvberth_schemas.events import ProcessEndedV1, ProcessGoneV1, ProcessRole, ProcessStartedV1
from kvberth_schemas.subjects import EventSubject
from kvberth_schemas.wants import CacheWantV1, EngineWantV1


class Cause(Protocol):
    """A want with the envelope that brought it."""

    @property
    def want(self) -> EngineWantV1 | CacheWantV1:
        """The want itself."""

    @property
    def id(self) -> str | None:
        """Its envelope's id."""

    @property
    def traceparent(self) -> str | None:
        """Its envelope's trace."""


@dataclass(frozen=True, slots=True)
class Report:
    """What is said about a process, and which want led to it."""

    event: ProcessStartedV1 | ProcessEndedV1
    cause: str | None
    traceparent: str | None


def subject_of(node: str, key: Key) -> EventSubject:
    """Give the subject of a process's events."""
    return subjects.process(node, key.namespace, key.owner, key.role)


def report_alive(node: str, record: Record, wanted: Cause | None, message: str = "") -> Report:
    """Say that a process runs."""
    want = record.want
    assert record.pid is not None  # a running record knows its process
    assert record.started is not None
    event = ProcessStartedV1(
        **_common(node, record.key, want, record),
        pid=record.pid,
        started=record.started,
        ready=record.ready,
        memory_bytes=0 if record.key.role is ProcessRole.TRANSFER else want.memory_bytes,
        cpu_millis=0 if record.key.role is ProcessRole.TRANSFER else want.cpu_millis,
        gpus=want.gpus if isinstance(want, EngineWantV1) else 0,
        kvcache_uid=want.kvcache_uid if isinstance(want, CacheWantV1) else None,
        model=want.model if isinstance(want, EngineWantV1) else None,
        workload=want.workload if isinstance(want, EngineWantV1) else None,
        directories=_directories(want),
        wanted=wanted is not None,
        message=message,
    )
    return _report(event, record, wanted)


def report_ended(
    node: str, record: Record, wanted: Cause | None, message: str = "", *, restarting: bool = False
) -> Report:
    """Say that a process ended, and whether it comes back."""
    event = ProcessEndedV1(
        **_common(node, record.key, record.want, record),
        exit_code=record.exit_code,
        restarting=restarting,
        message=message or record.message,
    )
    return _report(event, record, wanted)


def report_never_started(node: str, key: Key, wanted: Cause, message: str) -> Report:
    """Answer a want about something of which there is no record."""
    event = ProcessEndedV1(**_common(node, key, wanted.want, None), message=message)
    return Report(event, wanted.id, wanted.traceparent)


def gone(node: str, key: Key) -> ProcessGoneV1:
    """Say that nothing is known of a process any more."""
    return ProcessGoneV1(node=node, namespace=key.namespace, owner=key.owner, role=key.role)


def _common(node: str, key: Key, want: EngineWantV1 | CacheWantV1, record: Record | None) -> dict[str, object]:
    return {
        "node": node,
        "namespace": key.namespace,
        "owner": key.owner,
        "name": want.pod_name if isinstance(want, EngineWantV1) else want.kvcache,
        "role": key.role,
        "restarts": record.restarts if record else 0,
        "incarnation": record.incarnation if record else None,
        "last_end": record.last_end if record else None,
        "log": record.log if record else "",
        **(_gate(record) if record else {}),
    }


def _gate(record: Record) -> dict[str, object]:
    return {"at_gate": record.at_gate, "gate": record.gate if record.gate_open else None}


def _directories(want: EngineWantV1 | CacheWantV1) -> tuple[str, ...]:
    if isinstance(want, CacheWantV1):
        return (host_directory(want.namespace, want.kvcache),)
    return tuple(mount.host_path for mount in want.sockets)


def _report(event: ProcessStartedV1 | ProcessEndedV1, record: Record, wanted: Cause | None) -> Report:
    if wanted is None:
        return Report(event, record.cause, record.traceparent)
    return Report(event, wanted.id, wanted.traceparent)
