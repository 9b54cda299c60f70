"""Directories without a cache: where one is refused, the engines' gates still follow what the manifest says. Pure.

A gate reads its KVCache's word beside the socket. Where no cache can be, for want of room or of a pool, that word is
brought by asking for the directory alone. It is let go when no engine is there any more, or the user wants no cache.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvberth.kvcache import GateSpec, KVCacheSpec
from kvberth.placement.additions import Additions
from kvberth.placement.membership import Following
from kvberth.placement.needs import needs_beside
from kvberth.placement.reasons import Reason
from kvberth.placement.rest import Work
from kvberth.placement.snapshot import Cluster
from kvberth.placement.states import KVCache, Needs, Wanted
from kvberth.placement.steps import Claim, Release

_REFUSED: Final = frozenset({Reason.CANNOT_FIT, Reason.NODE_EXCLUDED, Reason.NO_POOL})
_SILENT: Final = GateSpec()


@dataclass(frozen=True, slots=True)
class Unserved:
    """What of a KVCache that may be acted on has no cache: its engines, and why each node was refused."""

    item: KVCache
    following: Following
    work: Work
    adding: Additions
    cluster: Cluster

    def steps(self) -> list[Claim | Release]:
        """Return which directories to ask for alone, and which of these to let go."""
        spec = self.item.spec
        speaks = spec is not None and not self.item.off and spec.gate != _SILENT
        claimed = list(self._claims(spec)) if spec is not None and speaks else []
        return [*claimed, *self._releases(speaks)]

    def _claims(self, spec: KVCacheSpec) -> Iterator[Claim]:
        for node, (reason, why) in sorted(self.adding.refused.items()):
            if reason not in _REFUSED:
                continue
            engines = self.work.bound[node]
            needs = needs_beside(engines, self.cluster.nodes[node], spec)
            if not _is_due(self._wanted(node), spec.gate, needs):
                continue
            cause = min((engine.cause for engine in engines), key=lambda cause: cause.sequence)
            yield Claim(
                kvcache=self.item.name,
                uid=self.item.uid,
                node=node,
                reason=reason,
                message=f"let gates on {node} follow the manifest, though no cache is there: {why}",
                cause=cause.id,
                traceparent=cause.traceparent,
                gate=spec.gate,
                needs=needs,
            )

    def _releases(self, speaks: bool) -> Iterator[Release]:
        placed = {step.node for step in self.adding.steps}
        for node, cache in sorted(self.work.caches.items()):
            reason = self.adding.refused.get(node, (None, ""))[0]
            kept = speaks and self.following.holds(node) and reason is not Reason.TURNED_OFF
            if cache.claimed and not kept and node not in placed and node in self.cluster.nodes:
                yield Release(
                    kvcache=self.item.name,
                    uid=self.item.uid,
                    node=node,
                    reason=Reason.UNCLAIMED,
                    message=f"let the directory on {node} go: no gate there has to follow the manifest any more",
                    cause=None,
                )

    def _wanted(self, node: str) -> Wanted | None:
        cache = self.work.caches.get(node)
        return cache.wanted if cache is not None else None


def _is_due(wanted: Wanted | None, gate: GateSpec, needs: Needs) -> bool:
    """Whether a directory must be asked for, or otherwise than it was. A cache that is there or leaves has its own."""
    if wanted is None:
        return True
    if not wanted.only_directory:
        return False
    renewed = wanted.gate != gate or (wanted.needs is not None and not wanted.needs.cover(needs))
    return renewed or not wanted.directory
