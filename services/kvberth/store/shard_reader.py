"""Reads blocks of several shards: one process leases all shards of a run, others lease what it found, each its own.

A block counts only when each shard's own header says key, state and shard, and the reader's own shard has its layout:
under one key ranks may have cut the block otherwise before. So what is found is right whatever happens to the links
meanwhile, and whoever hears of a slot and its generation needs nothing else to lease it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from kvberth.store.layout import slots
from kvberth.store.layout.entries import Entry
from kvberth.store.reader import LEASE_NS, LOOKUP_NS, Hit, Reader
from kvberth.store.shards import Part


class ShardReader(Reader):
    """A reader that knows shards, too. One thread uses it."""

    def lookup_blocks(
        self,
        keys: Iterable[bytes],
        part: Part,
        layout: int = 0,
        *,
        within_ns: int = LOOKUP_NS,
        lease_ns: int = LEASE_NS,
    ) -> list[Hit]:
        """The leading run of these blocks as `lookup` does it: of each all shards are leased, in their order.

        `layout` is that of the reader's own part; 0: it has none, and looks up for others.
        """
        until = self._clock() + within_ns
        run: list[Hit] = []
        for key in keys:
            block = self._lease_all(key, part, layout, lease_ns)
            if not block:
                break
            run += block
            if self._clock() >= until:
                break
        return run

    def present_shard(self, key: bytes, part: Part, layout: int) -> bool:
        """Whether the block is there at this moment, with this shard in this layout. Any thread may ask."""
        entry = self._index.find(key)
        if entry is None or self._index.rebuilding or self.memory.ended:
            return False
        own = next(islice(self._chain(key, entry.slot, part.shards), part.shard, None), None)
        return own is not None and self.memory.word(own.slot, slots.LAYOUT) == layout

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

    def _lease_all(self, key: bytes, part: Part, layout: int, lease_ns: int) -> list[Hit]:
        """All shards of a block, leased; none where one is missing, can't be leased, or is cut otherwise."""
        first = self.find(key)
        block: list[Hit] = []
        for hit in self._chain(key, -1 if first is None else first.slot, part.shards):
            leased = self._lease(hit, lease_ns)
            if leased is None:
                break
            block.append(leased)
        whole = len(block) == part.shards
        if whole and (not layout or self.memory.word(block[part.shard].slot, slots.LAYOUT) == layout):
            return block
        for each in block:
            self.release(each)
        return []

    def _chain(self, key: bytes, slot: int, shards: int) -> Iterator[Hit]:
        """The shards of a block from its first slot on, up to the first that is not there."""
        for shard in range(shards):
            hit = self._shard(slot, Part(shard, shards))
            if hit is None or hit.key != key:
                return
            yield hit
            slot = self.memory.word(slot, slots.NEXT) - 1

    def _shard(self, slot: int, part: Part) -> Hit | None:
        """The shard that this slot holds by its own header, if it is this one and can be read now."""
        if not 0 <= slot < self._slots:
            return None
        _, _, data, offset = self.memory.place(slot)
        key, generation, _, _ = slots.BODY.unpack_from(data, offset)
        if slots.SHARD_OF.unpack_from(data, offset + 8 * slots.SHARD) != part:
            return None
        return self._verified(Entry(key, generation, slot, part.shards))
