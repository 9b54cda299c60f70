"""Many scenarios at a time: bounded, in order, and who failed beside others is judged alone."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from kvberth.scenario.backend.protocol import ScenarioError, Setting
from kvberth.scenario.facts import Facts, Heard, Mark
from kvberth.scenario.format import Expectation, Scenario, Step
from kvberth.scenario.result import Outcome, document, failed, summary
from kvberth.scenario.run import RunOptions, run_all


class Crowded:
    """A backend and its worlds, in which `shy` fails at first, and later unless it is alone; `broken` fails always."""

    name = "crowded"
    abilities: frozenset[str] = frozenset()
    promised: Mapping[str, float] = MappingProxyType({})
    heard: Sequence[Heard] = ()

    def __init__(self) -> None:
        self.there: list[str] = []
        self.tellings: Counter[str] = Counter()
        self.most = 0
        self.closed = False

    async def fitted(self, setting: Setting) -> Scenario:
        return setting.scenario

    @asynccontextmanager
    async def world(self, setting: Setting) -> AsyncIterator["Crowded"]:
        self.there.append(setting.scenario.name)
        self.tellings[setting.scenario.name] += 1
        self.most = max(self.most, len(self.there))
        try:
            yield self
        finally:
            self.there.remove(setting.scenario.name)

    async def do(self, step: Step, marks: Mapping[str, Mark]) -> str:
        for _ in range(3):
            await asyncio.sleep(0)  # whoever may start has started
        who = step.value
        if who == "broken" or (who == "shy" and (self.tellings[who] == 1 or self.there != [who])):
            raise ScenarioError(f"{who}, telling {self.tellings[who]}, beside {len(self.there) - 1}")
        return "done"

    async def look(self, expectations: Sequence[Expectation]) -> Facts:
        raise NotImplementedError

    async def changed(self, timeout_s: float) -> None:
        raise NotImplementedError

    async def keep(self, folder: Path) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed = True


async def told(*names: str, jobs: int) -> tuple[Crowded, list[Outcome], list[str]]:
    said: list[str] = []
    backend = Crowded()
    stories = [
        (Path(f"{name}.yaml"), Scenario.model_validate({"name": name, "nodes": [name], "steps": [{"cordon": name}]}))
        for name in names
    ]
    outcomes = await run_all(stories, backend, RunOptions(jobs=jobs), said.append)
    return backend, outcomes, said


async def test_so_many_are_told_at_a_time_and_each_speaks_in_one_piece() -> None:
    backend, outcomes, said = await told("a", "b", "c", "d", "e", jobs=3)
    assert backend.most == 3
    assert backend.closed
    assert [outcome.name for outcome in outcomes] == ["a", "b", "c", "d", "e"]
    assert all(outcome.passed for outcome in outcomes)
    assert len(said) == 5
    assert all("1: cordon" in piece and "PASSED" in piece for piece in said)


async def test_who_fails_beside_others_is_judged_alone_and_both_are_said() -> None:
    backend, outcomes, said = await told("a", "shy", "b", jobs=2)
    assert backend.there == []
    assert not failed(outcomes)
    assert [outcome.failed_beside_others for outcome in outcomes] == [False, True, False]
    assert summary(outcomes).endswith("; failed beside others and passed alone: shy")
    assert document(outcomes)["scenarios"][1]["measures"]["failed_beside_others"] == 1
    assert any("shy, telling 1" in piece for piece in said)


async def test_who_fails_alone_too_has_failed() -> None:
    _, outcomes, _ = await told("a", "broken", jobs=2)
    assert failed(outcomes)
    assert [failure.seen for failure in outcomes[1].failures] == ["broken, telling 2, beside 0"]
    assert "passed alone" not in summary(outcomes)


async def test_one_at_a_time_nobody_has_a_second_try() -> None:
    backend, outcomes, said = await told("a", "broken", jobs=1)
    assert backend.most == 1
    assert failed(outcomes)
    assert not any("again" in piece for piece in said)
