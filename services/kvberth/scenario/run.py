"""Runs scenario files one after the other, each in a stack of its own, and says what became of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kvberth.bus import BusError
from kvberth.scenario.backend.protocol import Backend, ScenarioError, Setting, Unfit
from kvberth.scenario.capabilities import missing
from kvberth.scenario.durations import DurationError
from kvberth.scenario.format import Scenario
from kvberth.scenario.result import Failure, Outcome
from kvberth.scenario.teller import Teller


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How scenarios are run."""

    factor: float = 1.0
    """Shortens named waits of a minute or more."""
    keep: Path | None = None
    """Where logs and events of failed scenarios go."""


async def run_all(
    files: Sequence[tuple[Path, Scenario]], backend: Backend, options: RunOptions, say: Callable[[str], None]
) -> list[Outcome]:
    """Run them in order; a failed one does not keep the others from running."""
    outcomes = []
    try:
        for path, scenario in files:
            outcome = Outcome(str(path), scenario.name or path.stem)
            outcomes.append(outcome)
            say(f"\n{outcome.name}  [{path}]")
            started = time.monotonic()
            await _run(outcome, scenario, Setup(path, backend, options, say))
            outcome.seconds = time.monotonic() - started
            say(_verdict(outcome))
    finally:
        outcomes += await _closed(backend, say)
    return outcomes


async def _closed(backend: Backend, say: Callable[[str], None]) -> list[Outcome]:
    """Close a backend; what fails then is the failure of nobody's story, and of the run."""
    try:
        await backend.close()
    except (ScenarioError, OSError) as error:
        outcome = Outcome("", "the end of all scenarios")
        outcome.failures.append(Failure("end", "nothing is left behind", str(error)))
        say(_verdict(outcome))
        return [outcome]
    return []


@dataclass(frozen=True, slots=True)
class Setup:
    """What one scenario is run with."""

    path: Path
    backend: Backend
    options: RunOptions
    say: Callable[[str], None]


async def _run(outcome: Outcome, scenario: Scenario, setup: Setup) -> None:
    outcome.skipped = missing(scenario.needs, scenario.requires, setup.backend.abilities)
    if outcome.skipped:
        return
    try:
        timing = scenario.timing(setup.options.factor, setup.backend.promised)
    except DurationError as error:
        outcome.failures.append(Failure("start", "the time factor keeps the order of waits", str(error)))
        return
    if timing.sentence():
        setup.say(f"  {timing.sentence()}")
    setting = Setting(scenario, setup.path.parent, timing)
    try:
        scenario = await setup.backend.fitted(setting)
        setting = replace(setting, scenario=scenario)
        async with setup.backend.world(setting) as world:
            await Teller(scenario, timing, setup.backend.abilities, world, outcome, setup.say).tell()
            if outcome.failures and setup.options.keep:
                folder = setup.options.keep / setup.path.stem
                await world.keep(folder)
                setup.say(f"  logs and events are kept in {folder}")
    except Unfit as reason:
        outcome.skipped = str(reason)
    except (ScenarioError, BusError, OSError) as error:
        outcome.failures.append(Failure("start or end", "the stack starts, and ends without a trace", str(error)))


def _verdict(outcome: Outcome) -> str:
    if outcome.skipped:
        return f"  SKIPPED: {outcome.skipped}"
    lines = [f"  {'PASSED' if outcome.passed else 'FAILED'} in {outcome.seconds:.1f} s"]
    for failure in outcome.failures:
        lines += [f"  step {failure.step}", f"    expected: {failure.expected}", f"    seen: {failure.seen}"]
    lines += [f"  measured {name}: {value:.3f} s" for name, value in outcome.measures.items()]
    return "\n".join(lines)
