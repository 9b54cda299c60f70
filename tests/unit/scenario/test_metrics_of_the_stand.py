"""A misspelt metric is never there, and what is never there is 0: every name in the stand is one that is counted."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvberth.bus.metrics import Metrics

ROOT = Path(__file__).parents[3]
STORIES = sorted((ROOT / "tests/scenarios").glob("*.yaml"))
NAME = re.compile(r"\bkvberth[._]\w+(?:\.\w+)*")
"""An instrument is named with dots where it is made, and scraped with underscores."""
SUFFIX = re.compile(r"_(total|seconds|bytes|percent|ratio|bucket|sum|count)$")


def bare_name(scraped: str) -> str:
    """Give a name without what Prometheus appends to it."""
    while (shorter := SUFFIX.sub("", scraped)) != scraped:
        scraped = shorter
    return scraped


def counted() -> Iterator[str]:
    """Give whatever is spelt like a metric in the services, those that the engine stand-in writes itself included."""
    for path in sorted((ROOT / "services").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from (bare_name(name.replace(".", "_")) for name in NAME.findall(node.value))


def asked_for(value: Any) -> Iterator[str]:
    """Give the metrics that a story names, at any depth."""
    if isinstance(value, dict):
        metric = value.get("metric")
        if isinstance(metric, dict):
            yield metric["name"]
        for inner in value.values():
            yield from asked_for(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from asked_for(inner)


class Notes:
    """A telemetry that notes the names of its instruments; the bus puts them together."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def counter(self, name: str, *_: object) -> "Notes":
        self.names.append(bare_name(name.replace(".", "_")))
        return self

    observe = counter


def counted_by_the_bus() -> list[str]:
    """Give the names of the instruments of a bus."""
    notes = Notes()
    Metrics(notes)  # type: ignore[arg-type]  # of a telemetry it makes only instruments
    return notes.names


KNOWN = frozenset(counted()) | frozenset(counted_by_the_bus())


def test_the_names_are_found_and_a_misspelt_one_is_none_of_them() -> None:
    assert {"kvberth_bus_unreadable", "kvberth_engine_cache_lost"} <= KNOWN
    assert bare_name("kvberth_bus_unredable_total") not in KNOWN


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_a_story_names_only_metrics_that_somebody_counts(story: Path) -> None:
    names = set(asked_for(yaml.safe_load(story.read_text())))
    assert {name for name in names if bare_name(name) not in KNOWN} == set()
