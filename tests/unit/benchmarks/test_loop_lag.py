"""What two scrapes of a loop's lag say of the time between them."""

import pytest
from benchmarks.loop_lag import bounds


def test_only_what_came_between_two_scrapes_counts():
    before = {0.05: 900.0, 0.25: 999.0, float("inf"): 1000.0}
    after = {0.05: 998.0, 0.25: 1099.0, float("inf"): 1100.0}
    found = bounds(before, after)
    assert (found.looks, found.p99_s, found.worst_s) == (100, 0.25, 0.25)


def test_no_look_is_no_answer():
    with pytest.raises(ValueError, match="no look"):
        bounds({0.05: 7.0}, {0.05: 7.0})
