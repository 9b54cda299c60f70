"""Waits for expectations, and watches over them in a window. Knows time and the world; judges nothing itself."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from kvberth.scenario.backend.protocol import World
from kvberth.scenario.facts import Facts, Heard, Life, Mark
from kvberth.scenario.format import Expectation
from kvberth.scenario.format.steps import After
from kvberth.scenario.judge import judge
from kvberth.scenario.judge.events import matches, since
from kvberth.scenario.result import Failure

LOOK_EVERY_S = 0.05
EVENT_WITHIN_S = 30.0
"""How long a step waits for the message that its clock starts at: a bound says how fast the answer to it came."""
_LAST_EVENTS = 8


class StepFailed(Exception):  # noqa: N818 (it is how a story ends, no error of the program)
    """A step's expectations were not met."""

    def __init__(self, failures: list[Failure]) -> None:
        super().__init__("; ".join(f"{failure.expected}: {failure.seen}" for failure in failures))
        self.failures = failures


@dataclass
class Await:
    """One `expect` or `wait`."""

    step: str
    expectations: Sequence[Expectation]
    within_s: Sequence[float]
    """Of each of them."""
    after: After | None = None
    met: dict[int, float] = field(default_factory=dict)
    """Seconds at which each came true, since when it holds."""


@dataclass(frozen=True)
class Rules:
    """What must never, or always, hold in a window."""

    step: str
    never: Sequence[Expectation] = ()
    always: Sequence[Expectation] = ()
    began: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass
class Watcher:
    """Looks at one world, with the marks that were set."""

    world: World
    marks: dict[str, Mark] = field(default_factory=dict)
    begun: int = 0
    """From which message on counts what names no mark."""
    lived: tuple[Life, ...] = ()
    """Who lived already then."""
    event_within_s: float = EVENT_WITHIN_S

    async def look(self, expectations: Sequence[Expectation], began: datetime | None = None) -> Facts:
        """Look once, for a step that began then."""
        facts = await self.world.look(expectations)
        return replace(facts, marks=self.marks, begun=self.begun, lived=self.lived, step_began=began)

    async def until_met(self, what: Await) -> dict[int, float]:
        """Wait until all hold in one look; give when each came true, in seconds.

        Raises:
            StepFailed: one did not in its time.
        """
        started, began = time.monotonic(), datetime.now(UTC)
        while True:
            facts = await self.look(what.expectations, began)
            origin = _origin(what.after, facts)
            elapsed = time.monotonic() - started if origin is None else (facts.at - origin).total_seconds()
            verdicts = [judge(item, facts) for item in what.expectations]
            waits_for_event = what.after is not None and origin is None
            for index, verdict in enumerate(verdicts):
                if not verdict.holds or waits_for_event:
                    what.met.pop(index, None)
                else:
                    what.met.setdefault(index, elapsed)
            bounds = [max(at, self.event_within_s) if waits_for_event else at for at in what.within_s]
            late = [i for i, at in enumerate(bounds) if what.met.get(i, elapsed) > at]
            if late:
                missing = f"no {what.after} was said; " if waits_for_event else ""
                found = [_late(what, i, missing + verdicts[i].seen) for i in late]
                raise StepFailed(_failures(what.step, found, facts.heard))
            if len(what.met) == len(what.expectations):
                return what.met
            await self.world.changed(LOOK_EVERY_S)

    async def watch(self, rules: Rules) -> None:
        """Look again and again until cancelled.

        Raises:
            StepFailed: a rule was broken.
        """
        while True:
            await self.check(rules)
            await self.world.changed(LOOK_EVERY_S)

    async def check(self, rules: Rules) -> None:
        """Look once, and hold a window's rules against it.

        Raises:
            StepFailed: something held that must never hold, or did not hold that always must.
        """
        if not rules.never and not rules.always:
            return
        facts = await self.look([*rules.never, *rules.always], rules.began)
        broken = [("never", item, judge(item, facts)) for item in rules.never]
        broken = [found for found in broken if found[2].holds]
        kept = [("always", item, judge(item, facts)) for item in rules.always]
        broken += [found for found in kept if found[2].holds is False]
        if broken:
            found = [(f"{word}: {item}", item, verdict.seen) for word, item, verdict in broken]
            raise StepFailed(_failures(rules.step, found, facts.heard))


def _origin(after: After | None, facts: Facts) -> datetime | None:
    """Give the time of the message that the clock starts at; None: the step's own start."""
    if after is None:
        return None
    found = [one.time for one in since(facts, after.since) if matches(after, one)]
    return found[0 if after.which == "first" else -1] if found else None


def _late(what: Await, index: int, seen: str) -> tuple[str, Expectation, str]:
    """Give what was expected, in words and as it was written, and what was seen."""
    bound = f"within {what.within_s[index]:g} s" + (f" after {what.after}" if what.after else "")
    at = what.met.get(index)
    late = f"only after {at:.3f} s: " if at is not None else ""
    return f"{what.expectations[index]} {bound}", what.expectations[index], late + seen


def _failures(step: str, found: Sequence[tuple[str, Expectation, str]], heard: Sequence[Heard]) -> list[Failure]:
    """Add the last events to what was seen; the same ones only once in a step."""
    failures: list[Failure] = []
    told: set[str] = set()
    for expected, item, seen in found:
        last = _last_events(item, heard)
        failures.append(Failure(step, expected, seen if last in told else f"{seen}. {last}"))
        told.add(last)
    return failures


def _last_events(item: Expectation, heard: Sequence[Heard]) -> str:
    """Give the last messages about what is expected; where there are none, the last ones at all."""
    named = str(item)
    about = [one for one in heard if one.name in named or (one.node is not None and one.node in named)]
    last = "; ".join(map(str, (about or heard)[-_LAST_EVENTS:]))
    return f"The last events: {last}" if last else "Nothing was said on the bus"
