"""Blocks copied between arrays and slots: every piece to its place, whatever the layout and the order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvberth.client.host import HostRegions, Place

BLOCKS, SLOT = 12, 4096


def contiguous() -> list[np.ndarray]:
    return [np.zeros((BLOCKS, 500), dtype=np.float64)]


def paged() -> list[np.ndarray]:
    """Two layers of (keys and values, blocks, tokens, head) as paged attention has them."""
    layers = [np.zeros((2, BLOCKS, 4, 2, 8), dtype=np.float16) for _ in range(2)]
    return [layer[part] for layer in layers for part in (0, 1)]


def interleaved() -> list[np.ndarray]:
    """Blocks that lie apart: between two of them is somebody else's."""
    whole = np.zeros((BLOCKS, 3, 64), dtype=np.int32)
    return [whole[:, 0], whole[:, 2]]


def blocks_of(arrays: list[np.ndarray], block: int) -> bytes:
    return b"".join(array[block].tobytes() for array in arrays)


@pytest.mark.parametrize("layout", [contiguous, paged, interleaved])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_block_that_was_stored_is_loaded_into_any_other_block(layout, data: st.DataObject) -> None:
    arrays = layout()
    regions = HostRegions(arrays)
    assert regions.block_bytes == len(blocks_of(arrays, 0)) <= SLOT
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    for array in arrays:
        array[:] = random.integers(0, 100, array.shape)
    blocks = data.draw(st.lists(st.integers(0, BLOCKS - 1), min_size=1, max_size=BLOCKS, unique=True))
    slots = data.draw(st.permutations(range(2 * BLOCKS)))[: len(blocks)]
    arenas = [np.full(BLOCKS * SLOT, 0xEE, dtype=np.uint8) for _ in range(2)]
    places = [Place(slot % 2, slot // 2 * SLOT) for slot in slots]
    regions.store(blocks, arenas, places)
    for block, place in zip(blocks, places, strict=True):
        stored = arenas[place.arena][place.offset : place.offset + SLOT].tobytes()
        assert stored[: regions.block_bytes] == blocks_of(arrays, block)
        assert set(stored[regions.block_bytes :]) <= {0xEE}
    before = [blocks_of(arrays, block) for block in blocks]
    others = {block: blocks_of(arrays, block) for block in range(BLOCKS)}
    targets = data.draw(st.permutations(range(BLOCKS)))[: len(blocks)]
    regions.load(targets, arenas, places)
    assert [blocks_of(arrays, target) for target in targets] == before
    assert all(blocks_of(arrays, block) == others[block] for block in range(BLOCKS) if block not in targets)


@pytest.mark.parametrize("steps", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [0, 2, 4, 6, 8]])
def test_blocks_and_slots_that_follow_each_other_are_one_call_a_region(monkeypatch, steps: list[int]) -> None:
    regions = HostRegions(paged())
    calls = []
    monkeypatch.setattr(np, "copyto", lambda to, _: calls.append(to.shape))
    regions.store(steps, [np.zeros(BLOCKS * SLOT, dtype=np.uint8)], [Place(0, at * SLOT) for at in range(5)])
    assert calls == [(5, 128)] * 4


def test_one_block_may_be_stored_twice_in_one_call() -> None:
    arrays = contiguous()
    arrays[0][:] = np.arange(BLOCKS)[:, None]
    arena = np.zeros(BLOCKS * SLOT, dtype=np.uint8)
    HostRegions(arrays).store([3, 3, 3, 4], [arena], [Place(0, at * SLOT) for at in range(4)])
    assert [arena[at * SLOT : at * SLOT + 8].view(np.float64)[0] for at in range(4)] == [3, 3, 3, 4]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(10),
        np.zeros((4, 0)),
        np.zeros((4, 6, 8)).transpose(0, 2, 1),
        np.zeros((4, 16))[:, ::2],
    ],
)
def test_a_block_that_does_not_lie_in_a_row_is_refused(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match="in a row"):
        HostRegions([array])


def test_a_layout_has_a_region_and_a_block_a_number_in_it() -> None:
    with pytest.raises(ValueError, match="at least one region"):
        HostRegions([])
    for block in (-1, BLOCKS):
        with pytest.raises(IndexError, match="there is no block"):
            HostRegions(contiguous()).check([0, block])
