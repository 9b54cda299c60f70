"""Which extent a layout gets when it is short of slots, and whose blocks go for it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

LAST_EXTENTS = 2
"""A layout's last extents go only when they hold nothing."""


@dataclass(frozen=True, slots=True)
class ExtentUse:
    """One extent: who has it and what it holds. `pinned` slots are granted, quarantined, dying or leased."""

    extent: int
    layout: int
    live: int
    pinned: int
    slot_bytes: int

    @property
    def empty(self) -> bool:
        return not self.live and not self.pinned


@dataclass(frozen=True, slots=True)
class Take:
    """Use this extent, after evicting whatever lives in it."""

    extent: int


@dataclass(frozen=True, slots=True)
class EvictOwn:
    """Evict the layout's own least recently used blocks."""


@dataclass(frozen=True, slots=True)
class Full:
    """Nothing can go now."""


Choice = Take | EvictOwn | Full


def choose(layout: int, extents: Sequence[ExtentUse], free: Sequence[int]) -> Choice:
    """Finds room for a layout without a free slot; `free` are the extents that nobody has."""
    if free:
        return Take(free[0])
    held: dict[int, int] = {layout: 0}
    for extent in extents:
        held[extent.layout] = held.get(extent.layout, 0) + 1
    others = [extent for extent in extents if extent.layout != layout]
    empty = [extent for extent in others if extent.empty]
    if empty:
        return Take(min(extent.extent for extent in empty))
    share = len(extents) / len(held)
    if held[layout] < share:
        richer = max(share, LAST_EXTENTS, held[layout] + 1)  # one more only: both would take it for ever
        going = [each for each in others if not each.pinned and held[each.layout] > richer]
        if not going and not held[layout]:  # a layout with nothing at all: somebody's last extents go
            going = [each for each in others if not each.pinned and held[each.layout] > 1]
        if going:
            return Take(min(going, key=lambda each: (each.live * each.slot_bytes, each.extent)).extent)
    return EvictOwn() if held[layout] and any(each.live for each in extents if each.layout == layout) else Full()
