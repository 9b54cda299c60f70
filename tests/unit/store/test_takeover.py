"""A worker is killed before each write of a day's work: the next one finds what was promised, and all the room."""

import pytest

from kvberth.store.blockstore import BlockStore
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.store.reader import Reader
from kvberth.store.shard_reader import ShardReader
from kvberth.store.shards import Part
from kvberth.store.walk import walk
from support.mortal import Killed, Mortal
from support.store_memory import SMALL, content, key_of, small_memory

LAYOUT, OTHER = 11, 12
CLIENT = b"client number 1."
MORE_THAN_ALL_WRITES = 2000


class Day:
    """One worker at work, and what others heard of it."""

    def __init__(self, *, backwards: bool = False) -> None:
        self.memory = small_memory()
        self.mortal = Mortal(self.memory, backwards=backwards)
        self.stored: set[bytes] = set()
        self.offered: set[bytes] = set()
        self.granted: list[tuple[int, int]] = []
        self.released = 0

    def work(self) -> None:
        store = self.start()
        for number in range(3):
            self.put(store, LAYOUT, number, PAGE)
        for _ in range(2):
            granted = store.grant(LAYOUT, CLIENT, 10**12)
            assert granted is not None
            self.granted.append((granted.slot, granted.generation))
        slot, generation = self.granted[0]
        key = key_of(50)
        self.offered.add(key)
        data = content(key, 100)
        self.memory.data(slot, PAGE, 100)[:] = data
        self.granted = self.granted[1:]
        assert store.commit(slot, generation, CLIENT, key, 100) is Outcome.STORED
        self.stored.add(key)
        self.put(store, OTHER, 60, 3 * PAGE)
        self.stored.discard(key_of(1))
        store.remove([key_of(1)])
        self.stored.discard(key_of(0))
        store.evict(LAYOUT, 1)
        self.put(store, LAYOUT, 70, PAGE)

    def start(self) -> BlockStore:
        store = BlockStore(self.memory)
        store.register(LAYOUT, PAGE)
        store.register(OTHER, 3 * PAGE)
        return store

    def put(self, store: BlockStore, layout: int, number: int, length: int) -> None:
        key = key_of(number)
        self.offered.add(key)
        assert store.put(layout, key, content(key, length)) is Outcome.STORED
        self.stored.add(key)

    def check(self, store: BlockStore) -> None:
        store.reap()
        books, walked = store.books(), walk(self.memory)
        assert walked.complaints == ()
        assert (walked.states, books.complaints(SMALL.data_bytes)) == (books.states, [])
        assert self.stored <= walked.keys <= self.offered
        assert books.states[SlotState.COMMITTED].blocks == books.states[SlotState.DYING].blocks == 0
        for slot, generation in self.granted:
            header = self.memory.header(slot)
            assert (header.state, header.generation) == (SlotState.QUARANTINED, generation)
        reader = Reader(self.memory, client=0)
        for key in self.stored:
            [block] = reader.read([key])
            assert block == content(key, len(block))
        store.drop_holder(CLIENT)
        assert store.books().states[SlotState.QUARANTINED].blocks == 0


class DayOfShards(Day):
    """Blocks of two shards: of one both come, of one that is taken out again, too; of the last one only the first."""

    def work(self) -> None:
        store = self.start()
        for number, shards in ((80, (1, 0)), (81, (0, 1)), (82, (1,))):
            self.offered.add(key_of(number))
            for shard in shards:
                self.part(store, number, shard)
            if len(shards) == 2:
                self.stored.add(key_of(number))
        self.stored.discard(key_of(81))
        store.remove([key_of(81)])
        self.part(store, 81, 1)
        store.joiner.drop([key_of(82)])

    def part(self, store: BlockStore, number: int, shard: int) -> None:
        layout, part = (LAYOUT, OTHER)[shard], Part(shard, 2)
        [(slot, generation, _)] = store.grant_some(layout, CLIENT, 10**12, 1, part)
        self.memory.data(slot, PAGE, PAGE)[:] = content(key_of(number), PAGE)
        store.commit_part(slot, generation, CLIENT, key_of(number), PAGE, part)

    def check(self, store: BlockStore) -> None:
        store.drop_holder(CLIENT)  # the grant that the worker was killed in, of which nobody heard
        reader = ShardReader(self.memory, client=0)
        for key in self.stored:
            hits = reader.lookup_blocks([key], Part(0, 2))
            assert [hit.length for hit in hits] == [PAGE, PAGE]
            for hit in hits:
                reader.release(hit)
        super().check(store)


def writes_of(day: Day) -> int:
    day.mortal.left = MORE_THAN_ALL_WRITES
    day.work()
    return MORE_THAN_ALL_WRITES - day.mortal.left


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("part", "kind"), [(0, Day), (1, Day), (2, Day), (3, Day), (0, DayOfShards), (1, DayOfShards)])
def test_a_worker_that_is_killed_before_any_write_loses_nothing_it_promised(
    part: int, kind: type[Day], backwards: bool
) -> None:
    writes = writes_of(kind())
    assert writes > 80
    for left in range(part, writes, 4 if kind is Day else 2):
        day = kind(backwards=backwards)
        day.mortal.left = left
        with pytest.raises(Killed):
            day.work()
        day.mortal.left = None
        day.check(day.start())


@pytest.mark.parametrize("kind", [Day, DayOfShards])
def test_a_worker_that_is_killed_while_it_takes_over_makes_nothing_worse(kind: type[Day]) -> None:
    writes = writes_of(kind())
    for left in range(0, writes, 3):
        day = kind()
        day.mortal.left = left
        with pytest.raises(Killed):
            day.work()
        for again in range(0, 60, 4):
            day.mortal.left = again
            try:
                day.start()
            except Killed:
                continue
            break
        day.mortal.left = None
        day.check(day.start())
