"""Whatever a worker finds in memory: it serves, its books add up, and no reader gets a wrong byte."""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvberth.store.blockstore import BlockStore
from kvberth.store.layout.geometry import PAGE
from kvberth.store.memory import StoreMemory
from kvberth.store.reader import Reader
from kvberth.store.walk import walk
from support.store_memory import SMALL, content, key_of, small_memory

LAYOUT, OTHER = 11, 12
BLOCKS = 70


def filled() -> StoreMemory:
    memory = small_memory()
    store = BlockStore(memory)
    store.register(LAYOUT, PAGE)
    store.register(OTHER, 3 * PAGE)
    for number in range(BLOCKS):
        key = key_of(number)
        store.put(LAYOUT if number % 3 else OTHER, key, content(key, PAGE))
    return memory


def scribble(memory: StoreMemory, chance: random.Random, words: int) -> None:
    """Overwrites words of headers, extents' records and entries, with noise, small numbers or other words of theirs."""
    tables = [arena[PAGE : SMALL.data_at].cast("Q") for arena in memory.arenas] + [memory.entry_words]
    for _ in range(words):
        table = chance.choice(tables)
        value = chance.choice(
            [
                chance.getrandbits(63),
                2**64 - 1 - chance.randrange(3),
                chance.randrange(8),
                table[chance.randrange(len(table))],
            ]
        )
        table[chance.randrange(len(table))] = value


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 200))
def test_a_worker_takes_over_damaged_memory(seed: int, words: int) -> None:
    memory = filled()
    scribble(memory, random.Random(seed), words)
    store = BlockStore(memory)
    assert store.books().complaints(SMALL.data_bytes) == []
    reader = Reader(memory, client=0)
    for number in range(BLOCKS):
        for block in reader.read([key_of(number)]):
            assert block == content(key_of(number), PAGE)
    while store.scrub(SMALL.slots).more:
        pass
    walked = walk(memory)
    assert walked.states == store.books().states
    assert walked.complaints == ()
    assert store.books().complaints(SMALL.data_bytes) == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 200))
def test_a_reader_of_damaged_memory_gets_no_wrong_byte(seed: int, words: int) -> None:
    memory = filled()
    scribble(memory, random.Random(seed), words)
    reader = Reader(memory, client=0)
    for number in range(BLOCKS):
        for block in reader.read([key_of(number)]):
            assert block == content(key_of(number), PAGE)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 200))
@example(12201559, 100)
def test_a_worker_goes_on_while_somebody_scribbles(seed: int, words: int) -> None:
    memory = small_memory()
    store = BlockStore(memory)
    store.register(LAYOUT, PAGE)
    reader, chance = Reader(memory, client=0), random.Random(seed)
    for number in range(3 * BLOCKS):
        if number % 20 == 19:
            scribble(memory, chance, words // 20)
            while store.scrub(SMALL.slots).more:
                pass
        key = key_of(number)
        store.put(LAYOUT, key, content(key, PAGE))
        wanted = key_of(chance.randrange(number + 1))
        for block in reader.read([wanted]):
            assert block == content(wanted, PAGE)
    store.remove([key_of(number) for number in range(3 * BLOCKS)])
    books = store.books()
    assert books.complaints(SMALL.data_bytes) == []
