"""The store for those who read it: finds blocks, leases them, copies them out, and proves what it copied.

Asks no other process for anything. A lease only makes a copy succeed; what makes it right is that the slot's
generation is the same after the copy as before (decision 10). One thread uses it, and one client page is its own.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from kvberth.store.checksums import checksum
from kvberth.store.fences import Fence, FenceKind, client_fence
from kvberth.store.index import Index
from kvberth.store.layout import leases, slots
from kvberth.store.layout.entries import Entry
from kvberth.store.layout.slots import SlotState
from kvberth.store.memory import StoreMemory

LOOKUP_NS = 2_000_000
LEASE_NS = 5_000_000_000
_PUBLISHED = int(SlotState.PUBLISHED)
_BODY = slots.BODY.unpack_from


class Hit(NamedTuple):
    """A published block; `lease` is the place of its lease in the client's page, -1 where there is none."""

    key: bytes
    slot: int
    generation: int
    length: int
    slot_bytes: int
    checksum: int
    lease: int = -1


_hit = partial(tuple.__new__, Hit)


class Reader:
    """Reads one store. Without a client page (`client` None) it leases nothing, and its memory may be read-only."""

    def __init__(
        self,
        memory: StoreMemory,
        *,
        client: int | None = None,
        lease_bytes: int = 1 << 62,
        clock: Callable[[], int] = time.monotonic_ns,
        fence: Fence | None = None,
    ) -> None:
        """`lease_bytes` bounds what this reader has leased at any moment; it may be set anew as `quota`."""
        self.memory = memory
        self._index = Index(memory)
        self._slots = memory.geometry.slots
        self._per_extent = memory.geometry.slots_per_extent
        self._extent_bytes = memory.geometry.extent_bytes
        self._clock = clock
        self._fence = fence or client_fence(FenceKind(memory.superblock.fence))
        self._words = None if client is None else memory.lease_words(client)
        self._free = list(range(leases.LEASES)) if client is not None else []
        self.quota = lease_bytes
        self._held: dict[int, tuple[Hit, int]] = {}
        """Each lease that is not released, with the hit that holds it and its end (ns)."""
        self.leased_bytes = 0

    def find(self, key: bytes) -> Hit | None:
        """Returns the block if it is published at this moment, without a lease. Raises EpochEnded."""
        self.memory.check_epoch()
        if self._index.rebuilding:
            return None
        entry = self._index.find(key)
        return None if entry is None else self._verified(entry)

    def present(self, key: bytes) -> bool:
        """Whether the block is there at this moment; not so where the epoch is over. Any thread may ask."""
        entry = self._index.find(key)
        if entry is None or self._index.rebuilding or self.memory.ended:
            return False
        return self._verified(entry) is not None

    def _verified(self, entry: Entry) -> Hit | None:
        """What the slot's own header says of the block that the index names: key, generation, state, length."""
        key, generation, slot, _ = entry
        if slot >= self._slots:
            return None
        words, at, data, offset = self.memory.place(slot)
        found, now, length, check = _BODY(data, offset)
        if words[at + slots.STATE] != _PUBLISHED or now != generation or found != key:
            return None
        slot_bytes = self.memory.slot_bytes(slot)
        if not 0 < length <= slot_bytes or slot % self._per_extent * slot_bytes + length > self._extent_bytes:
            return None  # cut anew at this moment, or damaged
        return _hit((key, slot, generation, length, slot_bytes, check, -1))

    def lookup(self, keys: Iterable[bytes], *, within_ns: int = LOOKUP_NS, lease_ns: int = LEASE_NS) -> list[Hit]:
        """Leases the leading run of these blocks: up to the first miss, the bound of leases, or the end of its time."""
        until = self._clock() + within_ns
        run: list[Hit] = []
        for key in keys:
            hit = self.find(key)
            leased = None if hit is None else self._lease(hit, lease_ns)
            if leased is None:
                break
            run.append(leased)
            if self._clock() >= until:
                break
        return run

    def copy(self, hit: Hit, into: memoryview, *, verify: bool = True) -> bool:
        """Copies a block; False: it is not that block any more, or damaged, and what is in `into` means nothing."""
        data = self.memory.data(hit.slot, hit.slot_bytes, hit.length)
        into[: hit.length] = data
        intact = not verify or checksum(self.memory.superblock.checksum, into[: hit.length]) == hit.checksum
        return self.still(hit) and intact

    def still(self, hit: Hit) -> bool:
        """Whether what was copied before this call was that block: ask after the copy, and after its checksum."""
        self._fence()
        return self.memory.word(hit.slot, slots.GENERATION) == hit.generation and not self.memory.ended

    def still_leading(self, hits: Sequence[Hit]) -> int:
        """How many of the leading ones are still those blocks, see `still`."""
        self._fence()
        place, count = self.memory.place, 0
        for hit in hits:
            words, at, _, _ = place(hit.slot)
            if words[at + slots.GENERATION] != hit.generation:
                break
            count += 1
        return 0 if self.memory.ended else count

    def read(self, keys: Sequence[bytes]) -> list[bytes]:
        """Copies the leading run of these blocks, and leases nothing when it returns."""
        blocks: list[bytes] = []
        run = self.lookup(keys) if self._words is not None else self._leading(keys)
        try:
            for hit in run:
                block = bytearray(hit.length)
                if not self.copy(hit, memoryview(block)):
                    break
                blocks.append(bytes(block))
        finally:
            for hit in run:
                self.release(hit)
        return blocks

    def _leading(self, keys: Sequence[bytes]) -> list[Hit]:
        found = map(self.find, keys)
        return [hit for hit in takewhile(lambda hit: hit is not None, found) if hit is not None]

    def release(self, hit: Hit) -> None:
        """Ends the lease of a block, once."""
        held, _ = self._held.get(hit.lease, (None, 0))
        if self._words is not None and held is hit:  # not so where it was forgotten, and the place is another's
            del self._held[hit.lease]
            self._words[2 * hit.lease + 1] = 0
            self._free.append(hit.lease)
            self.leased_bytes -= hit.slot_bytes

    def forget_ended(self) -> None:
        """Gives back the places of leases whose time is over and which nobody has released."""
        now = self._clock()
        for hit, until_ns in list(self._held.values()):
            if until_ns <= now:
                self.release(hit)

    def _lease(self, hit: Hit, lasts_ns: int) -> Hit | None:
        """Writes the lease, then looks whether the slot is still what it was; None: no lease."""
        if self._words is None or not self._free or self.leased_bytes + hit.slot_bytes > self.quota:
            return None
        place, until_ns = self._free.pop(), self._clock() + lasts_ns
        leased = _hit((*hit[:-1], place))
        self._held[place] = leased, until_ns
        self.leased_bytes += hit.slot_bytes
        self._words[2 * place] = hit.generation
        self._words[2 * place + 1] = leases.valid_word(hit.slot, until_ns)
        self._fence()  # the worker's fence orders this on x86-64
        words, at, _, _ = self.memory.place(hit.slot)
        if words[at + slots.GENERATION] == hit.generation and words[at + slots.STATE] == _PUBLISHED:
            return leased
        self.release(leased)
        return None
