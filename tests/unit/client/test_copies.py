"""The plan of copies: every byte once, from where it lies to where it belongs, in as few pieces as can be."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvberth.client.copies import Piece, Shape, parts, pieces
from kvberth.client.host import HostRegions, Place

BLOCKS, SLOT = 9, 96
SHAPES = st.lists(st.tuples(st.integers(1, 24), st.integers(0, 8)), min_size=1, max_size=3)


@settings(deadline=None)
@given(shapes=SHAPES, data=st.data())
def test_the_pieces_move_what_copies_in_host_memory_move(shapes, data: st.DataObject) -> None:
    random = np.random.default_rng(0)
    wholes = [random.integers(1, 255, (BLOCKS, size + gap), np.uint8) for size, gap in shapes]
    regions = [Shape(size, size + gap) for size, gap in shapes]
    blocks = data.draw(st.lists(st.integers(0, BLOCKS - 1), min_size=1, unique=True))
    slots = data.draw(st.permutations(range(2 * BLOCKS)))[: len(blocks)]
    places = [Place(slot % 2, slot // 2 * SLOT) for slot in slots]
    expected, found = ([np.zeros(BLOCKS * SLOT, np.uint8) for _ in range(2)] for _ in range(2))
    views = [whole[:, :size] for whole, (size, _) in zip(wholes, shapes, strict=True)]
    HostRegions(views).store(blocks, expected, places)
    for region, start, arena, offset, size in pieces(regions, blocks, places):
        assert (found[arena][offset : offset + size] == 0).all(), "each byte once"
        found[arena][offset : offset + size] = wholes[region].reshape(-1)[start : start + size]
    assert all((one == other).all() for one, other in zip(expected, found, strict=True))


def test_blocks_that_follow_each_other_on_both_sides_are_one_piece() -> None:
    places = [Place(0, 4096 + at * 64) for at in range(4)]
    assert pieces([Shape(64, 64)], [2, 3, 4, 5], places) == [Piece(0, 128, 0, 4096, 256)]
    assert len(pieces([Shape(64, 64)], [2, 3, 5, 4], places)) == 3
    assert len(pieces([Shape(64, 80)], [2, 3, 4, 5], places)) == 4
    assert len(pieces([Shape(32, 32), Shape(32, 32)], [2, 3], places[:2])) == 4
    assert len(pieces([Shape(64, 64)], [2, 3], [Place(0, 0), Place(1, 64)])) == 2


def test_parts_cover_a_whole_and_end_where_the_address_is_a_multiple() -> None:
    assert list(parts(8, 10, 4)) == [(0, 4), (4, 4), (8, 2)]
    assert list(parts(0, 8, 4)) == [(0, 4), (4, 4)]
    assert list(parts(6, 10, 4)) == [(0, 2), (2, 4), (6, 4)]
    assert list(parts(5, 2, 4)) == [(0, 2)]
    assert list(parts(5, 0, 4)) == []
