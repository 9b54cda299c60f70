"""Who gets an extent, and whose blocks go for it."""

from hypothesis import given
from hypothesis import strategies as st

from kvberth.store.space import EvictOwn, ExtentUse, Full, Take, choose

MINE, OTHER = 1, 2


def use(extent: int, layout: int, live: int = 4, pinned: int = 0, slot_bytes: int = 10) -> ExtentUse:
    return ExtentUse(extent, layout, live, pinned, slot_bytes)


def test_an_extent_of_nobody_comes_first() -> None:
    assert choose(MINE, [use(0, MINE), use(1, OTHER, live=0)], [5, 6]) == Take(5)


def test_an_empty_extent_of_another_layout_comes_next() -> None:
    assert choose(MINE, [use(0, MINE), use(2, OTHER, live=0), use(1, OTHER, live=0)], []) == Take(1)


def test_a_layout_below_its_share_takes_the_extent_with_the_fewest_live_bytes() -> None:
    extents = [use(0, MINE), use(1, OTHER, 9), use(2, OTHER, 3, slot_bytes=99), use(3, OTHER, 8), use(4, OTHER, 9)]
    assert choose(MINE, extents, []) == Take(3)


def test_a_layout_at_its_share_evicts_its_own_blocks() -> None:
    extents = [use(0, MINE), use(1, MINE), use(2, OTHER, 1), use(3, OTHER, 1)]
    assert choose(MINE, extents, []) == EvictOwn()


def test_a_layouts_last_extents_stay_with_it() -> None:
    assert choose(MINE, [use(0, MINE), use(1, OTHER), use(2, OTHER)], []) == EvictOwn()


def test_layouts_that_cannot_have_equally_many_leave_each_other_alone() -> None:
    extents = [use(at, MINE) for at in range(3)] + [use(at, OTHER, 1) for at in range(3, 7)]
    assert choose(MINE, extents, []) == EvictOwn()
    assert choose(MINE, [*extents, use(7, OTHER)], []) == Take(3)


def test_a_layout_with_nothing_gets_one_although_they_are_another_layouts_last() -> None:
    assert choose(MINE, [use(1, OTHER, 5), use(2, OTHER, 2)], []) == Take(2)
    assert choose(MINE, [use(1, OTHER)], []) == Full()


def test_what_somebody_writes_or_reads_stays() -> None:
    extents = [
        use(0, MINE, live=0, pinned=4),
        use(1, OTHER, pinned=1),
        use(2, OTHER, pinned=1),
        use(3, OTHER, pinned=1),
    ]
    assert choose(MINE, extents, []) == Full()


uses = st.lists(
    st.builds(ExtentUse, st.integers(0, 99), st.integers(1, 4), st.integers(0, 9), st.integers(0, 2), st.just(10)),
    max_size=12,
    unique_by=lambda each: each.extent,
)


@given(st.integers(1, 5), uses, st.lists(st.integers(100, 110), max_size=2))
def test_nothing_pinned_is_ever_taken_and_room_of_nobody_is_never_left(
    layout: int, extents: list[ExtentUse], free: list[int]
) -> None:
    choice = choose(layout, extents, free)
    by_number = {each.extent: each for each in extents}
    if isinstance(choice, Take) and choice.extent not in free:
        assert not free
        assert not by_number[choice.extent].pinned
        assert by_number[choice.extent].layout != layout
    if isinstance(choice, EvictOwn):
        assert any(each.live for each in extents if each.layout == layout)
    if free:
        assert isinstance(choice, Take)
