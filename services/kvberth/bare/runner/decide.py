"""Decides what the runner does and says: (wants, records, now) in, steps and reports out. Pure, no I/O.

Absence never means stop: what runs without a want is left alone and reported so. A cache is not stopped under a
living engine of this node, unless its user asked for it. An engine that ended for good never runs again: a pod's uid
has one life, and a want that says otherwise is an old one that came back.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from kvberth.bare.runner import restarts
from kvberth.bare.runner.record import Key, Record, State
from kvberth.bare.runner.reports import Report, report_alive, report_ended, report_never_started
from kvberth.kvcache.paths import host_directory, kvcache_of_host_path
from kvberth_schemas.events import ProcessRole
from kvberth_schemas.wants import CacheWantV1, EngineWantV1, Why

CACHE_GRACE_S = 2.0
"""vineyardd ends within 0.02 s of SIGTERM; one that doesn't hangs."""
SOCKET_LOST_S = 5.0
"""How long a cache may live without its socket before it is started anew."""
FORGET_AFTER_S = 60.0
"""How long an end is remembered that no want asks about: a new stream of wants may still be filling."""
UNWATCHED_WAIT_S = 5.0
"""How long a cache that ended unwatched waits for an engine: where none is left, its stop is about to be asked for."""

_ENDED_FOR_GOOD = "has ended for good; the want to run it is an old one that came back"
_USERS_WORD = frozenset({Why.USER, Why.SCALED})
"""Whoever asks for this knows that engines lose the cache; any other reason waits for them."""


class Verb(StrEnum):
    """What is done to a process."""

    START = "start"
    TERMINATE = "terminate"
    """Ask it to end (SIGTERM)."""
    KILL = "kill"
    SETTLE = "settle"
    """Note of an ended process that it is not to come back."""
    FORGET = "forget"
    """Remove the record of an ended process and say that nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A want as it stands on the bus, with the id of its envelope."""

    want: EngineWantV1 | CacheWantV1
    id: str | None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do now."""

    verb: Verb
    key: Key
    for_good: bool = False
    """Of TERMINATE: the process is not to come back."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is known at `now` (CLOCK_BOOTTIME, seconds)."""

    wants: Mapping[Key, Wanted]
    records: Mapping[Key, Record]
    now: float
    node: str
    engine_backoff_s: float
    wants_known: bool
    """False while the wants can't be read: then a missing want says nothing at all."""
    graves: Collection[Key] = ()
    """Engines that ended for good and were forgotten."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows for one process; `wake_at` is when to decide again at the latest."""

    steps: tuple[Step, ...] = ()
    report: Report | None = None
    wake_at: float | None = None


def decide(snapshot: Snapshot) -> dict[Key, Decision]:
    """Decide for every process that is wanted or recorded."""
    return {key: _decide_one(key, snapshot) for key in sorted({*snapshot.wants, *snapshot.records})}


def _decide_one(key: Key, snapshot: Snapshot) -> Decision:
    wanted, record = snapshot.wants.get(key), snapshot.records.get(key)
    if record is not None and record.state is State.STARTING:
        return Decision()
    if record is None and key.role is ProcessRole.TRANSFER and wanted is not None and wanted.want.state == "stop":
        return Decision()  # of a cache without a block store nothing is to be said
    if wanted is None:
        assert record is not None
        return _unwanted(record, snapshot)
    if record is not None and record.state is State.RUNNING:
        return (
            _stop_running(wanted, record, snapshot) if wanted.want.state == "stop" else _keep(wanted, record, snapshot)
        )
    if wanted.want.state == "stop":
        return _stopped(key, wanted, record, snapshot)
    if record is None and key in snapshot.graves:
        return Decision(report=report_never_started(snapshot.node, key, wanted, _ENDED_FOR_GOOD))
    return _start(key, wanted, record, snapshot)


def _unwanted(record: Record, snapshot: Snapshot) -> Decision:
    if record.state is State.RUNNING:
        return Decision(report=report_alive(snapshot.node, record, None, "runs although no want asks for it"))
    report = report_ended(snapshot.node, record, None, "ended, and no want asks for it")
    if not snapshot.wants_known:
        return Decision(report=report)
    forget_at = 0.0 if record.stopped else (record.ended_at or 0.0) + FORGET_AFTER_S
    if snapshot.now >= forget_at:
        return Decision(steps=(Step(Verb.FORGET, record.key),))
    return Decision(report=report, wake_at=forget_at)


def _keep(wanted: Wanted, record: Record, snapshot: Snapshot) -> Decision:
    want = wanted.want
    refused = isinstance(want, CacheWantV1) and want.not_incarnation in {record.incarnation} - {None}
    if (
        refused or _has_another_size(want, record) or record.terminated_at is not None
    ):  # the latter: a stop was taken back after it had been sent
        return _end(wanted, record, snapshot, for_good=False)
    if record.socket_lost_at is not None:
        return _without_socket(wanted, record, snapshot)
    message = f"waits at its gate: {record.unready or 'it has just begun'}" if record.at_gate else record.unready
    return Decision(report=report_alive(snapshot.node, record, wanted, message))


def _has_another_size(want: EngineWantV1 | CacheWantV1, record: Record) -> bool:
    """Tell whether a transfer worker was started for a store of another size than is wanted by now."""
    if record.key.role is not ProcessRole.TRANSFER or not isinstance(want, CacheWantV1):
        return False
    return isinstance(record.want, CacheWantV1) and record.want.block_bytes != want.block_bytes


def _without_socket(wanted: Wanted, record: Record, snapshot: Snapshot) -> Decision:
    """Start a cache anew that nobody can reach any more, unless an engine may still be connected to it."""
    assert record.socket_lost_at is not None
    engines = sorted(_living_users_of(record.key, snapshot))
    if engines:
        rest = (
            f"engine {', '.join(engines)} goes on where it is connected, a new one can't connect until that has ended"
        )
        return Decision(report=report_alive(snapshot.node, record, wanted, f"{record.unready}: {rest}"))
    anew_at = record.socket_lost_at + SOCKET_LOST_S
    if snapshot.now < anew_at:
        return Decision((), report_alive(snapshot.node, record, wanted, record.unready), anew_at)
    return _end(wanted, record, snapshot, for_good=False)


def _stop_running(wanted: Wanted, record: Record, snapshot: Snapshot) -> Decision:
    users = sorted(_users_of(record.key, snapshot))
    if users and wanted.want.why not in _USERS_WORD and record.terminated_at is None:
        directory = host_directory(record.key.namespace, record.key.owner)
        message = f"not stopped yet: engine {', '.join(users)} of this node uses {directory}"
        return Decision(report=report_alive(snapshot.node, record, wanted, message))
    if _worker_lives(record.key, snapshot):
        return Decision(report=report_alive(snapshot.node, record, wanted, "ends when its transfer worker has ended"))
    return _end(wanted, record, snapshot, for_good=True)


def _worker_lives(cache: Key, snapshot: Snapshot) -> bool:
    """Tell whether a cache's transfer worker lives: once the cache has ended, nobody may be left who ends it."""
    worker = snapshot.records.get(replace(cache, role=ProcessRole.TRANSFER))
    return cache.role is ProcessRole.CACHE and worker is not None and worker.state is not State.ENDED


def _end(wanted: Wanted, record: Record, snapshot: Snapshot, *, for_good: bool) -> Decision:
    """Ask the process to end, and make it end when its grace is over."""
    report = report_alive(snapshot.node, record, wanted, "is ending")
    if record.terminated_at is None:
        return Decision((Step(Verb.TERMINATE, record.key, for_good),), report, snapshot.now + _grace_s(wanted))
    kill_at = record.terminated_at + _grace_s(wanted)
    if snapshot.now < kill_at:
        return Decision((), report, kill_at)
    return Decision((Step(Verb.KILL, record.key, for_good),), report, snapshot.now + 1.0)


def _stopped(key: Key, wanted: Wanted, record: Record | None, snapshot: Snapshot) -> Decision:
    if record is None:
        message = _ENDED_FOR_GOOD if key in snapshot.graves else "never ran on this node"
        return Decision(report=report_never_started(snapshot.node, key, wanted, message))
    steps = () if record.stopped else (Step(Verb.SETTLE, key),)
    return Decision(steps, report_ended(snapshot.node, record, wanted))


def _start(key: Key, wanted: Wanted, record: Record | None, snapshot: Snapshot) -> Decision:
    step = Step(Verb.START, key)
    if record is None:
        return Decision((step,))
    if isinstance(wanted.want, EngineWantV1) and record.stopped:
        return Decision(report=report_ended(snapshot.node, record, wanted, _ENDED_FOR_GOOD))
    if isinstance(wanted.want, EngineWantV1) and restarts.is_over(wanted.want, record):
        message = f"its restart policy {wanted.want.restart_policy} leaves it ended"
        return Decision(report=report_ended(snapshot.node, record, wanted, message))
    if record.at_gate and record.gate_open:
        return Decision((step,))  # the pod goes on: nothing of it has ended
    wait_s = 0.0 if record.stopped else restarts.delay_s(record, snapshot.engine_backoff_s)
    due = min(record.ended_at or 0.0, snapshot.now) + wait_s
    message = record.message
    unused_until = _unused_until(record, snapshot)
    if unused_until > max(due, snapshot.now):
        due = unused_until
        message = f"{message}; no engine of this node uses it, so it is started in {UNWATCHED_WAIT_S:g} s if ever"
    elif wait_s:
        message = f"{message or 'ended'}; crash {record.crashes} in a row, the next start waits {wait_s:g} s"
    report = report_ended(snapshot.node, record, wanted, message, restarting=True)
    return Decision((step,), report) if snapshot.now >= due else Decision((), report, due)


def _unused_until(record: Record, snapshot: Snapshot) -> float:
    """Give until when a cache need not run: its engine has left a node that was lost, and the want is an old one."""
    if record.found_ended_at is None or record.key.role is ProcessRole.ENGINE:
        return 0.0
    if next(_users_of(record.key, snapshot), None) is not None:
        return 0.0
    return min(record.found_ended_at, snapshot.now) + UNWATCHED_WAIT_S


def _grace_s(wanted: Wanted) -> float:
    return wanted.want.grace_s if isinstance(wanted.want, EngineWantV1) else CACHE_GRACE_S


def _users_of(cache: Key, snapshot: Snapshot) -> Iterator[str]:
    """Give the names of the engines that use a cache's directory: alive, or about to be started."""
    if cache.role is ProcessRole.ENGINE:
        return
    for key in {*snapshot.wants, *snapshot.records}:
        want = _living_engine(key, snapshot)
        if want is not None and _uses(want, cache):
            yield want.pod_name


def _living_engine(key: Key, snapshot: Snapshot) -> EngineWantV1 | None:
    """Give what an engine lives by, or is about to; None for one that has ended for good, and for a cache."""
    record, wanted = snapshot.records.get(key), snapshot.wants.get(key)
    if record is not None and record.state is not State.ENDED:
        return record.want if isinstance(record.want, EngineWantV1) else None
    if wanted is None or not isinstance(wanted.want, EngineWantV1) or wanted.want.state == "stop":
        return None
    over = key in snapshot.graves if record is None else record.stopped or restarts.is_over(wanted.want, record)
    return None if over else wanted.want


def _living_users_of(cache: Key, snapshot: Snapshot) -> Iterator[str]:
    """Give the names of the engines that use a cache's directory and live right now; behind a gate none does."""
    for record in snapshot.records.values():
        want = record.want
        lives = record.state is not State.ENDED and not record.at_gate
        if lives and isinstance(want, EngineWantV1) and _uses(want, cache):
            yield want.pod_name


def _uses(want: EngineWantV1, cache: Key) -> bool:
    return any(kvcache_of_host_path(mount.host_path) == (cache.namespace, cache.owner) for mount in want.sockets)
