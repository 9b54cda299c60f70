"""The store on memory of this process, step by step."""

import pytest

from kvberth.store.blockstore import BlockStore
from kvberth.store.errors import EpochEnded, LayoutRefused
from kvberth.store.layout import slots
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.store.layout.superblock import Checksum
from kvberth.store.memory import StoreMemory
from kvberth.store.reader import LEASE_NS, Reader
from kvberth.store.walk import walk
from support.store_memory import SMALL, Clock, content, key_of, small_memory

LAYOUT, OTHER = 11, 12
CLIENT = b"client number 1."
SECOND = 10**9
ALL_PAGES = SMALL.extents * 16


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory() -> StoreMemory:
    return small_memory()


@pytest.fixture
def store(memory: StoreMemory, clock: Clock) -> BlockStore:
    store = BlockStore(memory, clock=clock)
    store.register(LAYOUT, PAGE)
    return store


@pytest.fixture
def reader(memory: StoreMemory, clock: Clock) -> Reader:
    return Reader(memory, client=0, clock=clock)


def put(store: BlockStore, *numbers: int, layout: int = LAYOUT, length: int = PAGE) -> list[Outcome]:
    return [store.put(layout, key_of(number), content(key_of(number), length)) for number in numbers]


def test_a_block_that_was_put_is_read_in_other_words_the_same_bytes(store: BlockStore, reader: Reader) -> None:
    assert put(store, 1, 2, length=1000) == [Outcome.STORED, Outcome.STORED]
    assert reader.read([key_of(1), key_of(2)]) == [content(key_of(1), 1000), content(key_of(2), 1000)]
    assert store.contains(key_of(1))


def test_a_get_returns_the_leading_run_only(store: BlockStore, reader: Reader) -> None:
    put(store, 1, 2, 4)
    keys = [key_of(number) for number in (1, 2, 3, 4)]
    assert len(reader.read(keys)) == 2
    assert len(Reader(store.memory).read(keys)) == 2
    assert reader.leased_bytes == 0


def test_a_block_that_is_there_is_not_stored_again(store: BlockStore) -> None:
    assert put(store, 1, 1) == [Outcome.STORED, Outcome.PRESENT]
    assert store.books().published.blocks == 1


@pytest.mark.parametrize("length", [0, PAGE + 1])
def test_a_block_that_fits_no_slot_is_dropped(store: BlockStore, length: int) -> None:
    assert put(store, 1, length=length) == [Outcome.LAYOUT]
    assert store.books().states[SlotState.GRANTED].blocks == 0


def test_a_full_store_evicts_the_least_recently_used(store: BlockStore) -> None:
    put(store, *range(ALL_PAGES))
    assert store.contains(key_of(0))
    assert put(store, 1000) == [Outcome.STORED]
    assert store.contains(key_of(0))
    assert not store.contains(key_of(1))
    assert store.books().complaints(SMALL.data_bytes) == []


def test_one_more_block_evicts_a_small_part_of_what_is_stored_however_few_blocks_a_store_has(store: BlockStore) -> None:
    put(store, *range(ALL_PAGES))
    assert put(store, ALL_PAGES) == [Outcome.STORED]
    left = store.books().states[SlotState.PUBLISHED].blocks
    assert left > ALL_PAGES * 9 // 10
    assert all(store.contains(key_of(number)) for number in range(ALL_PAGES + 1 - left, ALL_PAGES + 1))


def test_a_leased_block_is_not_reused_until_its_lease_ends(store: BlockStore, reader: Reader, clock: Clock) -> None:
    put(store, 1)
    [hit] = reader.lookup([key_of(1)])
    assert store.evict(LAYOUT) == 0
    assert store.books().states[SlotState.DYING].blocks == 1
    into = memoryview(bytearray(PAGE))
    assert reader.copy(hit, into)
    assert bytes(into) == content(key_of(1), PAGE)
    assert reader.lookup([key_of(1)]) == []
    reader.release(hit)
    assert store.reap() == 1


def test_a_lease_that_is_never_released_ends_by_itself(store: BlockStore, reader: Reader, clock: Clock) -> None:
    put(store, 1)
    [hit] = reader.lookup([key_of(1)])
    store.evict(LAYOUT)
    clock.now += LEASE_NS - 1
    assert store.reap() == 0
    clock.now += SECOND
    assert store.reap() == 1
    put(store, *range(100, 100 + ALL_PAGES))
    assert not reader.copy(hit, memoryview(bytearray(PAGE)))


def test_all_blocks_leased_means_full_and_no_slot_is_taken_from_a_reader(store: BlockStore, reader: Reader) -> None:
    put(store, *range(ALL_PAGES))
    run = reader.lookup([key_of(number) for number in range(ALL_PAGES)])
    assert len(run) == ALL_PAGES
    assert put(store, 1000) == [Outcome.STORE_FULL]
    for hit in run:
        reader.release(hit)
    assert put(store, 1000) == [Outcome.STORED]


def test_a_reader_leases_no_more_than_it_may(store: BlockStore, memory: StoreMemory, clock: Clock) -> None:
    put(store, 1, 2, 3)
    reader = Reader(memory, client=1, lease_bytes=2 * PAGE, clock=clock)
    assert len(reader.lookup([key_of(1), key_of(2), key_of(3)])) == 2


def test_what_is_being_read_goes_last(store: BlockStore, reader: Reader) -> None:
    put(store, *range(ALL_PAGES))
    hits = reader.lookup([key_of(number) for number in range(3)])
    assert store.note_reads() == 3
    for hit in hits:
        reader.release(hit)
    assert store.evict(LAYOUT, ALL_PAGES - 3) == ALL_PAGES - 3
    assert all(store.contains(key_of(number)) for number in range(3))


def test_a_late_commit_is_refused_and_its_slot_is_free_then(store: BlockStore, clock: Clock) -> None:
    granted = store.grant(LAYOUT, CLIENT, SECOND)
    assert granted is not None
    clock.now += SECOND
    assert store.expire() == 1
    assert store.books().states[SlotState.QUARANTINED].blocks == 1
    assert store.commit(granted.slot, granted.generation, CLIENT, key_of(1), PAGE) is Outcome.EXPIRED
    assert store.books().states[SlotState.QUARANTINED].blocks == 0
    assert store.commit(granted.slot, granted.generation, CLIENT, key_of(1), PAGE) is Outcome.EXPIRED
    assert not store.contains(key_of(1))


def test_nobody_else_commits_into_a_granted_slot(store: BlockStore) -> None:
    granted = store.grant(LAYOUT, CLIENT, SECOND)
    assert granted is not None
    assert store.commit(granted.slot, granted.generation, CLIENT[::-1], key_of(1), PAGE) is Outcome.EXPIRED
    assert store.commit(granted.slot, granted.generation + 2, CLIENT, key_of(1), PAGE) is Outcome.EXPIRED
    assert store.commit(granted.slot, granted.generation, CLIENT, key_of(1), PAGE) is Outcome.STORED


def test_a_quarantined_slot_is_lent_to_nobody_until_its_holder_is_gone(store: BlockStore, clock: Clock) -> None:
    granted = [store.grant(LAYOUT, CLIENT, SECOND) for _ in range(ALL_PAGES)]
    assert all(granted)
    assert store.grant(LAYOUT, CLIENT, SECOND) is None
    clock.now += SECOND
    assert store.expire() == ALL_PAGES
    assert put(store, 1) == [Outcome.STORE_FULL]
    assert store.drop_holder(CLIENT) == ALL_PAGES
    assert put(store, 1) == [Outcome.STORED]


def test_a_damaged_block_is_no_hit_and_the_scrubber_takes_it_out(store: BlockStore, reader: Reader) -> None:
    put(store, 1, 2)
    hit = reader.find(key_of(1))
    assert hit is not None
    store.memory.data(hit.slot, PAGE, PAGE)[7] ^= 1
    assert reader.read([key_of(1), key_of(2)]) == []
    scrubbed = store.scrub(SMALL.slots)
    assert (scrubbed.checked, scrubbed.corrupt, scrubbed.more) == (2, 1, False)
    assert scrubbed.bytes == 2 * PAGE
    assert not store.contains(key_of(1))
    assert store.contains(key_of(2))
    assert store.books().corrupt == 1


def test_the_scrubber_counts_what_it_reads_and_no_more(store: BlockStore) -> None:
    assert store.put(LAYOUT, key_of(1), b"x" * 100) is Outcome.STORED
    assert store.scrub(SMALL.slots).bytes == 100


def test_without_checksums_the_copy_is_the_same(clock: Clock) -> None:
    store = BlockStore(small_memory(checksum=Checksum.NONE), clock=clock)
    store.register(LAYOUT, PAGE)
    put(store, 1)
    assert store.scrub(SMALL.slots).bytes == 0
    assert Reader(store.memory, client=0, clock=clock).read([key_of(1)]) == [content(key_of(1), PAGE)]


def test_a_new_worker_finds_what_the_killed_one_left(store: BlockStore, clock: Clock) -> None:
    put(store, 1, 2)
    granted = store.grant(LAYOUT, CLIENT, SECOND)
    assert granted is not None
    again = BlockStore(store.memory, clock=clock)
    books = again.books()
    assert (books.attached.blocks, books.states[SlotState.QUARANTINED].blocks) == (2, 1)
    assert books.complaints(SMALL.data_bytes) == []
    assert Reader(store.memory, client=0, clock=clock).read([key_of(2)]) == [content(key_of(2), PAGE)]
    assert again.commit(granted.slot, granted.generation, CLIENT, key_of(3), PAGE) is Outcome.EXPIRED
    assert walk(store.memory).complaints == ()


def test_an_ended_epoch_answers_nothing(store: BlockStore, reader: Reader) -> None:
    put(store, 1)
    hit = reader.find(key_of(1))
    assert hit is not None
    store.memory.end_epoch()
    for call in (lambda: reader.find(key_of(1)), lambda: put(store, 2), lambda: BlockStore(store.memory)):
        with pytest.raises(EpochEnded):
            call()
    assert not reader.copy(hit, memoryview(bytearray(PAGE)))


def test_an_extent_goes_to_the_layout_that_has_too_few(store: BlockStore) -> None:
    put(store, *range(ALL_PAGES))
    store.register(OTHER, 4 * PAGE)
    outcomes = put(store, *range(1000, 1004), layout=OTHER, length=4 * PAGE)
    assert outcomes == [Outcome.STORED] * 4
    assert store.books().complaints(SMALL.data_bytes) == []
    assert walk(store.memory).complaints == ()
    put(store, *range(2000, 2000 + 3 * ALL_PAGES))
    assert [store.contains(key_of(number)) for number in range(1000, 1004)] == [True] * 4


def test_a_layout_with_too_few_takes_no_extent_that_is_read(store: BlockStore, reader: Reader) -> None:
    put(store, *range(ALL_PAGES))
    assert len([hit for number in (0, 16, 32) for hit in reader.lookup([key_of(number)])]) == 3
    store.register(OTHER, 4 * PAGE)
    assert put(store, 1000, layout=OTHER, length=4 * PAGE) == [Outcome.STORED]
    assert sum(store.contains(key_of(number)) for number in range(ALL_PAGES)) == ALL_PAGES - 16
    assert store.books().complaints(SMALL.data_bytes) == []


def test_nothing_is_evicted_for_a_layout_that_can_get_no_extent_as_all_are_read(
    store: BlockStore, reader: Reader
) -> None:
    put(store, *range(ALL_PAGES))
    hits = [hit for extent in range(SMALL.extents) for hit in reader.lookup([key_of(16 * extent)])]
    store.register(OTHER, 4 * PAGE)
    assert put(store, 1000, layout=OTHER, length=4 * PAGE) == [Outcome.STORE_FULL]
    assert all(store.contains(key_of(number)) for number in range(ALL_PAGES))
    for hit in hits:
        reader.release(hit)
    assert put(store, 1000, layout=OTHER, length=4 * PAGE) == [Outcome.STORED]


def test_bytes_of_any_format_are_stored_and_what_is_no_row_of_bytes_costs_no_slot(store: BlockStore) -> None:
    words = memoryview(content(key_of(1), PAGE)).cast("I")
    assert store.put(LAYOUT, key_of(1), words) == Outcome.STORED
    assert Reader(store.memory).read([key_of(1)]) == [content(key_of(1), PAGE)]
    assert store.put(LAYOUT, key_of(2), memoryview(bytes(2 * PAGE)).cast("I")) == Outcome.LAYOUT
    with pytest.raises(TypeError):
        store.put(LAYOUT, key_of(2), memoryview(bytes(PAGE))[::2])
    assert store.books().states[SlotState.GRANTED].blocks == 0
    assert put(store, *range(100, 100 + ALL_PAGES - 1)) == [Outcome.STORED] * (ALL_PAGES - 1)
    assert store.contains(key_of(1))


def test_a_layout_has_one_size_of_slots(store: BlockStore) -> None:
    assert store.register(LAYOUT, 1) == PAGE
    for layout, size in ((LAYOUT, PAGE + 1), (OTHER, 0), (OTHER, 17 * PAGE), (0, PAGE)):
        with pytest.raises(LayoutRefused):
            store.register(layout, size)


def test_an_entry_of_the_index_that_its_slot_denies_is_no_hit(store: BlockStore, reader: Reader) -> None:
    put(store, 1)
    hit = reader.find(key_of(1))
    assert hit is not None
    store.memory.put_body(store.memory.place(hit.slot), slots.KEY, key_of(2))
    assert reader.find(key_of(1)) is None
    assert walk(store.memory).complaints
    assert not store.contains(key_of(1))
