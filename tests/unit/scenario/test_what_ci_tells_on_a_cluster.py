"""Every scenario is told by CI on real kubelets, or left out for a reason that is written down."""

from pathlib import Path

TESTS = Path(__file__).parents[2]


def test_each_scenario_stands_in_the_list_once_and_is_told_or_has_a_reason() -> None:
    lines = (TESTS / "cluster" / "in-ci.txt").read_text().splitlines()
    named = [line.partition(": ") for line in lines if line and not line.startswith("#")]
    assert sorted(name for name, _, _ in named) == sorted(path.stem for path in (TESTS / "scenarios").glob("*.yaml"))
    assert all(reason for _, colon, reason in named if colon)
    assert [name for name, colon, _ in named if not colon]
