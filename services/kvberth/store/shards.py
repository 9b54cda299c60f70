"""Blocks of several shards, by their slots: which of them wait for one another, and which stand together. Pure.

A shard waits from its commit on. When the last one is there all are published and stand together: whatever takes one of
them out takes all. Who waits longer than `wait_ns` after the first one is given up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvberth.store.layout.slots import SlotHeader

WAIT_NS = 2_000_000_000


class Part(NamedTuple):
    """Which shard of how many."""

    shard: int = 0
    shards: int = 1


WHOLE = Part()


@dataclass(slots=True)
class Gathering:
    """One block whose shards are coming: the slot of each that is there."""

    shards: int
    until_ns: int
    slots: dict[int, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.slots) == self.shards

    def in_order(self) -> list[int]:
        """The slots, shard 0 first; for one that is complete."""
        return [self.slots[shard] for shard in range(self.shards)]


class Shards:
    """The blocks of several shards in one store; slots of other blocks are not known here."""

    def __init__(self) -> None:
        self.wait_ns = WAIT_NS
        """May be set before the first shard comes."""
        self.waiting: dict[bytes, Gathering] = {}
        """In the order in which their first shards came."""
        self._together: dict[int, tuple[int, ...]] = {}

    def gather(self, key: bytes, part: Part, now_ns: int) -> Gathering | None:
        """The block to which this shard belongs, begun if need be; None: its block is cut into other shards."""
        gathering = self.waiting.get(key)
        if gathering is None:
            gathering = self.waiting[key] = Gathering(part.shards, now_ns + self.wait_ns)
        return gathering if gathering.shards == part.shards else None

    def late(self, now_ns: int) -> list[bytes]:
        """The blocks whose time to become complete is over."""
        keys = []
        for key, gathering in self.waiting.items():
            if gathering.until_ns > now_ns:
                break
            keys.append(key)
        return keys

    def stand(self, slots: Iterable[int]) -> None:
        """These slots are one block from now on, shard 0 first."""
        block = tuple(slots)
        for slot in block:
            self._together[slot] = block

    def of(self, slot: int) -> tuple[int, ...]:
        """All slots of the block to which this one belongs."""
        return self._together.get(slot) or (slot,)

    def take_out(self, going: Iterable[int]) -> list[int]:
        """These slots with all that stand with them, each once; they stand together no more."""
        if not self._together:
            return list(going)
        every = dict.fromkeys(each for slot in going for each in self.of(slot))
        for slot in every:
            self._together.pop(slot, None)
        return list(every)


def linked(header: SlotHeader, slot: int, block: Sequence[int]) -> bool:
    """Whether the header of this slot names its shard and the next one's slot in the block."""
    shard = block.index(slot)
    after = block[shard + 1] + 1 if shard + 1 < len(block) else 0
    return (header.shard, header.shards, header.next_slot) == (shard, len(block), after)
