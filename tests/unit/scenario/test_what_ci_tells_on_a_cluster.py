"""Every scenario is told by CI on real kubelets, or left out for a reason that is written down, and true."""

from pathlib import Path

import pytest

from kvberth.scenario.backend.kubernetes import cluster
from kvberth.scenario.format import parse

TESTS = Path(__file__).parents[2]
CANNOT = "can't be told there: "
COUNTS = {"four": 4, "five": 5}
LINES = (TESTS / "cluster" / "in-ci.txt").read_text().splitlines()
NAMED = [line.partition(": ") for line in LINES if line and not line.startswith("#")]


def test_each_scenario_stands_in_the_list_once_and_is_told_or_has_a_reason() -> None:
    assert sorted(name for name, _, _ in NAMED) == sorted(path.stem for path in (TESTS / "scenarios").glob("*.yaml"))
    assert all(reason for _, colon, reason in NAMED if colon)
    assert [name for name, colon, _ in NAMED if not colon]


@pytest.mark.parametrize(("name", "reason"), [(name, reason) for name, _, reason in NAMED])
def test_what_cannot_be_told_on_a_cluster_is_said_so_as_the_backend_says_it_and_nothing_else_is(
    name: str, reason: str
) -> None:
    path = TESTS / "scenarios" / f"{name}.yaml"
    scenario = parse(path.read_text(), path.name)
    why = cluster.unfit(scenario, has_driver=True)
    assert (reason.removeprefix(CANNOT) if reason.startswith(CANNOT) else None) == why
    words = reason.split()
    if words[:1] == ["needs"] and words[-1] == "nodes":
        assert len(scenario.nodes) == COUNTS[words[1]]
