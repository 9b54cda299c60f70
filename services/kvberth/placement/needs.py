"""What engines need of the cache beside them: tolerations, priority, RPC, a directory they can enter. Pure.

Kubernetes gives every pod tolerations of `node.kubernetes.io/` that end after 300 s, and a DaemonSet's pods some that
do not end: none of these is taken over. Who tolerates everything needs a cache that tolerates its node's taints alone.
"""

from collections.abc import Iterable

from kvberth.kvcache import SOCKET_GROUP, KVCacheSpec
from kvberth.placement.states import Engine, Needs, Node, Priority
from kvberth.placement.tolerated import Tolerated, widest
from kvberth_schemas.events import PodState, Taint
from kvberth_schemas.manifests import Toleration

_OWN_OF_KUBERNETES = "node.kubernetes.io/"


def needs_of(event: PodState) -> Needs:
    """Return what one engine's pod needs."""
    tolerations = (
        Tolerated(
            item.key or None, item.operator or "Equal", item.value or "", item.effect or "", item.toleration_seconds
        )
        for item in event.tolerations
        if not (item.key or "").startswith(_OWN_OF_KUBERNETES)
    )
    stranger = event.run_as_user not in {None, 0} and SOCKET_GROUP not in event.supplemental_groups
    priority = Priority(event.priority_class or "", event.priority or 0)
    return Needs(frozenset(tolerations), event.legacy, frozenset({event.name} if stranger else ()), priority)


def needs_beside(engines: Iterable[Engine], node: Node, spec: KVCacheSpec) -> Needs:
    """Return what the engines on a node need together, and what the KVCache itself tolerates."""
    tolerations = {_written(item) for item in spec.placement.tolerations}
    strangers = set[str]()
    rpc = False
    for engine in engines:
        needs = engine.needs
        rpc = rpc or needs.rpc
        strangers |= needs.strangers
        for item in needs.tolerations:
            tolerations |= {item} if item.key is not None else _taints(node, item)
    priority = highest(engine.needs.priority for engine in engines)
    return Needs(widest(tolerations), rpc, frozenset(strangers), priority)


def highest(priorities: Iterable[Priority]) -> Priority:
    """Return the highest of some priorities; of equal ones always the same."""
    return max(priorities, key=lambda item: (item.value, item.name), default=Priority())


def _written(item: Toleration) -> Tolerated:
    return Tolerated(
        item.key or None, item.operator or "Equal", item.value or "", item.effect or "", item.toleration_seconds
    )


def _taints(node: Node, every: Tolerated) -> set[Tolerated]:
    """Tolerations of exactly the taints of a node that one without a key tolerates."""
    return {
        _matching(taint, every.seconds)
        for taint in node.taints
        if every.effect in {"", taint.effect} and not taint.key.startswith(_OWN_OF_KUBERNETES)
    }


def _matching(taint: Taint, seconds: int | None) -> Tolerated:
    return Tolerated(taint.key, "Equal" if taint.value else "Exists", taint.value or "", taint.effect, seconds)
