"""What is skipped is listed, and what could run is not skipped."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from kvberth.scenario import capabilities
from kvberth.scenario.backend.bare import BareBackend
from kvberth.scenario.format import load, parse
from kvberth.scenario.skips import skipped

FOLDER = Path(__file__).parents[2] / "scenarios"
GROWN = {
    "gate": "kvberth.bare.runner.gate",
    "health": "kvberth.node_agent.health",
    "transfer": "kvberth.bare.runner.transfer",
}
"""Where an ability of kvberth will live on the bare backend once it is built."""


def test_the_pinned_list_says_what_is_skipped() -> None:
    found = [
        f"{p.name}: {line}" for p in sorted(FOLDER.glob("*.yaml")) for line in skipped(load(p), BareBackend.abilities)
    ]
    assert (FOLDER / "skipped.txt").read_text().splitlines() == found, (
        "write it anew with: kvberth scenario check tests/scenarios/*.yaml > tests/scenarios/skipped.txt"
    )


@pytest.mark.parametrize("ability", GROWN)
def test_an_ability_that_was_built_is_declared_so_that_nothing_is_skipped_for_it(ability: str) -> None:
    package, _, _ = GROWN[ability].rpartition(".")
    grown = find_spec(package) is not None and find_spec(GROWN[ability]) is not None
    assert grown == (ability in BareBackend.abilities)


def test_a_backend_declares_only_abilities_that_scenarios_can_name() -> None:
    assert BareBackend.abilities <= {*capabilities.PRODUCT, *capabilities.BACKEND}


def test_what_is_missing_is_skipped_at_its_place_and_what_is_there_is_not() -> None:
    scenario = parse(
        """
        steps:
          - {cordon: l20-a, needs: gate}
          - {drain: l20-a, requires: bare}
          - expect:
              - {event: {type: pod.gone}, requires: [bare, kubernetes]}
              - {event: {type: pod.gone}, needs: gate}
        """,
        "x",
    )
    assert list(skipped(scenario, {"bare"})) == [
        "step 1: needs gate: cordon l20-a",
        "step 3: requires kubernetes: at least 1 x pod.gone",
        "step 3: needs gate: at least 1 x pod.gone",
    ]
    assert list(skipped(scenario, {"bare", "gate", "kubernetes"})) == []


def test_a_whole_scenario_is_skipped_in_one_line() -> None:
    scenario = parse("{requires: kubernetes, steps: [{cordon: l20-a, needs: gate}]}", "x")
    assert list(skipped(scenario, {"bare"})) == ["all: requires kubernetes"]
