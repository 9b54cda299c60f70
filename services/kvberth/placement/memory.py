"""What placement itself remembers, which no event says. Frozen data, decides nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kvberth.placement.reasons import Reason
from kvberth.placement.states import Cache, Engine, KVCache, Node
from kvberth_schemas.events import KVCacheStatusV1, NodeRow


@dataclass(frozen=True, slots=True)
class Held:
    """A step that was not taken, since it failed or something outside forbids it: why, and until when it is not tried
    again."""

    reason: Reason
    message: str
    until: datetime
    directory_only: bool = False
    """Whether it was about a directory that stands alone, so that only such steps are not tried again."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps the backend from doing what is asked for about a KVCache."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class AtRest:
    """The caches of a KVCache of which nothing is to be done: what was said of them, and all that it followed from.

    Every mapping is by node, and has the same nodes. None is changed once it is here.
    """

    item: KVCache
    revisions: Mapping[str, str] | None = None
    caches: dict[str, Cache] = field(default_factory=dict)
    engines: dict[str, tuple[Engine, ...]] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    rows: dict[str, NodeRow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a plan saw of a KVCache's engines, so that the next one sees who came."""

    engines: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By node: uids of engines that stay; those at rest are left out."""
    successors: frozenset[str] = frozenset()
    """Nodes of engines that came in place of others which have not left yet."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What placement itself remembers of a namespace."""

    statuses: Mapping[str, KVCacheStatusV1] = field(default_factory=dict)
    removals: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    """By KVCache: when caches were removed lately."""
    restarts: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    """By KVCache: when caches were restarted lately."""
    idle_since: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    """By KVCache and node: since when a cache was seen without an engine."""
    at_rest: Mapping[str, AtRest] = field(default_factory=dict)
    """By KVCache. Changes no plan, only what it costs."""
    arrivals: Mapping[str, Arrivals] = field(default_factory=dict)
    """By KVCache. Changes only whether an end is told as a move."""
    held: Mapping[tuple[str, str], Held] = field(default_factory=dict)
    """By KVCache and node."""
