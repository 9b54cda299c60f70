"""Follows one engine move along the causes of its events. Pure: rows in, steps out."""

from collections.abc import Iterable
from dataclasses import dataclass

from kvberth.bus import Row
from kvberth_schemas.events import PodScheduledV1, ProcessStartedV1, SocketReadyV1
from kvberth_schemas.wants import CacheWantV1, DirWantV1, EngineWantV1


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened because of the binding, and when, in milliseconds after it."""

    after_ms: float
    who: str
    what: str
    row: Row


def because_of(rows: Iterable[Row], root_id: str) -> list[Row]:
    """Give the event ``root_id`` and everything that names it as cause, directly or over others, in order of time."""
    known = {row.envelope.id: row for row in rows}
    chosen: dict[str, Row] = {}
    for event_id, row in known.items():
        step: Row | None = row
        seen: set[str] = set()
        while step is not None and step.envelope.id != root_id and step.envelope.id not in seen:
            seen.add(step.envelope.id)
            step = known.get(step.envelope.cause or "")
        if step is not None and step.envelope.id == root_id:
            chosen[event_id] = row
    return sorted(chosen.values(), key=lambda row: row.envelope.time)


def timeline(rows: Iterable[Row], root_id: str) -> list[Step]:
    """Give the steps of a move from its pod-scheduled event to the answered socket, and to the engine behind a gate."""
    chain = because_of(rows, root_id)
    if not chain:
        return []
    start = chain[0].envelope.time
    steps: list[Step] = []
    said: set[str] = set()
    answered = waits = False
    for row in chain:
        what = _describe(row)
        if what is not None and what not in said:
            said.add(what)
            after_ms = (row.envelope.time - start).total_seconds() * 1000
            steps.append(Step(after_ms, row.envelope.source.split("/")[2], what, row))
        answered = answered or isinstance(row.message, SocketReadyV1)
        if isinstance(row.message, ProcessStartedV1) and row.message.role == "engine":
            waits = row.message.at_gate
        if answered and not waits:
            break
    return steps


def _describe(row: Row) -> str | None:
    match row.message:
        case PodScheduledV1() as pod:
            return f"engine {pod.name} bound to {pod.node}"
        case EngineWantV1(state="run") as want:
            return f"asks {row.subject.node} to run engine {want.pod_name}"
        case DirWantV1(state="keep"):
            return f"asks {row.subject.node} to keep the cache's directory"
        case CacheWantV1(state="run"):
            return f"asks {row.subject.node} to run the cache"
        case ProcessStartedV1(role="cache", ready=False) as process:
            return f"vineyardd started, pid {process.pid}, incarnation {(process.incarnation or '')[:8]}"
        case ProcessStartedV1(role="engine", at_gate=True) as process:
            return f"the gate of engine {process.name} started, pid {process.pid}"
        case ProcessStartedV1(role="engine", ready=False, gate=gate) as process:
            waited = f" after {gate.waited_s * 1000:.0f} ms at its gate" if gate and gate.waited_s is not None else ""
            return f"engine {process.name} started, pid {process.pid}{waited}"
        case SocketReadyV1() as socket:
            return f"register answered on {socket.path}"
        case _:
            return None
