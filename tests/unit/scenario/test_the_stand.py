"""Faults that a story of our own can have without failing on a quiet machine."""

from pathlib import Path

import pytest

from kvberth.scenario.format import Step, load

STORIES = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))


def unmarked(step: Step) -> list[str]:
    """Give the messages that a window wants before it did anything: each may have come before it began."""
    window = step.during
    found: list[str] = []
    for inner in window.steps if window else []:
        if inner.kind not in {"expect", "wait", "mark"}:
            break
        parts = [part for item in inner.expectations() for part in item.parts()]
        found += [str(part) for part in parts if part.event and part.event.since is None and part.event.count != 0]
    return found


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_a_window_waits_for_no_message_that_may_have_come_before_it(story: Path) -> None:
    late = {str(step): found for step in load(story).steps if (found := unmarked(step))}
    assert not late, "name a mark that stands before the cause with 'since'"
