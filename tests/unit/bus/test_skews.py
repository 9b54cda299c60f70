"""What is told of other clocks: the truth as near as signs of life show it, and no alarm for what was only late."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth.bus.skews import TOLD_FROM_S, Skews, sentence
from kvberth_schemas.subjects import AliveSubject, Service

AGENT = AliveSubject(Service.NODE_AGENT, "host-1", "l20-a")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def after(skew_s: float, delays_s: list[float]) -> Skews:
    """Give what is known after signs of life that took so long to come."""
    skews = Skews()
    for second, delay_s in enumerate(delays_s):
        sent = NOON + timedelta(seconds=second)
        received = sent + timedelta(seconds=delay_s)
        skews.hear(AGENT, sent + timedelta(seconds=skew_s), received, second + delay_s)
    return skews


@pytest.mark.parametrize("skew_s", [420.0, -420.0, -3600.0])
def test_a_clock_that_is_far_off_is_told_by_how_much(skew_s: float) -> None:
    assert after(skew_s, [0.001, 0.3, 0.002]).told() == {AGENT: pytest.approx(skew_s, abs=0.01)}


@given(st.lists(st.floats(0, 60), min_size=7, max_size=7), st.floats(-1.5, 1.9))
def test_what_is_only_late_is_no_skew_as_long_as_one_of_eight_came_at_once(delays: list[float], skew_s: float) -> None:
    assert after(skew_s, [*delays, 0.0]).told() == {}


def test_two_signs_of_life_are_too_few() -> None:
    assert after(420.0, [0.0, 0.0]).told() == {}


def test_what_was_held_up_together_while_the_reader_stood_still_is_no_skew() -> None:
    skews = after(0.0, [0.0] * 8)
    resumed = NOON + timedelta(seconds=28)
    for beat in range(8, 26):  # all that came in a pause of 20 s, but for the last two
        skews.hear(AGENT, NOON + timedelta(seconds=beat), resumed, 28.0 + beat / 1000)
    assert not skews.told()
    fresh = Skews()
    for beat in range(3):
        fresh.hear(AGENT, NOON + timedelta(seconds=beat), resumed, 28.0 + beat / 1000)
    assert not fresh.told()


def test_beats_that_come_often_still_tell_of_a_skew() -> None:
    skews = Skews()
    for beat in range(8):
        skews.hear(AGENT, NOON + timedelta(seconds=420), NOON, beat * 0.3)
    assert skews.told() == {AGENT: 420.0}


def test_who_falls_silent_is_told_no_longer() -> None:
    skews = after(420.0, [0.0] * 3)
    skews.forget(10.0)
    assert skews.told()
    skews.forget(20.0)
    assert not skews.told()


def test_a_clock_that_was_set_right_is_told_no_longer() -> None:
    skews = after(420.0, [0.0] * 3)
    for second in range(8):
        skews.hear(AGENT, NOON, NOON, 3.0 + second)
    assert not skews.told()


def test_the_sentence_says_whose_clock_it_is_and_which_way() -> None:
    assert "node_agent on l20-a (host-1) is 420 s ahead of" in sentence(AGENT, 420.2)
    assert "is 3600 s behind this" in sentence(AGENT, -3600.0)
    assert TOLD_FROM_S > 1.9
