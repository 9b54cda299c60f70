"""What a backend must be able to do for scenarios. The runner knows nothing else of it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kvberth.scenario.durations import Timing
from kvberth.scenario.facts import Facts, Heard, Mark
from kvberth.scenario.format import Expectation, Scenario, Step


class ScenarioError(Exception):
    """A step could not be done, or the stack did not start or end; one sentence."""


class Unfit(Exception):  # noqa: N818 (it is a reason, no error of the program)
    """A scenario can't be told on this backend; it is skipped, and one sentence says why."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a world is made from."""

    scenario: Scenario
    folder: Path
    """Of the scenario's file: its paths begin there."""
    timing: Timing


class World(Protocol):
    """A running stack of one scenario. Every method ends within a bound of its own."""

    @property
    def heard(self) -> Sequence[Heard]:
        """Everything that was said on the bus so far."""

    async def do(self, step: Step, marks: Mapping[str, Mark]) -> str:
        """Carry out a verb; give what came of it in a few words. Raises ScenarioError."""

    async def look(self, expectations: Sequence[Expectation]) -> Facts:
        """Find out what these expectations are about, as it is now."""

    async def changed(self, timeout_s: float) -> None:
        """Wait until something new was said on the bus, at most so long."""

    async def keep(self, folder: Path) -> None:
        """Write logs and events into a folder."""


class Backend(Protocol):
    """A kind of place where stacks run."""

    name: str
    abilities: frozenset[str]
    """What it has of `kvberth.scenario.capabilities`: what it has is never skipped."""
    promised: Mapping[str, float]
    """What `kvberth.scenario.durations.PROMISES` are on it, in seconds."""

    async def fitted(self, setting: Setting) -> Scenario:
        """Give the scenario as this backend tells it, before anything is started.

        Raises:
            Unfit: it can't be told here.
            ScenarioError: nothing can be told here.
        """

    def world(self, setting: Setting) -> AbstractAsyncContextManager[World]:
        """Run a stack of its own for a scenario; afterwards nothing of it is left, or ScenarioError says what."""

    async def close(self) -> None:
        """Take away what the stories of one run shared. Raises ScenarioError."""
