"""Holds what became of applied objects against what a scenario expects. Pure."""

import re
from collections.abc import Sequence

from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.format.manifests import Apply
from kvberth_schemas.requests import Outcome, Result


def check_results(apply: Apply, results: Sequence[Result]) -> str:
    """Hold the answers against what `apply:` expects. Raises ScenarioError."""
    refused = {result.name: result for result in results if result.outcome is Outcome.REFUSED}
    accepted = sorted(result.name for result in results if result.outcome is Outcome.ACCEPTED)
    for name, result in refused.items():
        if name not in apply.refused:
            raise ScenarioError(f"refused: {told(result)}")
    for name, pattern in apply.refused.items():
        if name not in refused:
            raise ScenarioError(f"'{name}' should have been refused with '{pattern}', but was not; {summary(results)}")
        if not re.search(pattern, told(refused[name])):
            raise ScenarioError(f"'{name}' should have been refused with '{pattern}', but: {told(refused[name])}")
    if apply.accepted is not None and accepted != sorted(apply.accepted):
        raise ScenarioError(f"accepted should have been {sorted(apply.accepted)}, but was {accepted}")
    return summary(results)


def summary(results: Sequence[Result]) -> str:
    """Name what became of each object."""
    return ", ".join(f"{result.kind}/{result.name} {result.outcome}" for result in results)


def told(result: Result) -> str:
    """Give a result's field and sentence."""
    return f"{result.kind}/{result.name}: {': '.join(filter(None, (result.field, result.sentence)))}"
