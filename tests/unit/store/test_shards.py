"""Blocks of several shards, step by step: all of one is there, or nothing."""

import pytest

from kvberth.store.blockstore import BlockStore
from kvberth.store.layout import slots
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.store.memory import StoreMemory
from kvberth.store.reader import Hit
from kvberth.store.shard_reader import ShardReader
from kvberth.store.shards import WAIT_NS, Part
from kvberth.store.walk import walk
from support.store_memory import SMALL, Clock, content, key_of, small_memory

SHARDS = 3
PAGES = {0: 1, 1: 1, 2: 3}
"""Of each shard's slots; two have one layout, as ranks of tensor parallelism, the third is another stage."""
LAYOUTS = {0: 21, 1: 21, 2: 22}
RANKS = [f"rank {shard:11}".encode() for shard in range(SHARDS)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> BlockStore:
    return started(small_memory(), clock)


@pytest.fixture
def reader(store: BlockStore, clock: Clock) -> ShardReader:
    return ShardReader(store.memory, client=0, clock=clock)


def started(memory: StoreMemory, clock: Clock) -> BlockStore:
    store = BlockStore(memory, clock=clock)
    for shard, pages in PAGES.items():
        store.register(LAYOUTS[shard], pages * PAGE)
    return store


def bytes_of(number: int, shard: int) -> bytes:
    return content(key_of(number * 10 + shard), PAGES[shard] * PAGE)


def commit(store: BlockStore, number: int, shard: int, length: int | None = None) -> Outcome | None:
    part = Part(shard, SHARDS)
    [(slot, generation, _)] = store.grant_some(LAYOUTS[shard], RANKS[shard], 10**10, 1, part)
    data = bytes_of(number, shard)
    store.memory.data(slot, len(data), len(data))[:] = data
    return store.commit_part(
        slot, generation, RANKS[shard], key_of(number), len(data) if length is None else length, part
    )


def put(store: BlockStore, *numbers: int) -> list[Outcome | None]:
    return [[commit(store, number, shard) for shard in range(SHARDS)][-1] for number in numbers]


def found(reader: ShardReader, *numbers: int) -> list[Hit]:
    return reader.lookup_blocks([key_of(number) for number in numbers], Part(0, SHARDS))


def adds_up(store: BlockStore) -> None:
    books, walked = store.books(), walk(store.memory)
    assert walked.complaints == ()
    assert walked.states == books.states
    assert books.complaints(SMALL.data_bytes) == []


def in_state(store: BlockStore, state: SlotState) -> int:
    return store.books().states[state].blocks


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_block_is_found_when_the_last_shard_is_there_whatever_the_order(
    store: BlockStore, reader: ShardReader, order: tuple[int, ...]
) -> None:
    for shard in order[:-1]:
        assert commit(store, 1, shard) is None
        assert reader.find(key_of(1)) is None
        assert not store.contains(key_of(1))
        adds_up(store)
    assert in_state(store, SlotState.COMMITTED) == 2
    assert store.held_bytes == sum(PAGES[shard] * PAGE for shard in order[:-1])
    assert commit(store, 1, order[-1]) is Outcome.STORED
    assert not store.joiner.waits(key_of(1))
    hits = found(reader, 1)
    for shard, hit in enumerate(hits):
        into = memoryview(bytearray(hit.length))
        assert reader.copy(hit, into)
        assert bytes(into) == bytes_of(1, shard)
    assert store.held_bytes == 0
    adds_up(store)


def test_a_block_that_ranks_had_cut_otherwise_is_no_hit_for_their_successors_and_gives_way_to_theirs(
    store: BlockStore, reader: ShardReader, clock: Clock
) -> None:
    put(store, 1, 2)
    last, layout = Part(2, SHARDS), LAYOUTS[0]
    stale = [key_of(1), key_of(2)]
    assert len(reader.lookup_blocks(stale, last, LAYOUTS[2])) == 2 * SHARDS
    assert reader.present_shard(key_of(1), last, LAYOUTS[2])
    other = ShardReader(store.memory, client=1, clock=clock)
    assert other.lookup_blocks(stale, last, layout) == []
    assert other.leased_bytes == 0
    assert not other.present_shard(key_of(1), last, layout)
    assert not other.present_shard(key_of(3), last, layout)
    for shard in (2, 0, 1):  # now the last shard is as small as the others
        part, key = Part(shard, SHARDS), key_of(1)
        [(slot, generation, _)] = store.grant_some(layout, RANKS[shard], 10**10, 1, part)
        store.memory.data(slot, PAGE, PAGE)[:] = bytes_of(1, 0)
        outcome = store.commit_part(slot, generation, RANKS[shard], key, PAGE, part)
        assert outcome is (Outcome.STORED if shard == 1 else None)
    assert [hit.length for hit in other.lookup_blocks(stale, last, layout)] == [PAGE] * SHARDS
    assert other.present_shard(key_of(1), last, layout)
    assert in_state(store, SlotState.DYING) == SHARDS, "somebody reads the one that gave way"
    assert len(reader.lookup_blocks([key_of(2)], last, LAYOUTS[2])) == SHARDS
    adds_up(store)


def test_a_lookup_ends_at_the_first_block_of_which_a_shard_is_missing(store: BlockStore, reader: ShardReader) -> None:
    assert put(store, 1, 2, 4) == [Outcome.STORED] * 3
    commit(store, 3, 0)
    assert len(found(reader, 1, 2, 3, 4)) == 2 * SHARDS
    assert [hit.generation % 2 for hit in found(reader, 4)] == [1] * SHARDS


def test_all_shards_are_leased_or_none(store: BlockStore, reader: ShardReader) -> None:
    put(store, 1)
    reader.quota = 3 * PAGE  # the third shard would be too much
    assert found(reader, 1) == []
    assert reader.leased_bytes == 0
    reader.quota = 5 * PAGE
    assert len(found(reader, 1)) == SHARDS
    assert reader.leased_bytes == 5 * PAGE


def test_a_rank_leases_what_another_process_found_by_slot_and_generation(
    store: BlockStore, reader: ShardReader, clock: Clock
) -> None:
    put(store, 1, 2)
    places = [(hit.slot, hit.generation) for hit in found(reader, 1, 2)]
    rank = ShardReader(store.memory, client=1, clock=clock)
    assert rank.lease_shard(places[0::SHARDS], Part(1, SHARDS), LAYOUTS[1]) == [], "of another shard"
    assert rank.lease_shard(places[2::SHARDS], Part(2, SHARDS), LAYOUTS[1]) == [], "of another layout"
    assert rank.lease_shard([(1 << 40, 1), (-1, 1)], Part(2, SHARDS), LAYOUTS[2]) == []
    own = rank.lease_shard(places[2::SHARDS], Part(2, SHARDS), LAYOUTS[2])
    for hit in own:
        into = memoryview(bytearray(hit.length))
        assert rank.copy(hit, into)
    assert bytes(into) == bytes_of(2, 2)
    slot, generation = places[2]
    store.remove([key_of(1)])
    assert rank.lease_shard([(slot, generation)], Part(2, SHARDS), LAYOUTS[2]) == [], "it is going"
    assert rank.lease_shard([(slot, generation + 2)], Part(2, SHARDS), LAYOUTS[2]) == []
    assert in_state(store, SlotState.DYING) == SHARDS, "the leases last"


def test_an_incomplete_block_is_given_up_two_seconds_after_its_first_shard(store: BlockStore, clock: Clock) -> None:
    commit(store, 1, 0)
    clock.now += WAIT_NS // 2
    commit(store, 1, 2)
    commit(store, 2, 2)
    clock.now += WAIT_NS // 2 - 1
    assert store.joiner.late() == []
    clock.now += 1
    assert store.joiner.late() == [key_of(1)]
    store.joiner.drop([key_of(1)])
    assert not store.joiner.waits(key_of(1))
    assert store.joiner.waits(key_of(2))
    assert in_state(store, SlotState.COMMITTED) == 1
    adds_up(store)
    assert commit(store, 1, 1) is None, "it begins anew"
    assert store.joiner.late() == []


def test_a_shard_that_waits_already_waits_in_one_slot(store: BlockStore) -> None:
    assert [commit(store, 1, 0), commit(store, 1, 0), commit(store, 1, 1)] == [None] * 3
    assert in_state(store, SlotState.COMMITTED) == 2
    assert commit(store, 1, 2) is Outcome.STORED
    assert commit(store, 1, 0) is Outcome.PRESENT
    adds_up(store)


def test_a_shard_that_is_none_of_the_block_is_refused_alone(store: BlockStore, clock: Clock) -> None:
    commit(store, 1, 0)
    assert commit(store, 1, 1, length=0) is Outcome.LAYOUT
    assert commit(store, 1, 1, length=PAGE + 1) is Outcome.LAYOUT
    [(slot, generation, _)] = store.grant_some(LAYOUTS[1], RANKS[1], 10**10, 1, Part(1, 2))
    assert store.commit_part(slot, generation, RANKS[1], key_of(1), PAGE, Part(1, 2)) is Outcome.LAYOUT
    [(slot, generation, _)] = store.grant_some(LAYOUTS[1], RANKS[1], 10**9, 1, Part(1, SHARDS))
    clock.now += 10**9
    late = [store.commit_part(slot, generation, RANKS[1], key_of(1), PAGE, Part(1, SHARDS)) for _ in range(2)]
    assert late == [Outcome.EXPIRED] * 2
    assert store.joiner.waits(key_of(1))
    assert in_state(store, SlotState.GRANTED) == 0
    assert [commit(store, 1, 1), commit(store, 1, 2)] == [None, Outcome.STORED]
    adds_up(store)


def test_a_block_that_is_there_otherwise_meanwhile_stays_and_the_shards_wait_for_their_time(
    store: BlockStore, clock: Clock
) -> None:
    commit(store, 1, 0)
    assert store.put(LAYOUTS[0], key_of(1), b"x" * 10) is Outcome.STORED
    assert commit(store, 1, 1) is Outcome.PRESENT
    clock.now += WAIT_NS
    store.joiner.drop(store.joiner.late())
    assert store.contains(key_of(1))
    adds_up(store)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_whatever_takes_out_a_shard_takes_out_the_block(store: BlockStore, reader: ShardReader, shard: int) -> None:
    put(store, 1, 2)
    hits = found(reader, 1)
    for hit in hits:
        reader.release(hit)
    damaged = hits[shard]
    store.memory.data(damaged.slot, damaged.slot_bytes, damaged.length)[7] ^= 1
    assert store.scrub(SMALL.slots).corrupt == 1
    assert not store.contains(key_of(1))
    assert in_state(store, SlotState.PUBLISHED) == SHARDS
    assert len(found(reader, 2)) == SHARDS
    adds_up(store)
    assert store.evict(LAYOUTS[shard], 1) == 0, "each shard is leased"
    assert in_state(store, SlotState.DYING) == SHARDS
    adds_up(store)


@pytest.mark.parametrize("word", [slots.SHARD, slots.NEXT, slots.KEY])
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_header_that_leads_elsewhere_is_no_hit_and_the_scrubber_takes_its_block_out(
    store: BlockStore, reader: ShardReader, word: int, shard: int
) -> None:
    put(store, 1, 2)
    slot = found(reader, 1)[shard].slot
    other = found(reader, 2)[0].slot
    store.memory.set_word(slot, word, other + 1)
    expected = SHARDS if (word, shard) == (slots.NEXT, SHARDS - 1) else 0  # nobody follows the last link
    assert len(found(reader, 1)) == expected
    assert walk(store.memory).complaints or expected
    store.scrub(SMALL.slots)
    assert in_state(store, SlotState.PUBLISHED) == SHARDS
    assert not store.contains(key_of(1))
    adds_up(store)


def test_a_full_store_evicts_whole_blocks_also_for_another_shard(store: BlockStore) -> None:
    assert put(store, *range(200)) == [Outcome.STORED] * 200
    adds_up(store)
    assert in_state(store, SlotState.PUBLISHED) % SHARDS == 0
    assert store.contains(key_of(199))


def test_a_new_worker_keeps_whole_blocks_and_frees_what_waited(store: BlockStore, clock: Clock) -> None:
    put(store, 1, 2)
    commit(store, 3, 0)
    commit(store, 3, 1)
    again = started(store.memory, clock)
    assert in_state(again, SlotState.COMMITTED) == 0
    assert again.books().attached.blocks == 2 * SHARDS
    adds_up(again)
    reader = ShardReader(store.memory, client=0, clock=clock)
    assert len(found(reader, 1, 2)) == 2 * SHARDS
    for hit in found(reader, 1, 2):
        reader.release(hit)
    assert again.remove([key_of(1)]) == 1
    assert in_state(again, SlotState.PUBLISHED) == SHARDS
    assert put(again, 3) == [Outcome.STORED]
    adds_up(again)
