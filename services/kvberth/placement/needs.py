"""What engines need of the cache beside them: tolerations, RPC, a directory they can enter. Pure.

Kubernetes gives every pod tolerations that end after 300 s, and a DaemonSet's pods those of `node.kubernetes.io/`: none
of these is taken over. Who tolerates everything needs a cache that tolerates the taints of its node, and no more.
"""

from collections.abc import Iterable

from kvberth.kvcache import SOCKET_GROUP, KVCacheSpec
from kvberth.placement.snapshot import Engine, Needs, Node, Tolerated
from kvberth_schemas.events import PodState, Taint
from kvberth_schemas.manifests import Toleration

_OWN_OF_KUBERNETES = "node.kubernetes.io/"


def needs_of(event: PodState) -> Needs:
    """Return what one engine's pod needs."""
    tolerations = (
        Tolerated(item.key or None, item.operator or "Equal", item.value or "", item.effect or "")
        for item in event.tolerations
        if item.toleration_seconds is None and not (item.key or "").startswith(_OWN_OF_KUBERNETES)
    )
    stranger = event.run_as_user not in {None, 0} and SOCKET_GROUP not in event.supplemental_groups
    return Needs(frozenset(tolerations), event.legacy, frozenset({event.name} if stranger else ()))


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
            tolerations |= {item} if item.key is not None else _taints(node, item.effect)
    return Needs(frozenset(tolerations), rpc, frozenset(strangers))


def _written(item: Toleration) -> Tolerated:
    return Tolerated(item.key or None, item.operator or "Equal", item.value or "", item.effect or "")


def _taints(node: Node, effect: str) -> set[Tolerated]:
    """Tolerations of exactly the taints of a node."""
    return {
        _matching(taint)
        for taint in node.taints
        if effect in {"", taint.effect} and not taint.key.startswith(_OWN_OF_KUBERNETES)
    }


def _matching(taint: Taint) -> Tolerated:
    return Tolerated(taint.key, "Equal" if taint.value else "Exists", taint.value or "", taint.effect)
