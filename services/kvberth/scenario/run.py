"""Runs scenario files, each in a stack of its own, and says what became of them."""

import asyncio
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

File = tuple[Path, Scenario]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How scenarios are run."""

    factor: float = 1.0
    """Shortens named waits of a minute or more."""
    keep: Path | None = None
    """Where logs and events of failed scenarios go."""
    jobs: int = 1
    """How many are told at a time. Their bounds are those of a stack that is alone: who fails beside others is told
    again alone, and that verdict counts."""


async def run_all(
    files: Sequence[File], backend: Backend, options: RunOptions, say: Callable[[str], None]
) -> list[Outcome]:
    """Run them; a failed one does not keep the others from running."""
    outcomes = []
    try:
        if options.jobs > 1:
            outcomes = await _beside_each_other(files, backend, options, say)
        else:
            for file in files:
                outcomes.append(await _one(file, backend, options, say))
    finally:
        outcomes += await _closed(backend, say)
    return outcomes


async def _one(file: File, backend: Backend, options: RunOptions, say: Callable[[str], None]) -> Outcome:
    path, scenario = file
    outcome = Outcome(str(path), scenario.name or path.stem)
    say(f"\n{outcome.name}  [{path}]")
    started = time.monotonic()
    await _run(outcome, scenario, Setup(path, backend, options, say))
    outcome.seconds = time.monotonic() - started
    say(_verdict(outcome))
    return outcome


async def _beside_each_other(
    files: Sequence[File], backend: Backend, options: RunOptions, say: Callable[[str], None]
) -> list[Outcome]:
    """Run some at a time, and those that failed again, alone. What one says is said when it has ended, in one piece."""
    turn = asyncio.Semaphore(options.jobs)

    async def in_turn(file: File) -> Outcome:
        async with turn:
            lines: list[str] = []
            outcome = await _one(file, backend, options, lines.append)
            say("\n".join(lines))
            return outcome

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(in_turn(file)) for file in files]
    outcomes = [task.result() for task in tasks]
    for number, (file, beside) in enumerate(zip(files, outcomes, strict=True)):
        if beside.failures:
            say(f"\n{beside.name} failed beside others; again, alone:")
            outcomes[number] = await _one(file, backend, options, say)
            outcomes[number].failed_beside_others = True
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
