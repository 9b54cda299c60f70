"""The conditions of a KVCache: what is true of it, why, in a sentence with names and numbers. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kvberth.kvcache import SOCKET_GROUP, KVCacheSpec, node_label_complaint
from kvberth.placement.blocks import blocks_of
from kvberth.placement.health import Proof, proof_of
from kvberth.placement.membership import Following
from kvberth.placement.nobody import no_engine, too_large, waiting_engines
from kvberth.placement.reach import astray_sentences
from kvberth.placement.reasons import Reason
from kvberth.placement.rest import Work
from kvberth.placement.snapshot import Snapshot
from kvberth.placement.states import Cache, KVCache, Life
from kvberth.placement.words import SHOWN, more, some
from kvberth_schemas.events import Condition, ConditionStatus, HealthReason, NodeRow

_COMPLAINTS = 32
"""Faults of a manifest that are named; its owner must find every field that is not obeyed, so that most get all."""
_NO_CACHE = Cache()
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@dataclass(slots=True)
class Outcome:
    """What this plan found and decided about one KVCache."""

    item: KVCache
    following: Following
    work: Work
    snapshot: Snapshot
    placed: set[str] = field(default_factory=set)
    claimed: set[str] = field(default_factory=set)
    """Nodes whose directory alone is asked for by this plan, as their engines need it."""
    removed: set[str] = field(default_factory=set)
    restarted: dict[str, str] = field(default_factory=dict)
    """By node: why its cache begins another life."""
    forgotten: set[str] = field(default_factory=set)
    """Nodes of which nothing is left: their caches ended, or they are gone themselves."""
    refused: dict[str, tuple[Reason, str]] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    moved: str = ""
    successors: frozenset[str] = frozenset()
    """Nodes of engines that came in place of others whose caches have not ended."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition without its time."""

    type: str
    status: ConditionStatus
    reason: Reason | HealthReason
    message: str


def conditions(outcome: Outcome, rows: tuple[NodeRow, ...], now: datetime) -> tuple[Condition, ...]:
    """Return all conditions; `since` stays where the status stays. `rows`: those of all but the caches at rest."""
    served = some(sorted(outcome.following.bound))
    accepted = _accepted(outcome)
    placed = _placed(outcome, rows, served)
    sockets = _sockets_ready(outcome, rows, served)
    healthy = _healthy(outcome, rows, served)
    metadata = _metadata(outcome.item.spec)
    ready = _ready(outcome, (accepted, placed, sockets), (healthy, metadata))
    found = (accepted, placed, sockets, healthy, *_blocks_ready(outcome, served), metadata, ready)
    previous = outcome.snapshot.memory.statuses.get(outcome.item.name)
    known = previous.conditions if previous is not None and previous.uid == outcome.item.uid else ()
    before = {old.type: old for old in known}
    return tuple(_dated(item, before.get(item.type), now) for item in found)


def _dated(found: Finding, before: Condition | None, now: datetime) -> Condition:
    """Return a finding as a condition; most are what they were, and making one costs more than comparing."""
    same = before is not None and before.status is found.status
    if before is not None and same and before.reason == found.reason and before.message == found.message:
        return before
    return Condition(
        type=found.type,
        status=found.status,
        reason=found.reason.value,
        message=found.message,
        since=before.since if before is not None and same else now,
    )


def _accepted(outcome: Outcome) -> Finding:
    item = outcome.item
    trouble = outcome.snapshot.troubles.get(item.name)
    if trouble is not None and trouble.reason is Reason.MANAGED_BY_ANOTHER:
        return Finding("Accepted", FALSE, trouble.reason, trouble.message)
    if item.life is Life.DELETED:
        return Finding("Accepted", TRUE, Reason.DELETED, "the KVCache was deleted")
    if item.spec is None:
        reason = Reason.NOT_FOUND if item.life is Life.NOT_FOUND else Reason.UNREADABLE
        return Finding("Accepted", UNKNOWN, reason, item.why)
    if not item.spec.accepted:
        text = " | ".join(more([complaint.sentence() for complaint in item.spec.complaints], _COMPLAINTS))
        return Finding("Accepted", FALSE, Reason.INVALID, text)
    said = "; ".join((*item.spec.defaults_taken, *item.spec.notes))
    return Finding("Accepted", TRUE, Reason.ACCEPTED, said or "the manifest is understood")


def _placed(outcome: Outcome, rows: tuple[NodeRow, ...], served: str) -> Finding:
    for check in (_unknown, _turned_off, _conflict, _troubled, _nobody, _refused):
        found = check(outcome)
        if found is not None:
            return Finding("Placed", *found)
    kept = [f"{node}: {why}" for node, why in sorted(outcome.kept.items())]
    sizes = [f"{row.node}: {row.message}" for row in rows if row.message and row.state != "leaving" and row.engines]
    waiting = waiting_engines(outcome.following)
    said = [f"caches beside all engines, on {served}", *((waiting,) if waiting else ()), *_remarks(outcome)]
    said += [*kept, *sizes, *more(_drains(outcome))]
    said += ["paused: nothing is added or removed"] if outcome.item.paused else []
    return Finding("Placed", TRUE, _kept_by(outcome) or Reason.PLACED, "; ".join(dict.fromkeys(said)))


def _drains(outcome: Outcome) -> list[str]:
    """What drains wait for at engines of this KVCache."""
    drains = outcome.snapshot.drains
    if not drains:
        return []
    bound = outcome.following.bound.values()
    return sorted(drains[engine.uid] for here in bound for engine in here if engine.uid in drains)


def _kept_by(outcome: Outcome) -> Reason | None:
    """Why a cache that could go stays, where something outside forbids it."""
    held = (outcome.snapshot.memory.held.get((outcome.item.name, node)) for node in sorted(outcome.kept))
    return next((item.reason for item in held if item is not None), None)


Found = tuple[ConditionStatus, Reason, str]


def _unknown(outcome: Outcome) -> Found | None:
    item = outcome.item
    if item.life in {Life.NOT_FOUND, Life.UNREADABLE}:
        reason = Reason.NOT_FOUND if item.life is Life.NOT_FOUND else Reason.UNREADABLE
        return UNKNOWN, reason, f"{item.why}; its caches stay as they are"
    if item.spec is not None and not item.spec.accepted:
        return UNKNOWN, Reason.NOT_ACCEPTED, "nothing is added or removed until the manifest is accepted"
    stale = outcome.snapshot.freshness.stale
    if stale is not None:
        return UNKNOWN, Reason.SOURCE_STALE, f"{stale}; nothing is added or removed"
    return None


def _turned_off(outcome: Outcome) -> Found | None:
    if not outcome.item.off:
        return None
    caches = outcome.snapshot.caches.get(outcome.item.name, {})
    left = sorted(node for node, cache in caches.items() if cache.running and node not in outcome.forgotten)
    reason = Reason.DELETED if outcome.item.life is Life.DELETED else Reason.TURNED_OFF
    why = "the KVCache was deleted" if reason is Reason.DELETED else "replicas is 0"
    return (FALSE, reason, f"{why}; still ending on {some(left)}") if left else (TRUE, reason, f"{why}; no cache runs")


def _conflict(outcome: Outcome) -> Found | None:
    sentences = sorted(outcome.following.conflicts)
    return (FALSE, Reason.CONFLICT, "; ".join(sentences)) if sentences else None


def _troubled(outcome: Outcome) -> Found | None:
    trouble = outcome.snapshot.troubles.get(outcome.item.name)
    if trouble is None:
        return None
    caches = outcome.snapshot.caches.get(outcome.item.name, {})
    leaving = outcome.removed | {node for node, cache in caches.items() if cache.stopping and cache.running}
    if trouble.reason is Reason.QUOTA_EXCEEDED and leaving:
        return FALSE, Reason.SWAPPED_FOR_QUOTA, f"{some(sorted(leaving))} makes room: {trouble.message}"
    kept = [f"{node}: {why}" for node, why in sorted(outcome.kept.items())]
    return FALSE, trouble.reason, "; ".join((trouble.message, *more(kept)))


def _nobody(outcome: Outcome) -> Found | None:
    """No engine is bound: why, in the order of what the user can do about it."""
    if outcome.following.bound:
        return None
    spec = outcome.item.spec
    label = _label_problem(spec, outcome.snapshot) if spec is not None else None
    if label is not None:
        return FALSE, Reason.NO_NODE_WITH_LABEL, label
    large = too_large(spec, outcome.snapshot) if spec is not None else None
    if large is not None:
        return FALSE, Reason.CANNOT_FIT, large
    kept = [f"{node}: {why}" for node, why in sorted(outcome.kept.items())]
    sentence = no_engine(outcome.item, outcome.following, outcome.snapshot)
    if outcome.following.waiting:
        return UNKNOWN, Reason.ENGINE_WAITING, "; ".join((sentence, *kept))
    return UNKNOWN, Reason.NO_ENGINE, "; ".join((sentence, *_remarks(outcome), *kept))


def _refused(outcome: Outcome) -> Found | None:
    if not outcome.refused:
        return None
    sentences = [message for _, (_, message) in sorted(outcome.refused.items())]
    first = min(outcome.refused.items())[1][0]
    return FALSE, first, "; ".join(more(sentences))


def _sockets_ready(outcome: Outcome, rows: tuple[NodeRow, ...], served: str) -> Finding:
    nodes = outcome.following.bound
    if not nodes:
        sentence = no_engine(outcome.item, outcome.following, outcome.snapshot)
        return Finding("SocketsReady", UNKNOWN, Reason.NO_ENGINE, sentence)
    missing, silent, none = [], [], []
    for row in rows:
        if row.node not in nodes or row.state == "serving":
            continue
        if row.state == "missing":
            none.append(row.node)  # why is told by Placed
        elif row.state == "unknown":
            silent.append(f"{row.node}: {row.message}")
        else:
            missing.append(f"{row.node}: {row.message or 'its cache has not answered yet'}")
    missing += outcome.snapshot.waiting_caches.get(outcome.item.name, ()) if missing else ()
    if none:
        missing.append(f"no cache was placed on {some(none)}")
    astray, denied = _astray(outcome), _denied(outcome)
    if missing:
        return _not_answering(_ungated(outcome, rows), missing, (*more(denied), *astray))
    if denied or astray:
        reason = Reason.ENGINE_DENIED if denied else Reason.DIRECTORY_DIFFERS
        return Finding("SocketsReady", FALSE, reason, "; ".join([*more(denied), *astray]))
    if silent:
        return Finding("SocketsReady", UNKNOWN, Reason.AGENT_SILENT, "; ".join(more(silent)))
    return Finding("SocketsReady", TRUE, Reason.ALL_ANSWERED, f"a register request was answered on {served}")


def _not_answering(ungated: Sequence[str], missing: Sequence[str], astray: Sequence[str]) -> Finding:
    reason = Reason.RESTARTED_WITHOUT_GATE if ungated else Reason.NOT_ANSWERING
    return Finding("SocketsReady", FALSE, reason, "; ".join([*more(ungated), *more(missing), *astray]))


def _denied(outcome: Outcome) -> list[str]:
    """Engines whose user may not enter the directory as it is asked for now (Kubernetes)."""
    found = []
    for node, engines in sorted(outcome.work.bound.items()):
        wanted = outcome.work.caches.get(node, _NO_CACHE).wanted
        asked_now = node in outcome.placed or node in outcome.claimed
        if wanted is None or wanted.needs is None or wanted.needs.strangers or asked_now:
            continue
        found += [
            f"{node}: permission denied for uid {engine.user}: engine {engine.name} is neither root nor in group "
            f"{SOCKET_GROUP}, and the cache's directory is open to these alone"
            for engine in engines
            if engine.needs.strangers
        ]
    return found


def _ungated(outcome: Outcome, rows: tuple[NodeRow, ...]) -> list[str]:
    """Legacy engines that were restarted where no cache answers: no gate held them this time."""
    silent = {row.node for row in rows if row.state in {"starting", "missing"}}
    return [
        f"{node}: engine {engine.name} was restarted, so that no gate waits for its cache, which does not answer"
        for node in sorted(silent & outcome.following.bound.keys())
        for engine in outcome.following.bound[node]
        if engine.ungated
    ]


def _healthy(outcome: Outcome, rows: tuple[NodeRow, ...], served: str) -> Finding:
    nodes = outcome.following.bound
    if not nodes:
        sentence = no_engine(outcome.item, outcome.following, outcome.snapshot)
        return Finding("Healthy", UNKNOWN, Reason.NO_ENGINE, sentence)
    found = [(row.node, _proof(outcome, row)) for row in rows if row.node in nodes]
    for status in (FALSE, UNKNOWN):
        bad = [(node, proof) for node, proof in found if proof.status is status]
        if bad:
            sentences = [f"{node}: {proof.message}" for node, proof in bad]
            return Finding("Healthy", status, bad[0][1].reason, "; ".join(more(sentences)))
    return Finding("Healthy", TRUE, HealthReason.PROVEN, f"bytes went in and came back on {served}")


def _blocks_ready(outcome: Outcome, served: str) -> tuple[Finding, ...]:
    """Whether blocks can be stored beside the engines; says nothing of a KVCache that asks for no store of blocks."""
    spec, nodes = outcome.item.spec, sorted(outcome.following.bound)
    if spec is None or not any(size.block_bytes for size in (spec.size, *(pool.size for pool in spec.pools))):
        return ()
    if not nodes:
        sentence = no_engine(outcome.item, outcome.following, outcome.snapshot)
        return (Finding("BlocksReady", UNKNOWN, Reason.NO_ENGINE, sentence),)
    found = [(node, blocks_of(node, outcome.work.caches.get(node, _NO_CACHE), outcome.snapshot)) for node in nodes]
    for status in (FALSE, UNKNOWN):
        bad = [(node, blocks) for node, blocks in found if blocks.status is status]
        if bad:
            sentences = [f"{node}: {blocks.message}" for node, blocks in bad]
            return (Finding("BlocksReady", status, bad[0][1].reason, "; ".join(more(sentences))),)
    return (Finding("BlocksReady", TRUE, Reason.SERVING, f"blocks can be stored on {served}"),)


def _proof(outcome: Outcome, row: NodeRow) -> Proof:
    if row.state == "missing":
        return Proof(FALSE, Reason.NOT_ANSWERING, "no cache is there")
    return proof_of(outcome.item, row.node, outcome.work.caches.get(row.node, _NO_CACHE), outcome.snapshot)


def _astray(outcome: Outcome) -> tuple[str, ...]:
    engines = [engine for here in outcome.following.astray.values() for engine in here]
    return astray_sentences(engines, outcome.snapshot.namespace, outcome.item.name)


def _metadata(spec: KVCacheSpec | None) -> Finding:
    message = "every cache keeps its metadata to itself (no etcd)"
    if spec is not None and spec.metadata_mode != "local":
        message = f"the manifest asks for metadata '{spec.metadata_mode}'; so far {message}"
    return Finding("MetadataReady", TRUE, Reason.LOCAL, message)


def _ready(outcome: Outcome, needed: tuple[Finding, ...], not_false: tuple[Finding, ...]) -> Finding:
    for found in (*needed, *not_false):
        if found.status is FALSE:
            return Finding("Ready", FALSE, found.reason, found.message)
    if outcome.item.off:
        reason = Reason.DELETED if outcome.item.life is Life.DELETED else Reason.TURNED_OFF
        return Finding("Ready", FALSE, reason, "the user wants no caches")
    for found in needed:
        if found.status is UNKNOWN:
            waiting = found.reason is Reason.ENGINE_WAITING
            return Finding("Ready", UNKNOWN, Reason.NO_ENGINE if waiting else found.reason, found.message)
    count = outcome.following.engine_count
    return Finding("Ready", TRUE, Reason.ALL_SERVED, f"{count} of {count} engines have an answering cache beside them")


def _label_problem(spec: KVCacheSpec, snapshot: Snapshot) -> str | None:
    values = snapshot.cluster.label_values
    keys = {spec.gpu_label_key, *(pool.gpu_label_key for pool in spec.pools)}
    complaint = node_label_complaint(spec, ({key: value} for key in keys for value in values.get(key, ())))
    return complaint.problem if complaint is not None else None


def _remarks(outcome: Outcome) -> list[str]:
    return sorted(outcome.following.remarks)[:SHOWN]
