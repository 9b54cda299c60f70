"""Tells one scenario: its steps in order, each with its deadline, until the end or the first step that fails."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kvberth.scenario.backend.protocol import ScenarioError, World
from kvberth.scenario.capabilities import missing
from kvberth.scenario.durations import Timing
from kvberth.scenario.facts import Facts, Mark
from kvberth.scenario.format import Expectation, Scenario, Step
from kvberth.scenario.format.steps import During
from kvberth.scenario.result import Failure, Outcome
from kvberth.scenario.watch import Await, Rules, StepFailed, Watcher

EXPECT_WITHIN_S = 5.0
WAIT_WITHIN_S = 30.0
DO_WITHIN_S = 60.0
"""Every verb ends by itself; this is for a defect of the backend."""

NAMED_WITHIN_S = 3.0
"""Marks, and windows that count lives, wait so long until every node can be looked at and new engines are named."""
_MAX_NAME = 120

Say = Callable[[str], None]


@dataclass
class Teller:
    """One telling of one scenario in one world."""

    scenario: Scenario
    timing: Timing
    abilities: frozenset[str]
    world: World
    outcome: Outcome
    say: Say
    watcher: Watcher = field(init=False)
    started: float = field(default_factory=time.monotonic)
    _step_now: str = "none"

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.world)
        self._marked = {name: list(_compared(self.scenario, name)) for name in _marks(self.scenario)}

    async def tell(self) -> None:
        """Carry out every step; what fails stands in the outcome, and ends the story."""
        deadline = self.timing.seconds(self.scenario.deadline)
        try:
            async with asyncio.timeout(deadline) as clock:
                await self._steps(self.scenario.steps, "")
        except StepFailed as failed:
            self.outcome.failures += failed.failures
        except TimeoutError:
            if not clock.expired():
                raise
            seen = f"it is not; the last step that began is {self._step_now}"
            self.outcome.failures.append(Failure(self._step_now, f"the scenario is told within {deadline:g} s", seen))

    async def _steps(self, steps: Sequence[Step], before: str) -> None:
        for index, step in enumerate(steps, 1):
            await self._step(f"{before}{index}", step)

    async def _step(self, number: str, step: Step) -> None:
        self._step_now = name = _step_name(number, step)
        if lacks := missing(step.needs, step.requires, self.abilities):
            self._leave_out(name, lacks)
            return
        began = time.monotonic()
        try:
            result = await self._carry_out(number, step)
        except StepFailed:
            self.say(self._line("FAILED", name, ""))
            raise
        except ScenarioError as error:
            self.say(self._line("FAILED", name, ""))
            raise StepFailed([Failure(name, str(step), str(error))]) from error
        took = time.monotonic() - began
        if result is not None:
            self.say(self._line("ok", name, f"{took:.2f} s{f', {result}' if result else ''}"))

    async def _carry_out(self, number: str, step: Step) -> str | None:
        match step.kind:
            case "expect":
                return await self._await(number, step, EXPECT_WITHIN_S)
            case "wait":
                return await self._await(number, step, WAIT_WITHIN_S)
            case "during":
                await self._during(number, step.value)
                return ""
            case "mark":
                return await self._mark(step.value)
        try:
            async with asyncio.timeout(DO_WITHIN_S):
                return await self.world.do(step, self.watcher.marks)
        except TimeoutError as error:
            raise ScenarioError(f"it did not end within {DO_WITHIN_S:g} s") from error

    async def _await(self, number: str, step: Step, default_s: float) -> str | None:
        name = _step_name(number, step)
        kept = self._kept(name, step.value)
        if not kept:
            return None
        whole = self.timing.seconds(step.within) if step.within else default_s
        within = [self.timing.seconds(item.within) if item.within else whole for item in kept]
        met = await self.watcher.until_met(Await(name, kept, within, step.after))
        for index, item in enumerate(kept):
            if item.measure:
                self.outcome.measures[item.measure] = met[index]
        return f"within {whole:g} s"

    async def _during(self, number: str, window: During) -> None:
        name = self._step_now
        rules = Rules(name, self._kept(name, window.never or []), self._kept(name, window.always or []))
        outer = self.watcher.begun, self.watcher.lived
        if counted := _counting_lives(window):
            self.watcher.lived = (await self._settled(counted)).lives
        self.watcher.begun = len(self.world.heard)
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self.watcher.watch(rules), name=f"watch {number}")
                await self._steps(window.steps, f"{number}.")
                await asyncio.sleep(self.timing.seconds(window.last))  # the window itself, no wait for something
                watching.cancel()
            await self.watcher.check(rules)  # of the last moment, too
        except ExceptionGroup as group_error:
            _, rest = group_error.split((StepFailed, ScenarioError))
            if rest is not None:
                raise
            raise StepFailed(_failures(name, group_error)) from group_error
        finally:
            self.watcher.begun, self.watcher.lived = outer

    async def _mark(self, name: str) -> str:
        facts = await self._settled(self._marked.get(name, []))
        lines = {target: len(found) for target, found in facts.logs.items() if not isinstance(found, str)}
        samples = {target: found for target, found in facts.metrics.items() if not isinstance(found, str)}
        mark = Mark(facts.at, len(facts.heard), facts.lives, facts.answers, samples, lines)
        self.watcher.marks[name] = mark
        return f"{mark.heard} messages so far"

    async def _settled(self, expectations: Sequence[Expectation]) -> Facts:
        """Look until every node is seen and every engine has its name, for some seconds at most."""
        deadline = time.monotonic() + NAMED_WITHIN_S
        facts = await self.watcher.look(expectations)
        while (facts.unseen or _nameless(facts)) and time.monotonic() < deadline:
            await self.world.changed(0.05)
            facts = await self.watcher.look(expectations)
        return facts

    def _kept(self, name: str, expectations: Sequence[Expectation]) -> list[Expectation]:
        kept = []
        for item in expectations:
            lacks = missing(item.needs, item.requires, self.abilities)
            if lacks:
                self._leave_out(f"{name.partition(':')[0]}: {item}", lacks)
            else:
                kept.append(item)
        return kept

    def _leave_out(self, what: str, lacks: str) -> None:
        self.outcome.left_out.append(f"{what}: {lacks}")
        self.say(self._line("skipped", what, lacks))

    def _line(self, word: str, what: str, detail: str) -> str:
        return f"{time.monotonic() - self.started:6.1f} s  {word:<7} {what}" + (f"  ({detail})" if detail else "")


def _step_name(number: str, step: Step) -> str:
    text = f"{number}: {step}"
    return text if len(text) <= _MAX_NAME else f"{text[: _MAX_NAME - 1]}…"


def _failures(step: str, error: Exception) -> list[Failure]:
    """Give what went wrong in a window, whether in its steps or in its rules."""
    if isinstance(error, ExceptionGroup):
        return [failure for inner in error.exceptions for failure in _failures(step, inner)]
    return error.failures if isinstance(error, StepFailed) else [Failure(step, "its rules can be judged", str(error))]


def _counting_lives(window: During) -> list[Expectation]:
    """Give the expectations of a window that count lives from its begin on."""
    found = [*(window.never or ()), *(window.always or ())]
    for step in window.steps:
        found += _counting_lives(step.during) if step.during else step.expectations()
    return [item for item in found if any(p.kind == "lives" and p.value.since is None for p in item.parts())]


def _nameless(facts: Facts) -> bool:
    return any(life.role == "engine" and not life.name for life in facts.lives)


def _marks(scenario: Scenario) -> set[str]:
    return {step.mark for _, step in scenario.all_steps() if step.mark}


def _compared(scenario: Scenario, mark: str) -> Sequence[Expectation]:
    """Give the expectations that look back to a mark, so that it remembers what they compare with."""
    parts = [part for _, step in scenario.all_steps() for item in step.expectations() for part in item.parts()]
    # A command says nothing of the moment of a mark, and one that runs would hold up the next.
    return [part for part in parts if part.kind != "cli" and getattr(part.value, "since", None) == mark]
