"""The status of a KVCache: one row per node, counts and conditions, as it stands after a plan's steps. Pure."""

from datetime import datetime

from kvberth.kvcache import SOCKET_GROUP
from kvberth.placement.conditions import Outcome, conditions
from kvberth.placement.health import proof_of, size_of
from kvberth.placement.moves import nodes_of
from kvberth.placement.snapshot import Snapshot
from kvberth.placement.states import Cache
from kvberth.placement.words import more, some
from kvberth_schemas.events import KVCacheStatusV1, NodeRow, SocketLostV1, SocketReadyV1
from kvberth_schemas.quantity import format_bytes

_ABSENT = Cache()


def status(outcome: Outcome, active: tuple[NodeRow, ...], now: datetime) -> KVCacheStatusV1:
    """Return what is to be said about a KVCache now; `active` are the rows of all but the caches at rest."""
    item, following, snapshot = outcome.item, outcome.following, outcome.snapshot
    rows = outcome.work.resting.rows | {row.node: row for row in active}
    serving = {row.node for row in active if row.state == "serving"}
    unserved = sum(len(engines) for node, engines in outcome.work.bound.items() if node not in serving)
    unserved += sum(len(engines) for node, engines in following.astray.items() if node in serving)
    moved, moved_at = _moved(outcome, now)
    previous = snapshot.memory.statuses.get(item.name)
    return KVCacheStatusV1(
        uid=item.uid,
        name=item.name,
        namespace=snapshot.namespace,
        observed_generation=item.generation or (previous.observed_generation if previous is not None else 0),
        term=snapshot.term,
        wanted_replicas=item.spec.replicas if item.spec is not None else 0,
        engines=following.engine_count,
        engines_served=following.engine_count - unserved,
        engines_waiting=len(following.waiting),
        nodes=tuple(map(rows.__getitem__, sorted(rows))),
        conditions=conditions(outcome, active, now),
        moved=moved,
        moved_at=moved_at,
        successors=tuple(sorted(outcome.successors)),
    )


def _moved(outcome: Outcome, now: datetime) -> tuple[str, datetime | None]:
    """The last move; it is forgotten with the nodes that it names."""
    if outcome.moved:
        return outcome.moved, now
    previous = outcome.snapshot.memory.statuses.get(outcome.item.name)
    if previous is None or previous.uid != outcome.item.uid:
        return "", None
    known = outcome.snapshot.cluster.nodes
    if outcome.snapshot.freshness.known and any(node not in known for node in nodes_of(previous.moved)):
        return "", None
    return previous.moved, previous.moved_at


def active_rows(outcome: Outcome) -> tuple[NodeRow, ...]:
    """Return the rows of the nodes that have to be looked at."""
    caches = outcome.work.caches
    cluster = outcome.snapshot.cluster
    here = {node for node, cache in caches.items() if cache.asked or cache.running}
    here |= {node for node, cache in caches.items() if cache.stopping and cache.answers}
    names = (here | set(outcome.work.bound)) - outcome.forgotten
    known = (name for name in names if name in cluster.nodes or name in cluster.unreadable_nodes)
    shown = known if outcome.snapshot.freshness.known else iter(names)
    return tuple(_row(outcome, name, caches.get(name, _ABSENT)) for name in sorted(shown))


def _row(outcome: Outcome, name: str, cache: Cache) -> NodeRow:
    state, message = _state(outcome, name, cache)
    following = outcome.following
    engines = [*following.bound.get(name, ()), *following.ending.get(name, ())]
    ready = cache.socket if isinstance(cache.socket, SocketReadyV1) else None
    proof = proof_of(outcome.item, name, cache, outcome.snapshot) if state != "missing" else None
    without = sorted((engine.name, engine.without_cache) for engine in engines if engine.without_cache)
    told = [f"engine {engine} started without its cache ({why})" for engine, why in without]
    return NodeRow(
        node=name,
        pool=cache.wanted.pool if cache.wanted is not None else "",
        state=state,
        socket=ready.path if ready else None,
        incarnation=ready.incarnation if ready else None,
        engines=tuple(sorted(engine.name for engine in engines)),
        without_cache=tuple(engine for engine, _ in without),
        memory_limit=ready.memory_limit if ready else None,
        health=proof.reason.value if proof else "",
        last_proof=proof.at if proof else None,
        message="; ".join(filter(None, (message, *more(told)))),
    )


def _state(outcome: Outcome, name: str, cache: Cache) -> tuple[str, str]:
    snapshot = outcome.snapshot
    leaves = cache.stopping and (cache.running or cache.wanted is None or not cache.wanted.only_directory)
    if name in outcome.removed or (leaves and name not in outcome.placed):
        return "leaving", ""
    if name in outcome.refused and not cache.asked and not cache.running:
        return "missing", outcome.refused[name][1]
    if not (cache.asked or cache.running or name in outcome.placed):
        return "missing", "no cache was asked for"
    unknown = _unknown(snapshot, name)
    if unknown:
        return "unknown", unknown
    if name in outcome.restarted:
        return "starting", outcome.restarted[name]
    if cache.answers:
        return "serving", outcome.kept.get(name, "") or _remark(outcome, name, cache)
    return "starting", _not_answering(cache)


def _unknown(snapshot: Snapshot, name: str) -> str:
    node = snapshot.cluster.nodes.get(name)
    if node is not None and not node.ready:
        return "the node is not ready"
    if name not in snapshot.freshness.agents:
        return "its node agent is silent, so nobody knows whether the cache answers"
    return ""


def _remark(outcome: Outcome, name: str, cache: Cache) -> str:
    """What is worth saying beside a serving cache."""
    strangers = cache.wanted.needs.strangers if cache.wanted is not None and cache.wanted.needs is not None else None
    if strangers:
        return f"open to every user of the node: {some(sorted(strangers))} not in group {SOCKET_GROUP}"
    if name in outcome.following.ending and name not in outcome.following.bound:
        return "kept: its engine is ending"
    if cache.process is not None and cache.process.pod is not None:
        return ""  # a pod tells itself what it was made from
    spec, wanted = outcome.item.spec, cache.wanted
    size = size_of(spec, wanted.pool) if spec is not None and wanted is not None else None
    if wanted is not None and size is not None and size != wanted.size_bytes:
        new, old = format_bytes(size), format_bytes(wanted.size_bytes)
        return f"its store has {old}: {new}, the memory less its headroom, holds when it is placed anew"
    return ""


def _not_answering(cache: Cache) -> str:
    if cache.process is not None and cache.process.running and cache.process.message:
        return f"the cache runs, but {cache.process.message}"
    if isinstance(cache.socket, SocketLostV1):
        return f"socket {cache.socket.reason}: {cache.socket.message}"
    if cache.process is not None and not cache.process.running:
        return f"the cache's process ended: {cache.process.message}" if cache.process.message else "the process ended"
    if isinstance(cache.socket, SocketReadyV1):
        return "another daemon answers on its socket than the one that was started"
    return ""
