"""The store, for its one writer: grants slots, publishes what was copied into them, evicts, and keeps the books.

One thread calls it. It maps and copies nothing itself but for `put`, waits for nobody and is bounded by its memory.
Time comes from the given clock (CLOCK_MONOTONIC, ns), which readers in other processes share.
The worker's service calls, in turns, what nobody here does: `reap`, `expire`, `note_reads`, and `give_up` and
`drop_holder` for its clients.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvberth.store.books import Books
from kvberth.store.checksums import checksum
from kvberth.store.errors import LayoutRefused, Malformed
from kvberth.store.fences import Fence, FenceKind, store_fence, worker_fence
from kvberth.store.index import Index
from kvberth.store.joining import Joiner
from kvberth.store.layout import slots
from kvberth.store.layout.entries import Entry
from kvberth.store.layout.geometry import PAGE, round_up
from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import HOLDER_BYTES, KEY_BYTES, SlotHeader, SlotState
from kvberth.store.leased import leased_slots
from kvberth.store.memory import StoreMemory
from kvberth.store.shards import WHOLE, Part, linked
from kvberth.store.slotbook import SlotBook
from kvberth.store.space import EvictOwn, Full, Take, choose
from kvberth.store.takeover import take_over

EVICT_BATCH = 64
_EVICT_PART = 16
"""No more than this part of a layout's blocks goes at once: of large ones there are few."""
_OWN_HOLDER = b"kvberth:  worker"


@dataclass(frozen=True, slots=True)
class Granted:
    """A slot that its holder may write into until its deadline."""

    slot: int
    generation: int
    number: int
    """The grant's own, which grows; it begins anew with each worker."""
    data: memoryview


class _Held(NamedTuple):
    """Whose a slot is: the worker's own word, which no client can write."""

    generation: int
    holder: bytes
    deadline_ns: int
    state: SlotState = SlotState.GRANTED


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """What one call of `scrub` looked at."""

    checked: int
    corrupt: int
    more: bool
    bytes: int = 0
    """Read, of the blocks that were checked."""


class BlockStore:
    """The one writer of a store. After `memory.end_epoch()` every call raises EpochEnded."""

    def __init__(
        self, memory: StoreMemory, *, clock: Callable[[], int] = time.monotonic_ns, fence: Fence | None = None
    ) -> None:
        """Takes a store as it lies in memory: a new one, or what a killed worker left. Its blocks are found again."""
        self.memory = memory
        self.places: Collection[int] = range(memory.geometry.clients)
        """The client pages in which leases are looked for; whoever gives pages to clients may name fewer."""
        self._clock = clock
        kind = FenceKind(memory.superblock.fence)
        self._fence = fence or worker_fence(kind)
        self._store_fence = store_fence(kind)
        self._index = Index(memory)
        self._book = SlotBook(memory)
        self._cut: dict[int, int] = {}
        self._grants = 0
        self._dying: set[int] = set()
        self._scrub_at = 0
        self._held: dict[int, _Held] = {}
        self.joiner = Joiner(memory, self._book, self._index, self._store_fence, clock)
        self._shards = self.joiner.shards
        found = take_over(memory, self._book, self._index)
        self._dying.update(found.dying)
        for slot, (generation, holder) in found.quarantined.items():
            self._held[slot] = _Held(generation, holder, 0, SlotState.QUARANTINED)
        self._cut.update(found.cut)
        for block in found.together:
            self._shards.stand(block)
        self.drop_holder(_OWN_HOLDER)  # the one who wrote there was the killed worker itself

    # --- layouts and grants -------------------------------------------------------------------------------------------

    def register(self, layout: int, block_bytes: int) -> int:
        """Makes a layout known by its number; returns the bytes of its slots. Raises LayoutRefused with a sentence."""
        largest = self.memory.geometry.extent_bytes
        if not 0 < block_bytes <= largest:
            raise LayoutRefused(f"a block of this store has 1 to {largest} bytes, not {block_bytes}")
        if not 0 < layout < 1 << 64:
            raise LayoutRefused(f"the number of a layout has 64 bits and is not 0; {layout} is none")
        cut = round_up(block_bytes, PAGE)
        if self._cut.setdefault(layout, cut) != cut:
            raise LayoutRefused(f"layout {layout:x} has slots of {self._cut[layout]} bytes here, not of {cut}")
        return cut

    def grant(self, layout: int, holder: bytes, lasts_ns: int) -> Granted | None:
        """Gives a slot to a holder (16 bytes); None: the store is full, and nothing that could go is unused."""
        for slot, generation, number in self.grant_some(layout, holder, lasts_ns, 1):
            cut = self._cut[layout]
            return Granted(slot, generation, number, self.memory.data(slot, cut, cut))
        return None

    def grant_some(
        self, layout: int, holder: bytes, lasts_ns: int, count: int, part: Part = WHOLE
    ) -> list[tuple[int, int, int]]:
        """Gives up to `count` slots to a holder: (slot, generation, number) of each; fewer where the store is full."""
        self.memory.check_epoch()
        cut = self._cut.get(layout)
        if cut is None:
            raise LayoutRefused(f"layout {layout:x} was never registered")
        if len(holder) != HOLDER_BYTES:
            raise ValueError(f"a holder has {HOLDER_BYTES} bytes, not {len(holder)}")
        taken = self._book.take(layout, count)
        while len(taken) < count and self._make_room(layout, cut):
            taken += self._book.take(layout, count - len(taken))
        deadline_ns, first = self._clock() + lasts_ns, self._grants + 1
        self._grants += len(taken)
        generations = self._book.grant(taken, holder, first, deadline_ns, part)
        for slot, generation in zip(taken, generations, strict=True):
            self._held[slot] = _Held(generation, holder, deadline_ns)
        self._store_fence()  # whoever hears of the grants must find the headers written
        return list(zip(taken, generations, range(first, first + len(taken)), strict=True))

    def commit(self, slot: int, generation: int, holder: bytes, key: bytes, length: int) -> Outcome:
        """Publishes what the holder has copied into its slot; whatever the answer, the slot is not the holder's now."""
        self.memory.check_epoch()
        return self._settle(slot, generation, holder, key, length)

    def commit_part(
        self, slot: int, generation: int, holder: bytes, key: bytes, length: int, part: Part
    ) -> Outcome | None:
        """The same for one shard of a block. None: it waits for the others.

        Where the block waits no longer (`joiner.waits`) the outcome is the word on all of its shards. One that is
        there with this shard in another layout is taken out.
        """
        self.memory.check_epoch()
        held = self._of(slot, generation, holder)
        if held is None:
            return Outcome.EXPIRED
        why = live = None
        if held.state is SlotState.QUARANTINED or held.deadline_ns <= self._clock():
            why = Outcome.EXPIRED
        elif len(key) != KEY_BYTES or not 0 < length <= self._book.slot_bytes(slot):
            why = Outcome.LAYOUT
        elif (live := self._live(key)) is not None and not self.joiner.cut_otherwise(live.slot, slot, part):
            self._touch([live.slot])
            why = Outcome.PRESENT
        if why is not None:
            self._release(slot)
            return why
        if live is not None:
            self._end([live.slot], "removed")
        del self._held[slot]
        return self.joiner.join(slot, key, length, part)

    def give_up(self, slot: int, generation: int, holder: bytes) -> bool:
        """The holder's word that it will not write into its slot any more; False: it is not its slot."""
        held = self._of(slot, generation, holder)
        if held is not None:
            self._release(slot)
        return held is not None

    def expire(self) -> int:
        """Quarantines the grants whose time has ended: a paused process may still write there. Returns how many."""
        now = self._clock()
        granted = [(slot, held) for slot, held in self._held.items() if held.state is SlotState.GRANTED]
        late = [(slot, held) for slot, held in granted if held.deadline_ns <= now]
        for slot, held in late:
            self._book.move(slot, SlotState.GRANTED, SlotState.QUARANTINED)
            self._held[slot] = held._replace(state=SlotState.QUARANTINED)
        return len(late)

    def drop_holder(self, holder: bytes) -> int:
        """Frees all slots of a process that is known to be gone. Returns how many."""
        own = [slot for slot, held in self._held.items() if held.holder == holder]
        for slot in own:
            self._release(slot)
        return len(own)

    # --- blocks -------------------------------------------------------------------------------------------------------

    def put(self, layout: int, key: bytes, data: bytes | memoryview) -> Outcome:
        """Copies a block in and publishes it. (Engines copy themselves, between `grant` and `commit`.)

        The outcome is no receipt yet, for that the daemon is asked. Raises TypeError where the bytes lie in no row.
        """
        self.memory.check_epoch()
        data = memoryview(data).cast("B")  # whatever its items are: from here on only bytes count
        if not 0 < len(data) <= self._cut.get(layout, 0) or len(key) != KEY_BYTES:
            return Outcome.LAYOUT
        if self.contains(key):
            return Outcome.PRESENT
        granted = self.grant(layout, _OWN_HOLDER, 10**9)
        if granted is None:
            return Outcome.STORE_FULL
        granted.data[: len(data)] = data
        return self.commit(granted.slot, granted.generation, _OWN_HOLDER, key, len(data))

    def contains(self, key: bytes) -> bool:
        """Whether the block is published; being asked for makes it young."""
        entry = self._live(key)
        return entry is not None and self._touch([entry.slot]) > 0

    def remove(self, keys: Iterable[bytes]) -> int:
        """Takes blocks out, whoever reads them; returns how many were there."""
        self.memory.check_epoch()
        entries = [entry for key in dict.fromkeys(keys) if (entry := self._live(key)) is not None]
        self._end([entry.slot for entry in entries], "removed")
        return len(entries)

    def evict(self, layout: int, count: int = EVICT_BATCH) -> int:
        """Evicts the least recently used blocks of a layout; returns how many slots are free for it now."""
        self.memory.check_epoch()
        return self._end(self._book.oldest(layout, count), "evicted")

    def reap(self) -> int:
        """Frees dying slots whose leases have ended; returns how many."""
        return self._reap() if self._dying else 0

    def note_reads(self) -> int:
        """Makes the blocks young that are leased at this moment, which nobody else tells; returns how many."""
        return self._touch(self._read_now())

    def scrub(self, count: int) -> Scrubbed:
        """Checks the next `count` slots: a block that differs from its checksum is taken out and counted.

        Where the store has no checksums only headers are looked at.
        """
        self.memory.check_epoch()
        total = self.memory.geometry.slots
        looked = range(self._scrub_at, min(self._scrub_at + count, total))
        self._scrub_at = looked.stop % total
        published = [slot for slot in looked if self._book.is_published(slot)]
        sound = {slot: length for slot in published if (length := self._length(slot))}
        bad = [slot for slot in published if slot not in sound or not self._intact(slot, sound[slot])]
        read = sum(sound.values()) if self.memory.superblock.checksum else 0
        self._book.ledger.corrupt += len(bad)
        self._end(bad, "removed")
        return Scrubbed(len(published), len(bad), more=looked.stop < total, bytes=read)

    def answered(self, outcomes: Iterable[Outcome]) -> None:
        """Books the last word that was given on blocks."""
        for outcome in outcomes:
            self._book.ledger.outcome(outcome)

    @property
    def held_bytes(self) -> int:
        """Bytes of the slots that somebody may write into, or has: also those that an earlier worker granted."""
        return self._book.ledger.bytes_in((SlotState.GRANTED, SlotState.QUARANTINED, SlotState.COMMITTED))

    def books(self) -> Books:
        """The books of this moment."""
        return self._book.ledger.books()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _live(self, key: bytes) -> Entry | None:
        """The entry of a published block; one that its slot does not confirm is damage, and goes."""
        entry = self._index.find(key)
        if entry is None or (self._book.is_published(entry.slot) and self.memory.key(entry.slot) == key):
            return entry
        self._index.remove(key)
        return None

    def _of(self, slot: int, generation: int, holder: bytes) -> _Held | None:
        """What this holder still has under this generation."""
        held = self._held.get(slot)
        return held if held is not None and (held.generation, held.holder) == (generation, holder) else None

    def _settle(self, slot: int, generation: int, holder: bytes, key: bytes, length: int) -> Outcome:
        held = self._of(slot, generation, holder)
        if held is None:
            return Outcome.EXPIRED
        place = -1
        if held.state is SlotState.QUARANTINED or held.deadline_ns <= self._clock():
            why = Outcome.EXPIRED
        elif len(key) != KEY_BYTES or not 0 < length <= self._book.slot_bytes(slot):
            why = Outcome.LAYOUT
        else:
            there, place = self._sought(key)
            why = Outcome.PRESENT if there else Outcome.STORE_FULL if place < 0 else Outcome.STORED
        if why is Outcome.STORED:
            self._publish(Entry(key, generation, slot, 1), length, place)
        else:
            self._release(slot)
        return why

    def _sought(self, key: bytes) -> tuple[bool, int]:
        """Whether the block is published, which makes it young; else the place of its entry, or -1."""
        entry, place = self._index.look(key)
        if entry is None:
            return False, place
        if self.contains(key):
            return True, place
        return False, self._index.look(key)[1]  # damage, which is gone now

    def _publish(self, entry: Entry, length: int, at: int) -> None:
        memory, book, slot = self.memory, self._book, entry.slot
        del self._held[slot]
        place = book.commit(slot)
        kind = memory.superblock.checksum
        value = checksum(kind, memory.data(slot, book.slot_bytes(slot), length)) if kind else 0
        memory.put_body(place, slots.KEY, entry.key)  # the generation is the grant's, and stays
        memory.put_body(place, slots.LENGTH, slots.MEASURE.pack(length, value))
        memory.put_word(place, slots.LAST_USE, self._clock())
        self._store_fence()
        book.publish(slot, place)
        self._index.insert(entry, at)

    def _length(self, slot: int) -> int:
        """How long a published block is by its header; 0: that is none of such a block."""
        try:
            header = self.memory.header(slot)
        except Malformed:
            return 0
        fits = header.state is SlotState.PUBLISHED and header.length <= self._book.slot_bytes(slot)
        return header.length if fits and self._leads_to(slot, header) else 0

    def _intact(self, slot: int, length: int) -> bool:
        data = self.memory.data(slot, self._book.slot_bytes(slot), length)
        return checksum(self.memory.superblock.checksum, data) == self.memory.word(slot, slots.CHECKSUM)

    def _leads_to(self, slot: int, header: SlotHeader) -> bool:
        """Whether the index names this slot for the key that its header holds, and the header the other shards."""
        entry, block = self._index.find(header.key), self._shards.of(slot)
        return entry is not None and entry.slot == block[0] and linked(header, slot, block)

    def _read_now(self) -> list[int]:
        """The published slots that are leased at this moment."""
        return [
            slot
            for slot, generations in leased_slots(self.memory, self._clock(), self.places).items()
            if self._book.is_published(slot) and self.memory.word(slot, slots.GENERATION) in generations
        ]

    def _touch(self, read: Sequence[int]) -> int:
        for slot in read:
            for each in self._shards.of(slot):
                self._book.touch(each, self._clock())
        return len(read)

    def _release(self, slot: int) -> None:
        self._book.free(slot, self._held.pop(slot).state)

    def _end(self, going: Sequence[int], flow: str) -> int:
        """Makes published slots dying, and free where nobody has leased them; returns how many are free now."""
        for slot in self._shards.take_out(going):
            self._index.remove(self.memory.key(slot), slot)
            self._book.move(slot, SlotState.PUBLISHED, SlotState.DYING)
            self._book.ledger.flow(flow, self._book.slot_bytes(slot))
            self._dying.add(slot)
        return self._reap() if going else 0

    def _reap(self) -> int:
        self._fence()  # between "dying", which readers look for after they leased, and the look at their leases
        leased = leased_slots(self.memory, self._clock(), self.places)
        done = [slot for slot in self._dying if self.memory.word(slot, slots.GENERATION) not in leased.get(slot, ())]
        for slot in done:
            self._dying.discard(slot)
            self._book.free(slot, SlotState.DYING)
        return len(done)

    def _make_room(self, layout: int, cut: int) -> bool:
        """Frees at least one slot of a layout that has none, if that is possible now."""
        if self._dying and self._reap() and self._book.has_free(layout):
            return True
        read = self._read_now()
        choice = choose(layout, self._book.uses(read), self._book.unlent)
        if isinstance(choice, Take):
            self._end(self._book.published_in(choice.extent), "evicted")
            if self._book.is_empty(choice.extent):
                self._book.lend(choice.extent, layout, cut)
                return True
            choice = EvictOwn()  # somebody has begun to read there: its slots come when the leases end
        if isinstance(choice, Full):
            return False
        self._touch(read)
        batch = max(1, min(EVICT_BATCH, self._book.published(layout) // _EVICT_PART))
        return self._end(self._book.oldest(layout, batch), "evicted") > 0 and self._book.has_free(layout)
