"""When storing blocks is worth it, and what is done where it is not."""

import pytest

from kvberth.client.governor import Average, Governor


def governor(computing=None, storing=None, loading=None, *, stored=64, loaded=64, on=True):
    """One that has measured so many blocks, in milliseconds each."""
    made = Governor(on=on)
    if computing is not None:
        made.computed(64, 64 * computing / 1e3)
    if storing is not None:
        made.stored(stored, stored * storing / 1e3)
    if loading is not None:
        made.loaded(loaded, loaded * loading / 1e3)
    return made


@pytest.mark.parametrize(
    ("computing", "storing", "loading", "shed"),
    [
        (10.0, 1.0, 1.0, False),
        (1.0, 2.0, 0.1, True),
        (10.0, 1.0, 11.0, True),
        (10.0, 6.0, 5.0, True),
        (10.0, 4.0, 5.0, False),
        (10.0, 12.0, None, True),
        (10.0, None, 20.0, False),
        (None, 100.0, 100.0, False),
    ],
)
def test_blocks_are_shed_where_storing_costs_more_than_loading_saves(computing, storing, loading, shed):
    found = governor(computing, storing, loading)
    assert (found.why is not None, found.sheds(1)) == (shed, shed)


def test_blocks_that_are_hardly_ever_loaded_are_shed_and_those_that_are_loaded_often_are_not():
    seldom = governor(10.0, 1.0, 1.0, stored=4000, loaded=64)
    assert seldom.why == "Storing a block takes 1000 us and saves 283: it is loaded 0.031 times."
    often = governor(1.5, 3.0, 0.5, stored=64, loaded=64)
    assert often.sheds(1)
    often.loaded(640, 640 * 0.5e-3)
    assert not often.sheds(1)


def test_a_cost_that_wavers_about_what_is_saved_turns_nothing_on_and_off():
    wavering = governor(10.0, 9.5, 1.0)
    seen = []
    for each in (9.5, 8.5, 9.5, 8.5):
        wavering.stored(400, 400 * each / 1e3)
        seen.append(wavering.why is not None)
    assert seen == [True] * 4
    wavering.stored(400, 400 * 6.0 / 1e3)
    assert wavering.why is None


def test_some_blocks_are_let_in_while_the_others_are_shed():
    shedding = governor(1.0, 2.0)
    passed = sum(16 for _ in range(640) if not shedding.sheds(16))
    assert passed == 640 * 16 // 32


def test_offers_of_unequal_size_are_let_in_in_the_same_part_and_nothing_offered_changes_none():
    shedding = governor(1.0, 2.0)
    offers = [1, 64, 0] * 10_000
    passed = sum(blocks for blocks in offers if not shedding.sheds(blocks))
    assert abs(passed - sum(offers) / 32) <= 64


def test_the_part_that_is_let_in_tells_nothing_of_how_often_blocks_are_loaded():
    """A piece of a prompt whose beginning was shed is never found, however often the prompt comes again."""
    shedding = governor(10.0, 9.0, 1.0, stored=4000, loaded=64)
    before = shedding.reuse
    shedding.stored(8, 8 * 9e-3)
    assert (shedding.reuse, shedding.why is not None) == (before, True)
    for _ in range(2000):
        if shedding.why is not None:
            shedding.stored(8, 8 * 9e-3)
            shedding.loaded(4, 4 * 1e-3)
    assert shedding.why is None, "beginnings of prompts are loaded again and again: storing pays"


def test_one_that_is_switched_off_sheds_nothing():
    assert governor(0.1, 50.0, 50.0, on=False).why is None


def test_what_changed_long_ago_counts_no_more():
    found = governor(10.0, 1.0, 1.0, stored=8000, loaded=64)
    assert found.why is not None
    for _ in range(40):
        found.stored(500, 500 * 1e-3)
        found.loaded(500, 500 * 1e-3)
    assert found.reuse > 0.9
    assert found.why is None


def test_a_group_weighs_as_its_blocks_together():
    one, many = Average(1.0), Average(1.0)
    for _ in range(16):
        one.take(2.0, 1)
    many.take(32.0, 16)
    assert one.value == pytest.approx(many.value)
    many.take(5.0, 0)
    assert one.value == pytest.approx(many.value)
