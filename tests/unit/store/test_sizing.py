"""How a store is cut that is to hold so many bytes of blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth.store.errors import LayoutRefused
from kvberth.store.layout.sizing import MIN_BLOCK_BYTES, geometry_for

MI = 1 << 20


@given(st.integers(MIN_BLOCK_BYTES, 1 << 40))
def test_a_store_holds_what_was_asked_for_and_less_than_an_extent_more_for_each_arena(block_bytes: int) -> None:
    geometry = geometry_for(block_bytes)
    geometry.check()
    assert block_bytes <= geometry.data_bytes < block_bytes + geometry.arenas * geometry.extent_bytes
    assert geometry.extents >= 8
    assert geometry.data_at + geometry.extents_per_arena * geometry.extent_bytes == geometry.arena_bytes


@pytest.mark.parametrize("block_bytes", [MIN_BLOCK_BYTES - 1, 0, (1 << 40) + 64 * MI])
def test_a_size_that_no_store_has_is_refused(block_bytes: int) -> None:
    with pytest.raises(LayoutRefused):
        geometry_for(block_bytes)
