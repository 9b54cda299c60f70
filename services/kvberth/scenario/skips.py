"""Lists what a backend would skip of a scenario, without running it. Pure."""

from collections.abc import Collection, Iterator

from kvberth.scenario.capabilities import missing
from kvberth.scenario.format import Scenario


def skipped(scenario: Scenario, abilities: Collection[str]) -> Iterator[str]:
    """Give one line for each part that is skipped: its place, what is missing, what it says."""
    lacks = missing(scenario.needs, scenario.requires, abilities)
    if lacks:
        yield f"all: {lacks}"
        return
    for number, step in scenario.all_steps():
        if lacks := missing(step.needs, step.requires, abilities):
            yield f"step {number}: {lacks}: {step}"
            continue
        for item in step.expectations():
            if lacks := missing(item.needs, item.requires, abilities):
                yield f"step {number}: {lacks}: {item}"
