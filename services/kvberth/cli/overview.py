"""Turns the last states on the bus into the tables that a person reads. Pure: rows in, tables out."""

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from kvberth_schemas.events import (
    Condition,
    ConditionStatus,
    HealthReason,
    KVCacheSpecV1,
    KVCacheStatusV1,
    LastEnd,
    NodeChangedV1,
    NodeRow,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodWaitingV1,
    ProcessStartedV1,
    Resources,
)
from kvberth_schemas.model import Message
from kvberth_schemas.quantity import format_bytes
from kvberth_schemas.subjects import Service

_STYLES = {ConditionStatus.TRUE: "green", ConditionStatus.FALSE: "bold red", ConditionStatus.UNKNOWN: "yellow"}
_ROW_STYLES = {"serving": "green", "starting": "yellow", "leaving": "dim", "unknown": "yellow", "missing": "red"}

Pod = PodScheduledV1 | PodReadyV1 | PodWaitingV1


@dataclass(frozen=True, slots=True)
class Overview:
    """The present state of everything that a person asks about."""

    kvcaches: tuple[tuple[KVCacheSpecV1, KVCacheStatusV1 | None], ...] = ()
    pods: tuple[Pod, ...] = ()
    nodes: tuple[NodeChangedV1, ...] = ()
    processes: tuple[ProcessStartedV1, ...] = ()
    silent: Mapping[str, float | None] = field(default_factory=dict)
    """Services that were not heard of lately: name to seconds, None where never."""
    clocks: tuple[str, ...] = ()
    """A sentence for each clock that is far from this one's."""

    @classmethod
    def of(
        cls,
        messages: Iterable[Message],
        silent: Mapping[str, float | None] | None = None,
        clocks: Iterable[str] = (),
    ) -> "Overview":
        """Sort the last messages by what they are about."""
        found = list(messages)
        statuses = {(m.namespace, m.name): m for m in found if isinstance(m, KVCacheStatusV1)}
        specs = sorted((m for m in found if isinstance(m, KVCacheSpecV1)), key=lambda m: (m.namespace, m.name))
        pods = [m for m in found if isinstance(m, Pod) and m.role is PodRole.ENGINE]
        return cls(
            kvcaches=tuple((spec, statuses.get((spec.namespace, spec.name))) for spec in specs),
            pods=tuple(sorted(pods, key=lambda m: (m.namespace, m.name))),
            nodes=tuple(sorted((m for m in found if isinstance(m, NodeChangedV1)), key=lambda m: m.name)),
            processes=tuple(m for m in found if isinstance(m, ProcessStartedV1)),
            silent=silent or {},
            clocks=tuple(clocks),
        )

    def document(self) -> dict[str, object]:
        """Give all of it for a program, each part as its message was on the bus."""
        return {
            "kvcaches": [{"spec": _dump(spec), "status": status and _dump(status)} for spec, status in self.kvcaches],
            "engines": [_dump(pod) for pod in self.pods],
            "nodes": [_dump(node) for node in self.nodes],
            "processes": [_dump(process) for process in self.processes],
            "silent": dict(self.silent),
            "clocks": list(self.clocks),
        }


def _dump(message: Message) -> dict[str, object]:
    return message.model_dump(mode="json")


def condition(status: KVCacheStatusV1, kind: str) -> Condition | None:
    """Give the condition of a kind, if the status has it."""
    return next((found for found in status.conditions if found.type == kind), None)


def kvcache_table(overview: Overview, now: datetime) -> Table:
    """One row per KVCache: engines served, where its caches are, whether it is ready and why not."""
    table = _table("KVCACHE", "NAMESPACE", "ENGINES", "CACHES", "READY", "HEALTHY", "AGE")
    vouched = Service.PLACEMENT.value not in overview.silent
    for spec, status in overview.kvcaches:
        age = _age((now - spec.created).total_seconds())
        if status is None:
            table.add_row(spec.name, spec.namespace, "?", "?", Text("placement has not said anything yet"), "?", age)
            continue
        table.add_row(
            spec.name,
            spec.namespace,
            _served(status, vouched=vouched),
            _caches(status.nodes),
            _condition_text(condition(status, "Ready")),
            _condition_text(condition(status, "Healthy")),
            age,
        )
    return table


def _served(status: KVCacheStatusV1, *, vouched: bool) -> str:
    """Give the engines served of those that are bound; how many are is known while placement says it."""
    waiting = f", {status.engines_waiting} waiting" if status.engines_waiting else ""
    return f"{status.engines_served if vouched else '?'}/{status.engines} served{waiting}"


def engine_table(overview: Overview) -> Table:
    """One row per engine pod."""
    table = _table("ENGINE", "NAMESPACE", "NODE", "STATE", "RESTARTS")
    for pod in overview.pods:
        node = "-" if isinstance(pod, PodWaitingV1) else pod.node
        table.add_row(pod.name, pod.namespace, node, _pod_state(pod), str(pod.restarts))
    return table


def ended_lines(overview: Overview) -> list[str]:
    """Say of each engine whose process ended how it last did, and where it tells more."""
    return [f"{pod.namespace}/{pod.name}: {_ends(pod, pod.last_end)}" for pod in overview.pods if pod.last_end]


def _ends(pod: Pod, last: LastEnd) -> str:
    times = "once" if pod.restarts == 1 else f"{pod.restarts} times"
    restarted = f"restarted {times}, last ended" if pod.restarts else "ended"
    code = "" if last.exit_code is None else f" by exit code {last.exit_code}{_signal(last.exit_code)}"
    why = f": {last.message}" if last.message else ""
    log = f"; log: {pod.log}" if pod.log else ""
    return f"{restarted}{code} at {last.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC{why}{log}"


def _signal(code: int) -> str:
    try:
        return f" ({signal.Signals(code - 128).name})"
    except ValueError:
        return ""


def node_table(overview: Overview) -> Table:
    """One row per node, with what it has and what is asked of it."""
    table = _table("NODE", "STATE", "GPUS", "CPU", "MEMORY", "ENGINES", "CACHES")
    for node in overview.nodes:
        here = [process for process in overview.processes if process.node == node.name]
        engines = [process.name for process in here if process.role == "engine"]
        caches = [process.name for process in here if process.role == "cache"]
        table.add_row(node.name, _node_state(node), *_used(node), "\n".join(engines) or "-", "\n".join(caches) or "-")
    return table


def pretended_lines(overview: Overview) -> list[str]:
    """Name the parts of manifests that nothing runs for."""
    by_workload = {
        (pod.namespace, pod.workload.name if pod.workload else pod.name): ", ".join(pod.pretended)
        for pod in overview.pods
        if pod.pretended
    }
    return [f"pretended for {namespace}/{name}: {parts}" for (namespace, name), parts in sorted(by_workload.items())]


def silence_lines(overview: Overview) -> list[str]:
    """Say which services have not been heard of, since then what they said is not known to hold."""
    return [
        f"{service} has not been heard of" + ("" if age is None else f" for {age:.0f} s") + ": what it said may be old"
        for service, age in sorted(overview.silent.items())
    ]


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _caches(rows: tuple[NodeRow, ...]) -> Text:
    lines = [Text(f"{row.node} ({_row_words(row)})", _ROW_STYLES.get(row.state, "")) for row in rows]
    return Text("\n").join(lines) if lines else Text("none", "dim")


def _row_words(row: NodeRow) -> str:
    """A cache that serves is fine once it is proven; nobody knows of one that nobody could prove."""
    fine = row.state != "serving" or row.health in {"", HealthReason.PROVEN}
    return row.state if fine else f"{row.state}, {row.health}"


def _condition_text(found: Condition | None) -> Text:
    if found is None:
        return Text("?", "dim")
    text = found.status.value if found.status is ConditionStatus.TRUE else f"{found.status.value} ({found.reason})"
    return Text(text, _STYLES[found.status])


def _pod_state(pod: Pod) -> Text:
    if isinstance(pod, PodWaitingV1):
        return Text(f"waiting: {pod.why}", "yellow")
    if pod.deleting:
        return Text("ending", "dim")
    if pod.at_gate:
        return Text(pod.at_gate, "yellow")
    return Text("ready", "green") if pod.ready else Text("starting", "yellow")


def _node_state(node: NodeChangedV1) -> Text:
    words = ["ready" if node.ready else f"not ready: {node.why}"]
    if node.unschedulable:
        words.append("cordoned")
    return Text(", ".join(words), "green" if node.ready and not node.unschedulable else "yellow")


def _used(node: NodeChangedV1) -> tuple[str, str, str]:
    asked: Resources = node.requested
    has: Resources = node.allocatable
    return (
        f"{asked.gpus}/{has.gpus}",
        f"{asked.cpu_millis / 1000:g}/{has.cpu_millis / 1000:g}",
        f"{format_bytes(asked.memory_bytes)}/{format_bytes(has.memory_bytes)}",
    )


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
