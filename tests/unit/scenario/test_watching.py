"""When an expectation counts as met: at one moment, in its own time, from the right clock. The world is a script."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kvberth.scenario.durations import Timing
from kvberth.scenario.facts import Facts, Heard, Life, Mark, Printed
from kvberth.scenario.format import Expectation, Step, parse
from kvberth.scenario.result import Failure, Outcome
from kvberth.scenario.teller import Teller
from kvberth.scenario.watch import Await, Rules, StepFailed, Watcher

CACHE = Life("cache", 1, "a", "default", "kv")
ENGINE = Life("engine", 2, "a", "default", "uid", workload="llama")


class Script:
    """A world that shows one lives after the other, the last one for ever."""

    def __init__(self, *scenes: tuple[Life, ...], heard: Sequence[Heard] = ()) -> None:
        self.scenes = list(scenes)
        self.heard = list(heard)
        self.done: list[str] = []

    async def look(self, expectations: Sequence[Expectation]) -> Facts:
        await asyncio.sleep(0)
        lives = self.scenes.pop(0) if len(self.scenes) > 1 else self.scenes[0]
        return Facts(datetime.now(UTC), lives=lives, heard=self.heard)

    async def changed(self, timeout_s: float) -> None:
        await asyncio.sleep(0.001)

    async def do(self, step: Step, marks: Mapping[str, Mark]) -> str:
        self.done.append(str(step))
        return ""

    async def keep(self, folder: Path) -> None:
        raise NotImplementedError


def running(role: str, count: int = 1, **options: object) -> Expectation:
    return Expectation.model_validate({"process": {"role": role, "count": count}, **options})


async def met(script: Script, what: Await, event_within_s: float = 0) -> dict[int, float] | list[Failure]:
    try:
        return await asyncio.wait_for(Watcher(script, event_within_s=event_within_s).until_met(what), 5)
    except StepFailed as failed:
        return failed.failures


async def test_all_must_hold_at_one_moment() -> None:
    both = (CACHE, ENGINE)
    script = Script((CACHE,), (ENGINE,), (CACHE,), (ENGINE,), both)
    result = await met(script, Await("s", [running("cache"), running("engine")], [2, 2]))
    assert isinstance(result, dict)
    assert len(script.scenes) == 1, "it was satisfied with one after the other"


async def test_what_never_holds_together_fails_although_each_held() -> None:
    script = Script(*[(CACHE,), (ENGINE,)] * 500)
    result = await met(script, Await("s", [running("cache"), running("engine")], [0.1, 0.1]))
    assert isinstance(result, list)


async def test_each_has_its_own_time_and_only_the_late_one_fails() -> None:
    script = Script((CACHE,))
    result = await met(script, Await("s", [running("cache"), running("engine")], [0.05, 0.1]))
    assert isinstance(result, list)
    assert [failure.expected for failure in result] == ["1 running engine process(es) within 0.1 s"]


async def test_the_last_events_are_told_once_for_all_that_failed_in_a_step() -> None:
    script = Script((), heard=[said("pod.gone", 1)])
    result = await met(script, Await("s", [running("cache"), running("engine")], [0.05, 0.05]))
    assert isinstance(result, list)
    assert ["pod.gone" in failure.seen for failure in result] == [True, False]
    rules = await broken(Script((CACHE, ENGINE), heard=script.heard), Rules("s", [running("cache"), running("engine")]))
    assert ["pod.gone" in failure.seen for failure in rules] == [True, False]


def said(kind: str, ago_s: float) -> Heard:
    time = datetime.now(UTC) - timedelta(seconds=ago_s)
    return Heard(time, "id", "kvberth.evt.v1.-.-.a.node", kind, "a", None, "a", {}, None, "KVBERTH_EVENTS", 1)


async def test_the_clock_starts_at_the_first_message_of_after() -> None:
    (step,) = parse("steps: [{expect: {process: {role: cache}}, after: {type: pod.gone}}]", "x").steps
    early = Script((CACHE,), heard=[said("pod.gone", 10), said("pod.gone", 0.1)])
    late = await met(early, Await("s", [running("cache")], [5], step.after))
    assert isinstance(late, list)
    assert "only after 10." in late[0].seen
    result = await met(Script((CACHE,), heard=[said("pod.gone", 0.1)]), Await("s", [running("cache")], [5], step.after))
    assert isinstance(result, dict)
    assert 0.1 <= result[0] < 5


async def test_without_the_message_of_after_nothing_is_met() -> None:
    (step,) = parse("steps: [{expect: {process: {role: cache}}, after: {type: pod.gone}}]", "x").steps
    result = await met(Script((CACHE,)), Await("s", [running("cache")], [0.05], step.after))
    assert isinstance(result, list)
    assert result[0].seen.startswith("no pod.gone was said; ")


async def test_the_bound_says_nothing_about_when_the_message_of_after_comes() -> None:
    (step,) = parse("steps: [{expect: {process: {role: cache}}, after: {type: pod.gone}}]", "x").steps
    script = Script((CACHE,))

    async def say_it_later() -> None:
        await asyncio.sleep(0.1)
        script.heard.append(said("pod.gone", 0))

    async with asyncio.TaskGroup() as group:
        group.create_task(say_it_later())
        result = await met(script, Await("s", [running("cache")], [0.05], step.after), event_within_s=4)
    assert isinstance(result, dict), result
    assert result[0] < 0.05


async def broken(script: Script, rules: Rules) -> list[Failure]:
    with pytest.raises(StepFailed) as failed:
        await asyncio.wait_for(Watcher(script).watch(rules), 5)
    return failed.value.failures


async def test_a_rule_is_broken_by_a_single_moment() -> None:
    never = await broken(Script((CACHE,), (CACHE, ENGINE), (CACHE,)), Rules("s", never=[running("engine")]))
    always = await broken(Script((CACHE,), (), (CACHE,)), Rules("s", always=[running("cache")]))
    assert [failure.expected for failure in never] == ["never: 1 running engine process(es)"]
    assert [failure.expected for failure in always] == ["always: 1 running cache process(es)"]


async def told(script: Script, text: str) -> Outcome:
    outcome, lines = Outcome("x", "x"), list[str]()
    say: Callable[[str], None] = lines.append
    await asyncio.wait_for(Teller(parse(text, "x"), Timing(), frozenset(), script, outcome, say).tell(), 5)
    return outcome


async def test_a_window_is_looked_at_when_it_ends_however_short_it_was() -> None:
    outcome = await told(Script((CACHE, ENGINE)), "steps: [{during: {never: {process: {role: engine}}}}]")
    assert [failure.expected for failure in outcome.failures] == ["never: 1 running engine process(es)"]


async def test_a_broken_rule_ends_the_steps_of_its_window_and_the_story() -> None:
    script = Script((CACHE, ENGINE))
    text = "steps: [{during: {never: {process: {role: engine}}, for: 60s, steps: [{cordon: l20-a}]}}, {cordon: l20-b}]"
    outcome = await told(script, text)
    assert len(outcome.failures) == 1
    assert "cordon l20-b" not in script.done


async def test_a_failed_step_in_a_window_is_reported_with_its_own_number() -> None:
    outcome = await told(Script(()), "steps: [{during: {steps: [{expect: {process: {role: cache}}, within: 10ms}]}}]")
    assert [failure.step.partition(":")[0] for failure in outcome.failures] == ["1.1"]


async def test_the_seconds_of_an_expectation_are_reported_under_its_name() -> None:
    outcome = await told(Script((), (CACHE,)), "steps: [{wait: {process: {role: cache}, measure: there}}]")
    assert outcome.passed
    assert 0 < outcome.measures["there"] < 5


async def test_messages_in_a_window_count_from_its_beginning() -> None:
    script = Script((CACHE,), heard=[said("pod.gone", 1)])
    assert (await told(script, "steps: [{during: {never: {event: {type: pod.gone}}}}]")).passed
    assert not (
        await told(script, "steps: [{during: {steps: [{expect: {event: {type: pod.gone}}, within: 10ms}]}}]")
    ).passed
    assert (await told(script, "steps: [{expect: {event: {type: pod.gone}}}]")).passed


async def test_a_window_knows_who_lived_when_it_began_though_a_node_could_not_be_seen_at_first() -> None:
    class Blinking(Script):
        looks = 0

        async def look(self, expectations: Sequence[Expectation]) -> Facts:
            self.looks += 1
            facts = await super().look(expectations)
            return facts if self.looks > 2 else replace(facts, lives=(), unseen=frozenset({"a"}))

    script = Blinking((replace(ENGINE, name="llama-1"),))
    rule = "{lives: {engine: {workload: llama}, count: 0}}"
    outcome = await told(script, f"steps: [{{during: {{always: {rule}, for: 20ms}}}}]")
    assert outcome.passed, outcome.failures


async def test_what_a_command_printed_before_a_step_is_no_answer_to_it() -> None:
    class Asked(Script):
        printed: Sequence[Printed] = (Printed(datetime.now(UTC), "1/1 served"),)

        async def look(self, expectations: Sequence[Expectation]) -> Facts:
            return replace(await super().look(expectations), printed=self.printed)

        async def do(self, step: Step, marks: Mapping[str, Mark]) -> str:
            self.printed = (Printed(datetime.now(UTC), "0/1 served"),)
            return ""

    first = "{expect: {cli: {line: 1/1}}, within: 20ms}"
    outcome = await told(Asked(()), f"steps: [{first}]")
    assert [failure.seen.partition(".")[0] for failure in outcome.failures] == [
        "no 'kvberth status' that was given since then has ended yet"
    ]
    never = "{during: {never: {cli: {line: 1/1}}, for: 20ms, steps: [{cordon: l20-a}]}}"
    assert (await told(Asked(()), f"steps: [{never}]")).passed
    broken = "{during: {never: {cli: {line: 0/1}}, for: 20ms, steps: [{cordon: l20-a}]}}"
    assert not (await told(Asked(()), f"steps: [{broken}]")).passed
