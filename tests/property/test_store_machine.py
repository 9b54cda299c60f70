"""A store that is filled, read, emptied, damaged and killed at any word it writes, against a model.

After every step: the books add up, a stranger who walks the headers finds the same, and no reader ever gets a wrong
byte. What a worker was killed at is found again by the next one, or was never promised to anybody.
"""

import contextlib

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvberth.store.blockstore import BlockStore, Granted
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.store.reader import LEASE_NS, Hit
from kvberth.store.shard_reader import ShardReader
from kvberth.store.shards import Part
from kvberth.store.walk import walk
from support.mortal import Killed, Mortal
from support.store_memory import SMALL, content, key_of, small_memory

SLOT_PAGES = {21: 1, 22: 3, 23: 16}
"""Layouts, by the pages of their slots."""
SHARDED, SHARDS = 50, (21, 22)
"""Stands for blocks of two shards, which have these layouts."""
UNHEARD = b"a client unheard"
numbers = st.integers(0, 60)
layouts = st.sampled_from(sorted(SLOT_PAGES))
kinds = st.sampled_from([*SLOT_PAGES, SHARDED])
holders = st.sampled_from([b"first  client...", b"second client..."])


class Store(RuleBasedStateMachine):
    """One worker, a reader with leases, clients with grants; a clock that only rules move."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 10**12
        self.memory = small_memory()
        self.mortal = Mortal(self.memory)
        self.reader = ShardReader(self.memory, client=0, clock=lambda: self.now)
        self.live: set[bytes] = set()
        self.layout_of: dict[bytes, int] = {}
        self.shards_of: dict[bytes, int] = {}
        self.leased: list[tuple[int, Hit]] = []
        self.spoiled: set[tuple[int, int]] = set()
        self.grants: list[tuple[bytes, int, Granted]] = []
        self.damaged: set[bytes] = set()
        self.gone_before = 0
        self.unheard = 0
        self.start()

    def start(self) -> None:
        self.store = BlockStore(self.memory, clock=lambda: self.now)
        for layout, pages in SLOT_PAGES.items():
            self.store.register(layout, pages * PAGE)
        self.gone_before = 0

    def length(self, key: bytes) -> int:
        return SLOT_PAGES[self.layout_of[key]] * PAGE - key[0]

    def key(self, number: int, layout: int) -> bytes:
        key = key_of(number * 100 + layout)  # the layout's fingerprint is part of a key
        self.layout_of[key] = SHARDS[0] if layout == SHARDED else layout
        self.shards_of[key] = 2 if layout == SHARDED else 1
        return key

    # --- what is done -------------------------------------------------------------------------------------------------

    @rule(number=numbers, layout=layouts)
    def put(self, number: int, layout: int) -> None:
        key = self.key(number, layout)
        outcome = self.store.put(layout, key, content(key, self.length(key)))
        event(f"put: {outcome.name}")
        assert (outcome is Outcome.PRESENT) == (key in self.live)
        if outcome is Outcome.STORED:
            self.live.add(key)

    @rule(number=numbers, layout=layouts, count=st.integers(2, 40))
    def put_many(self, number: int, layout: int, count: int) -> None:
        for each in range(number, number + count):
            self.put(each, layout)
            self.forget_evicted()

    @rule(number=numbers, shard=st.sampled_from([0, 1]))
    def put_shard(self, number: int, shard: int) -> None:
        """One rank brings its shard; the other one comes, too, or does not."""
        key, layout, part = self.key(number, SHARDED), SHARDS[shard], Part(shard, 2)
        waited = self.store.joiner.waits(key)
        for slot, generation, _ in self.store.grant_some(layout, UNHEARD, 10**9, 1, part):
            size = SLOT_PAGES[layout] * PAGE
            block = content(key, size - key[0])
            self.memory.data(slot, size, len(block))[:] = block
            outcome = self.store.commit_part(slot, generation, UNHEARD, key, len(block), part)
            event(f"shard: {outcome.name if outcome else 'waits'}")
            assert (outcome is None) == self.store.joiner.waits(key)
            assert outcome is not Outcome.STORED or (waited and key not in self.live)
            if outcome is Outcome.STORED:
                self.live.add(key)

    @rule(first=numbers, count=st.integers(1, 8))
    def put_blocks_of_shards(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            for shard in (0, 1):
                self.put_shard(number, shard)
                self.forget_evicted()

    @rule(layout=layouts, holder=holders)
    def grant(self, layout: int, holder: bytes) -> None:
        granted = self.store.grant(layout, holder, 10**9)
        if granted is not None:
            self.grants.append((holder, layout, granted))

    @rule(data=st.data(), number=numbers)
    @precondition(lambda self: self.grants)
    def commit(self, data: st.DataObject, number: int) -> None:
        """A client writes into its slot, whenever it likes, and says so."""
        at = data.draw(st.integers(0, len(self.grants) - 1))
        holder, layout, granted = self.grants.pop(at)
        key = self.key(number, layout)
        block = content(key, self.length(key))
        granted.data[: len(block)] = block
        outcome = self.store.commit(granted.slot, granted.generation, holder, key, len(block))
        event(f"commit: {outcome.name}")
        if outcome is Outcome.STORED:
            assert key not in self.live
            self.live.add(key)

    @rule(data=st.data())
    @precondition(lambda self: self.grants)
    def give_up(self, data: st.DataObject) -> None:
        holder, _, granted = self.grants.pop(data.draw(st.integers(0, len(self.grants) - 1)))
        assert self.store.give_up(granted.slot, granted.generation, holder)

    @rule(holder=holders)
    def holder_dies(self, holder: bytes) -> None:
        held = [grant for grant in self.grants if grant[0] == holder]
        assert self.store.drop_holder(holder) == len(held)
        self.grants = [grant for grant in self.grants if grant[0] != holder]

    @rule(numbers=st.lists(numbers, max_size=8), layout=kinds)
    def remove(self, numbers: list[int], layout: int) -> None:
        keys = {self.key(number, layout) for number in numbers}
        assert self.store.remove(keys) == len(keys & self.live)
        self.live -= keys
        self.damaged -= keys

    @rule(layout=layouts, count=st.integers(1, 64))
    def evict(self, layout: int, count: int) -> None:
        self.store.evict(layout, count)

    @rule(data=st.data())
    @precondition(lambda self: self.live)
    def damage(self, data: st.DataObject) -> None:
        hit = self.reader.find(data.draw(st.sampled_from(sorted(self.live))))
        if hit is not None and hit.key not in self.damaged:
            self.memory.data(hit.slot, hit.slot_bytes, hit.length)[hit.length // 2] ^= 255
            self.damaged.add(hit.key)
            self.spoiled.add((hit.slot, hit.generation))

    @rule()
    def scrub(self) -> None:
        scrubbed = self.store.scrub(SMALL.slots)
        while scrubbed.more:
            scrubbed = self.store.scrub(SMALL.slots)
        if not self.damaged:
            assert scrubbed.corrupt == 0
        self.live -= self.damaged
        self.damaged.clear()

    @rule(by_ns=st.sampled_from([1, 10**7, 10**9, 6 * 10**9]))
    def time_goes_on(self, by_ns: int) -> None:
        self.now += by_ns
        self.store.expire()
        self.store.reap()
        self.store.joiner.drop(self.store.joiner.late())

    # --- who reads ----------------------------------------------------------------------------------------------------

    @rule(data=st.data())
    @precondition(lambda self: self.live)
    def lease(self, data: st.DataObject) -> None:
        keys = data.draw(st.lists(st.sampled_from(sorted(self.live)), min_size=1, max_size=8))
        self.leased += [(self.now, hit) for hit in self.reader.lookup(keys)]

    @rule(numbers=st.lists(numbers, max_size=8))
    def lease_shards(self, numbers: list[int]) -> None:
        keys = [self.key(number, SHARDED) for number in numbers]
        hits = self.reader.lookup_blocks(keys, Part(0, 2))
        assert [hit.key for hit in hits[::2]] == [hit.key for hit in hits[1::2]] == keys[: len(hits) // 2]
        assert {hit.slot_bytes // PAGE for hit in hits[1::2]} <= {SLOT_PAGES[SHARDS[1]]}
        assert self.live >= set(keys[: len(hits) // 2])
        self.leased += [(self.now, hit) for hit in hits]

    @rule(data=st.data())
    @precondition(lambda self: self.leased)
    def remove_what_is_leased(self, data: st.DataObject) -> None:
        """And fill the store, so that its slot would be used if it were free."""
        _, hit = data.draw(st.sampled_from(self.leased))
        self.store.remove([hit.key])
        self.live.discard(hit.key)
        self.damaged.discard(hit.key)
        self.put_many(100, self.layout_of[hit.key], 16)

    @rule(data=st.data())
    @precondition(lambda self: self.leased)
    def copy_and_release(self, data: st.DataObject) -> None:
        """However long ago it was leased, and whatever happened since."""
        at, hit = self.leased.pop(data.draw(st.integers(0, len(self.leased) - 1)))
        into = memoryview(bytearray(hit.length))
        good = self.reader.copy(hit, into)
        event("copied" if good else "not copied")
        assert not good or bytes(into) == content(hit.key, hit.slot_bytes - hit.key[0])
        assert good or self.now >= at + LEASE_NS or (hit.slot, hit.generation) in self.spoiled
        self.reader.release(hit)

    @rule(numbers=st.lists(numbers, max_size=8), layout=kinds)
    def read(self, numbers: list[int], layout: int) -> None:
        keys = [self.key(number, layout) for number in numbers]
        blocks = self.reader.read(keys)
        for key, block in zip(keys, blocks, strict=False):
            assert block == content(key, self.length(key))
        missing = next((at for at, key in enumerate(keys) if key not in self.live or key in self.damaged), len(keys))
        assert len(blocks) == missing

    # --- what is killed -----------------------------------------------------------------------------------------------

    @rule(words=st.integers(0, 40), again=st.integers(0, 200), data=st.data(), number=numbers, layout=layouts)
    def kill_in_the_middle(self, words: int, again: int, data: st.DataObject, number: int, layout: int) -> None:
        """The worker dies before any word of any step, the next one while it takes over; the third one serves."""
        self.mortal.left = words
        step = data.draw(st.sampled_from([self.put, self.grant_unheard, self.evict_unheard, self.put_shards_unheard]))
        before = set(self.live)
        try:
            step(number, layout)
            event("killed between two steps")
        except Killed:
            event("killed within a step")
        self.mortal.left = again
        with contextlib.suppress(Killed):
            self.start()
        self.mortal.left = None
        self.start()
        left = [holder for holder, _, _ in self.grants] + [UNHEARD] * self.unheard
        assert len(self.grants) <= self.store.books().states[SlotState.QUARANTINED].blocks <= len(left)
        found = walk(self.memory).keys
        assert found <= before | {self.key(number, layout), self.key(number, SHARDED)}
        self.live = set(found)
        self.damaged &= self.live

    def grant_unheard(self, number: int, layout: int) -> None:
        """A grant that nobody hears of; its slot stays the client's until that is gone."""
        self.unheard += 1
        self.store.grant(layout, UNHEARD, 10**9)

    def put_shards_unheard(self, number: int, layout: int) -> None:
        """Some of the block's shards may have waited before; of what waits nobody was promised anything."""
        self.unheard += 2
        for shard in (0, 1):
            self.put_shard(number, shard)

    def evict_unheard(self, number: int, layout: int) -> None:
        self.store.evict(layout, number + 1)

    # --- what is always true ------------------------------------------------------------------------------------------

    def forget_evicted(self) -> None:
        """Blocks may go for others; the books must have counted exactly those that went."""
        books = self.store.books()
        found = walk(self.memory).keys
        assert found <= self.live
        gone = self.live - found
        assert sum(self.shards_of[key] for key in gone) == books.evicted.blocks - self.gone_before
        self.gone_before = books.evicted.blocks
        self.live -= gone
        self.damaged -= gone

    @invariant()
    def the_books_are_right(self) -> None:
        self.forget_evicted()
        books, walked = self.store.books(), walk(self.memory)
        assert books.complaints(SMALL.data_bytes) == []
        assert (walked.states, walked.unlent_bytes, walked.waste_bytes) == (
            books.states,
            books.unlent_bytes,
            books.waste_bytes,
        )
        assert len(walked.complaints) == len(self.damaged), walked.complaints


TestStore = Store.TestCase
TestStore.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
