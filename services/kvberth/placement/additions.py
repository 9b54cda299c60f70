"""Where a KVCache's caches should be, and which of them must be asked for now. Pure.

Adds beside bound engines only: never for a waiting engine, never without room, never twice. What can't be placed is
told with names and numbers and tried again whenever anything changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kvberth.kvcache import CacheSize, KVCacheSpec
from kvberth.placement.membership import Beside
from kvberth.placement.memory import Held
from kvberth.placement.needs import needs_beside
from kvberth.placement.reasons import Reason
from kvberth.placement.snapshot import Cluster
from kvberth.placement.states import Cache, Engine, KVCache, Needs, Node
from kvberth.placement.steps import Place
from kvberth_schemas.events import Resources
from kvberth_schemas.quantity import format_bytes

_NOTHING = Resources()
_ABSENT = Cache()


class Room:
    """What nodes have left, with the caches that this very plan adds counted in."""

    def __init__(self, cluster: Cluster) -> None:
        """Start with nothing added."""
        self._promised = cluster.promised
        self._added: dict[str, tuple[int, int]] = {}

    def refusal(self, node: Node, size: CacheSize, instead_of: Resources = _NOTHING) -> str | None:
        """Take room for a cache, or return the sentence that says why there is none.

        `instead_of`: what a cache has there already that makes way for it.
        """
        memory, cpu = self._added.get(node.name, (0, 0))
        promised = self._promised.get(node.name, _NOTHING)
        memory, cpu = memory - instead_of.memory_bytes, cpu - instead_of.cpu_millis
        free_memory = node.allocatable.memory_bytes - node.requested.memory_bytes - promised.memory_bytes - memory
        free_cpu = node.allocatable.cpu_millis - node.requested.cpu_millis - promised.cpu_millis - cpu
        ask = _Ask(node.name, size.memory_field, size.memory_bytes, free_memory, node.allocatable.memory_bytes)
        refusal = _shortage(ask, format_bytes)
        # A node that names no cpu at all (a runner may leave it out) is not a node without any.
        if refusal is None and node.allocatable.cpu_millis:
            ask = _Ask(node.name, size.cpu_field, cpu_millis(size), free_cpu, node.allocatable.cpu_millis)
            refusal = _shortage(ask, _cores)
        if refusal is not None:
            return refusal
        self._added[node.name] = (memory + size.memory_bytes, cpu + cpu_millis(size))
        return None


@dataclass(frozen=True, slots=True)
class _Ask:
    node: str
    field: str
    needed: int
    free: int
    limit: int


def _shortage(ask: _Ask, shown: Callable[[int], str]) -> str | None:
    if ask.needed <= ask.free:
        return None
    needs = f"cannot fit: needs {shown(ask.needed)}, node {ask.node} has"
    if ask.needed > ask.limit:
        return f"{needs} {shown(ask.limit)} in all, so it never will; lower {ask.field}"
    return f"{needs} {shown(max(ask.free, 0))} free of {shown(ask.limit)}; lower {ask.field}, or free some there"


def _cores(millis: int) -> str:
    return f"{millis / 1000:g} cpu"


def cpu_millis(size: CacheSize) -> int:
    """Return the cores of a cache in thousandths."""
    return int(size.cpu * 1000)


@dataclass(slots=True)
class Additions:
    """What to ask for, and why some of it can't be asked for, by node."""

    steps: list[Place] = field(default_factory=list)
    refused: dict[str, tuple[Reason, str]] = field(default_factory=dict)


def additions(
    item: KVCache,
    bound: Beside,
    caches: Mapping[str, Cache],
    held: Mapping[str, Held],
    cluster: Cluster,
    room: Room,
) -> Additions:
    """Return the caches to be placed for a KVCache that is on; steps are left out where `frozen` forbids them.

    `held` are the nodes on which no step is tried now.
    """
    result = Additions()
    if item.spec is None:
        return result
    for name in sorted(bound):
        node = cluster.nodes.get(name)
        if node is None:
            why = "can't be read" if name in cluster.unreadable_nodes else "is not known"
            result.refused[name] = (Reason.NODE_UNKNOWN, f"node {name} {why}")
            continue
        needs = needs_beside(bound[name], node, item.spec)
        decision = _decide(_Wish(item, item.spec, node, needs, held.get(name)), caches.get(name, _ABSENT), room)
        if isinstance(decision, _Refused):
            result.refused[name] = (decision.reason, decision.message)
        elif decision is not None:
            result.steps.append(_place(_Wish(item, item.spec, node, needs), bound[name], decision))
    return result


@dataclass(frozen=True, slots=True)
class _Wish:
    """A cache of a KVCache on a node, and what its engines there need of it."""

    item: KVCache
    spec: KVCacheSpec
    node: Node
    needs: Needs
    held: Held | None = None


def _decide(wish: _Wish, cache: Cache, room: Room) -> "tuple[_Pool, Reason] | _Refused | None":
    item, node = wish.item, wish.node
    pool = _pool(wish.spec, node)
    if isinstance(pool, _Refused):
        return pool
    reason = _need(wish, cache)
    if reason is None:
        return None
    if item.frozen:
        return _Refused(Reason.PAUSED, f"paused: no cache is placed on {node.name}")
    if wish.held is not None:
        return _Refused(wish.held.reason, wish.held.message)
    if not cache.running and not cache.asked and (refusal := room.refusal(node, pool.size)) is not None:
        return _Refused(Reason.CANNOT_FIT, refusal)
    return pool, reason


@dataclass(frozen=True, slots=True)
class _Refused:
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class _Pool:
    name: str
    size: CacheSize


def _pool(spec: KVCacheSpec, node: Node) -> _Pool | _Refused:
    missing = [f"{key}={value}" for key, value in spec.placement.node_selector if node.labels.get(key) != value]
    if missing:
        asked = ", ".join(missing)
        return _Refused(Reason.NODE_EXCLUDED, f"node {node.name} lacks {asked} of spec.placement.nodeSelector")
    if not spec.pools:
        return _Pool("", spec.size)
    for pool in spec.pools:
        typed = pool.gpu_type is None or node.labels.get(pool.gpu_label_key) == pool.gpu_type
        if typed and all(node.labels.get(key) == value for key, value in pool.node_selector):
            if not pool.on:
                return _Refused(Reason.TURNED_OFF, f"pool {pool.name}, which serves node {node.name}, has replicas 0")
            return _Pool(pool.name, pool.size)
    names = ", ".join(pool.name for pool in spec.pools)
    return _Refused(Reason.NO_POOL, f"no pool of {names} fits the labels of node {node.name}")


def _need(wish: _Wish, cache: Cache) -> Reason | None:
    """Why something must be asked for; None where what is asked for is right.

    Another size does not renew a running cache: that would empty it. It holds for the next one.
    """
    wanted = cache.wanted
    if wanted is None or not wanted.run:
        return Reason.ENGINE_BOUND
    if wanted.uid != wish.item.uid or wanted.gate != wish.spec.gate or not wanted.directory:
        return Reason.RENEWED
    if wanted.needs is not None and not wanted.needs.cover(wish.needs):
        return Reason.RENEWED
    return None


def _place(wish: _Wish, engines: tuple[Engine, ...], decision: tuple[_Pool, Reason]) -> Place:
    pool, reason = decision
    item, spec, node = wish.item, wish.spec, wish.node.name
    first = min(engines, key=lambda engine: (engine.cause.sequence, engine.uid))
    names = ", ".join(sorted(engine.name for engine in engines)[:3])
    added = f"add {node}: engine {names} is bound there"
    return Place(
        kvcache=item.name,
        uid=item.uid,
        node=node,
        reason=reason,
        message=added if reason is Reason.ENGINE_BOUND else f"renew what is asked for on {node}",
        cause=first.cause.id,
        traceparent=first.cause.traceparent,
        pool=pool.name,
        size=pool.size,
        env=spec.env,
        gate=spec.gate,
        needs=wish.needs,
    )
