"""Whatever an engine measures: nothing is shed that it did not ask about, and never all of it."""

from hypothesis import given
from hypothesis import strategies as st

from kvberth.client.governor import Governor

SECONDS = st.floats(0, 10, allow_nan=False)
STEPS = st.lists(st.tuples(st.sampled_from(["stored", "loaded"]), st.integers(0, 64), SECONDS), max_size=30)


def after(steps, computing=None, *, on=True):
    made = Governor(on=on)
    if computing is not None:
        made.computed(1, computing)
    for what, blocks, seconds in steps:
        getattr(made, what)(blocks, seconds)
    return made


@given(STEPS, SECONDS)
def test_without_a_word_of_what_computing_costs_or_switched_off_nothing_is_shed(steps, computing):
    assert not after(steps).sheds(1)
    assert not after(steps, computing, on=False).sheds(1)


@given(STEPS, SECONDS, st.floats(0, 10))
def test_what_is_worth_storing_is_all_the_more_so_where_computing_costs_more(steps, computing, more):
    if after(steps, computing).why is None:
        assert after(steps, computing + more).why is None


@given(STEPS, SECONDS, st.integers(1, 64))
def test_a_part_is_always_let_in(steps, computing, batch):
    made = after(steps, computing)
    passed = sum(not made.sheds(batch) for _ in range(33 * 4))
    assert passed >= 4


@given(STEPS, SECONDS)
def test_what_is_said_is_what_is_done(steps, computing):
    made = after(steps, computing)
    if made.why is None:
        assert not any(made.sheds(8) for _ in range(100))
