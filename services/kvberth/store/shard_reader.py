"""Reads blocks of several shards: one process leases all shards of a run, others lease what it found, each its own.

A block counts only when each shard's own header says key, state and shard. So what is found is right whatever happens
to the links meanwhile, and whoever hears of a slot and its generation needs nothing else to lease it.
"""

from collections.abc import Iterable, Sequence

from kvberth.store.layout import slots
from kvberth.store.layout.entries import Entry
from kvberth.store.reader import LEASE_NS, LOOKUP_NS, Hit, Reader
from kvberth.store.shards import Part


class ShardReader(Reader):
    """A reader that knows shards, too. One thread uses it."""

    def lookup_blocks(
        self, keys: Iterable[bytes], shards: int, *, within_ns: int = LOOKUP_NS, lease_ns: int = LEASE_NS
    ) -> list[Hit]:
        """The leading run of these blocks as `lookup` does it: of each all shards are leased, in their order."""
        until = self._clock() + within_ns
        run: list[Hit] = []
        for key in keys:
            block = self._lease_all(key, shards, lease_ns)
            if not block:
                break
            run += block
            if self._clock() >= until:
                break
        return run

    def lease_shard(
        self, places: Sequence[tuple[int, int]], part: Part, layout: int, *, lease_ns: int = LEASE_NS
    ) -> list[Hit]:
        """Leases one shard of the leading run of blocks that somebody else has found: slot and generation of each.

        Up to the first that is not there any more, holds another shard, or one of another layout.
        """
        self.memory.check_epoch()
        run: list[Hit] = []
        for slot, generation in places:
            hit = self._shard(slot, part)
            if hit is None or hit.generation != generation or self.memory.word(slot, slots.LAYOUT) != layout:
                break
            leased = self._lease(hit, lease_ns)
            if leased is None:
                break
            run.append(leased)
        return run

    def _lease_all(self, key: bytes, shards: int, lease_ns: int) -> list[Hit]:
        """All shards of a block, leased; none where one is missing or can't be leased."""
        first = self.find(key)
        block: list[Hit] = []
        slot = -1 if first is None else first.slot
        while len(block) < shards:
            hit = self._shard(slot, Part(len(block), shards))
            leased = None if hit is None or hit.key != key else self._lease(hit, lease_ns)
            if leased is None:
                for each in block:
                    self.release(each)
                return []
            block.append(leased)
            slot = self.memory.word(slot, slots.NEXT) - 1
        return block

    def _shard(self, slot: int, part: Part) -> Hit | None:
        """The shard that this slot holds by its own header, if it is this one and can be read now."""
        if not 0 <= slot < self._slots:
            return None
        _, _, data, offset = self.memory.place(slot)
        key, generation, _, _ = slots.BODY.unpack_from(data, offset)
        if slots.SHARD_OF.unpack_from(data, offset + 8 * slots.SHARD) != part:
            return None
        return self._verified(Entry(key, generation, slot, part.shards))
