"""Decides from the `dir` wants of a node which directories to keep and which to drop. Pure.

A want that is not there changes nothing: only an explicit ``drop`` ends the keeping of a directory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kvberth_schemas.wants import DirWantV1


@dataclass(frozen=True, slots=True, order=True)
class CacheKey:
    """A cache on this node: the KVCache's namespace and name."""

    namespace: str
    kvcache: str


@dataclass(frozen=True, slots=True)
class GateRule:
    """What the KVCache says about engines that wait for this cache; None: nothing, so that the gate's defaults hold."""

    policy: Literal["wait", "startWithoutCache"] | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class DirWant:
    """A want as it stands on the bus; ``id`` changes whenever it is said again."""

    id: str
    state: Literal["keep", "drop"]
    mode: int
    gid: int | None
    traceparent: str | None = None
    rule: GateRule = GateRule()

    @classmethod
    def of(cls, want: DirWantV1, id_: str, traceparent: str | None) -> "DirWant":
        """Take what matters here from a want's body and its envelope."""
        return cls(id_, want.state, want.mode, want.gid, traceparent, GateRule(want.gate_policy, want.gate_timeout_s))


@dataclass(frozen=True, slots=True)
class Keep:
    """Make the directory, watch it, prove its socket."""

    key: CacheKey
    want: DirWant


@dataclass(frozen=True, slots=True)
class Drop:
    """Watch it no longer, say so, empty it later."""

    key: CacheKey
    want: DirWant


@dataclass(frozen=True, slots=True)
class Refuse:
    """The names can't be those of a directory below the root; ``sentence`` says why."""

    key: CacheKey
    want: DirWant
    sentence: str


Step = Keep | Drop | Refuse


def plan(applied: Mapping[CacheKey, str], wants: Mapping[CacheKey, DirWant]) -> list[Step]:
    """Give the steps for the wants that are not applied yet; ``applied`` has the id of each cache's last one."""
    return [_step(key, wants[key]) for key in sorted(wants) if applied.get(key) != wants[key].id]


def _step(key: CacheKey, want: DirWant) -> Step:
    complaint = name_complaint(key)
    if complaint is not None and want.state == "keep":
        return Refuse(key, want, complaint)
    return Keep(key, want) if want.state == "keep" else Drop(key, want)


def name_complaint(key: CacheKey) -> str | None:
    """Say why namespace and name can't be two directories below the root; None when they can."""
    for part in (key.namespace, key.kvcache):
        if part in {"", ".", ".."} or "/" in part or "\0" in part:
            return f"'{part}' is no name of a directory; namespace and name of a KVCache are DNS labels"
    return None
