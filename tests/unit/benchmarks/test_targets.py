"""A target is the most that a value should be, or the least, as it is said."""

import pytest
from benchmarks.results import Result


@pytest.mark.parametrize(
    ("value", "target", "at_least", "holds"),
    [(1.0, 2.0, False, True), (3.0, 2.0, False, False), (3.0, 2.0, True, True), (1.0, 2.0, True, False)],
)
def test_a_target_is_the_most_or_the_least(value: float, target: float, at_least: bool, holds: bool) -> None:
    assert Result(name="a", value=value, unit="us", target=target, at_least=at_least).holds is holds
