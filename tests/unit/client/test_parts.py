"""What a scheduler found travels as bytes or by pickle, and what is no such thing is refused."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth.client import Client, Found, Parts
from kvberth.client.keys import Namespace
from kvberth.store.reader import Hit

words = st.integers(0, 2**64 - 1)
parts = st.integers(1, 4).flatmap(
    lambda shards: st.builds(
        Parts,
        st.binary(min_size=16, max_size=16),
        st.just(shards),
        st.lists(st.lists(st.tuples(words, words), min_size=shards, max_size=shards), max_size=4).map(
            lambda blocks: tuple(place for block in blocks for place in block)
        ),
    )
)


@given(parts)
def test_parts_travel_unchanged(sent: Parts) -> None:
    assert Parts.from_bytes(bytes(sent)) == pickle.loads(pickle.dumps(sent)) == sent
    assert [len(sent.of(shard)) for shard in range(sent.shards)] == [len(sent)] * sent.shards


@given(parts, st.integers(0, 200), st.binary(max_size=40))
def test_what_is_cut_off_or_changed_is_refused_or_means_as_many_places(sent: Parts, end: int, tail: bytes) -> None:
    data = bytes(sent)[:end] + tail
    try:
        read = Parts.from_bytes(data)
    except ValueError:
        return
    assert bytes(read) == data
    assert len(read) * read.shards == len(read.places)


def test_what_was_found_tells_its_places_block_by_block() -> None:
    hits = tuple(Hit(bytes(32), slot, 2 * slot + 1, 1, 1, 0) for slot in (5, 7, 6, 9))
    found = Found(hits, 1, 2, b"e" * 16)
    assert len(found) == 2
    assert found.parts == Parts(b"e" * 16, 2, ((5, 11), (7, 15), (6, 13), (9, 19)))
    assert found.parts.of(1) == ((7, 15), (9, 19))
    assert len(Found(shards=2).parts) == 0


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Client]:
    """Shard 1 of 2, beside no worker."""
    with Client(tmp_path, [np.zeros((8, 64), dtype=np.uint8)], {"model": "m"}, shard=1, shards=2) as made:
        yield made


def test_wrong_arguments_raise(tmp_path: Path, rank: Client) -> None:
    facts, regions = {"model": "m"}, [np.zeros((8, 64), dtype=np.uint8)]
    for shard, shards in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="none has number"):
            Client(tmp_path, regions, facts, shard=shard, shards=shards)
    with pytest.raises(ValueError, match="at least one region"):
        Client(tmp_path, [], facts)
    with pytest.raises(ValueError, match="blocks of 3 shards were found"):
        rank.lease(Parts(shards=3))
    assert len(rank.lease(Parts(shards=2))) == 0


def test_a_scheduler_without_a_cache_finds_nothing_and_has_no_block(tmp_path: Path, rank: Client) -> None:
    with Client(tmp_path, [], {"model": "m"}, shards=2) as scheduler:
        assert not scheduler.wait_connected(0)
        found = scheduler.lookup([bytes(32)])
        assert len(rank.lease(found.parts)) == 0
        assert (len(found), scheduler.load(found, [])) == (0, 0)
        with pytest.raises(IndexError):
            scheduler.offload([bytes(32)], [0])


def test_ranks_have_the_same_keys_whatever_their_regions_and_others_than_whole_blocks(rank: Client) -> None:
    names = [
        Namespace(bytes(32), regions, shards=shards) for regions, shards in (((1,), 2), ((3,), 2), ((1,), 1), ((1,), 3))
    ]
    keys = [name.stored(bytes(32)) for name in names]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    word = rank.reset()
    before = rank._names.stored(bytes(32))
    assert rank.reset() != word
    assert rank._names.stored(bytes(32)) != before
    assert rank.reset(word) == word
    assert rank._names.stored(bytes(32)) == before
