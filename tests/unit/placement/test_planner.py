"""What a planner says and does when a step can't be taken: what is said is true, and the step is tried again."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kvberth.placement.apply import ApplyError, Standing
from kvberth.placement.apply.kubernetes.telling import Statuses
from kvberth.placement.observe import Index
from kvberth.placement.planner import Planner, Speaker
from kvberth.placement.snapshot import LiveWorkload
from kvberth.placement.states import WorkloadKey
from kvberth.placement.steps import AnyStep
from kvberth.service import Telemetry
from kvberth_schemas.events import GateResult, KVCacheStatusV1
from support.placement_world import NAMESPACE, WORKLOAD, World

REASON = "the API server did not answer"


@dataclass
class Failing:
    """A backend that does what is asked for, but on some nodes."""

    world: World
    failing: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    async def adopt(self) -> Iterable[Standing]:
        return []

    async def take(self, namespace: str, step: AnyStep, plan: str) -> Standing:
        self.asked.append(f"{type(step).__name__.lower()} {step.node}")
        if step.node in self.failing:
            raise ApplyError(REASON)
        self.world.take_step(step)
        return Standing(namespace, step.kvcache, step.node, self.world.wanted.get((namespace, step.kvcache, step.node)))

    def settle(self, namespace: str) -> None:
        pass

    async def workload(self, namespace: str, key: WorkloadKey) -> LiveWorkload:
        return self.world.live[key]

    def blind(self) -> str | None:
        return None

    async def run(self) -> None:
        pass


@dataclass
class Said:
    """All that was said."""

    statuses: list[KVCacheStatusV1] = field(default_factory=list)

    def say(self, status: KVCacheStatusV1, _before: KVCacheStatusV1 | None) -> None:
        self.statuses.append(status)

    def say_gone(self, namespace: str, name: str) -> None:
        raise AssertionError("nothing is gone here")


class Rig:
    """A planner over a world, planned as the service does: whenever it is due."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.telemetry = telemetry
        self.world = World()
        for node in "ab":
            self.world.node(node)
        self.world.kvcache()
        self.backend, self.said, self.index = Failing(self.world), Said(), Index()
        self.begin(self.said)

    def begin(self, speaker: Speaker) -> None:
        """Begin a life of the planner."""
        self.planner = Planner(self.index, self.backend, speaker, 1, self.telemetry, lambda: self.world.now)
        self.planner.speaking = True

    async def turn(self) -> None:
        """Plan until nothing is due at this moment."""
        for subject, (event, cause) in self.world.states.items():
            self.index.take(subject, event, cause)
        self.index.touch(NAMESPACE)
        for _ in range(5):
            due = self.index.take_touched() | self.planner.due(self.world.now)
            if not due:
                return
            if await self.planner.run(NAMESPACE, self.world.freshness()):
                await self.planner.run(NAMESPACE, self.world.freshness(), self.world.live)
        raise AssertionError("it plans for ever")

    def placed(self) -> tuple[str, str, str]:
        found = next(item for item in self.said.statuses[-1].conditions if item.type == "Placed")
        return found.status, found.reason, found.message

    def row(self, node: str) -> tuple[str, str]:
        return next((row.state, row.message) for row in self.said.statuses[-1].nodes if row.node == node)


@pytest.fixture
async def rig():
    telemetry = Telemetry("placement")
    yield Rig(telemetry)
    telemetry.shutdown()


async def serve(rig: Rig) -> None:
    """A cache beside an engine on a."""
    rig.world.engine("u1", "a", wanted=1)
    await rig.turn()
    rig.world.cache_runs("a")
    await rig.turn()


async def test_a_cache_that_could_not_be_asked_for_is_told_as_missing_with_the_reason(rig):
    rig.backend.failing = {"a"}
    rig.world.engine("u1", "a", wanted=1)
    await rig.turn()
    assert [status.nodes[0].state for status in rig.said.statuses] == ["missing"]
    assert rig.row("a") == ("missing", f"no cache could be asked for on a: {REASON}")
    assert rig.placed() == ("False", "StepFailed", f"no cache could be asked for on a: {REASON}")


async def test_a_step_that_failed_is_taken_once_it_can_be_and_not_tried_before(rig):
    rig.backend.failing = {"a"}
    rig.world.engine("u1", "a", wanted=1)
    await rig.turn()
    rig.world.later(4)
    await rig.turn()
    assert rig.backend.asked == ["place a"]
    rig.backend.failing = set()
    rig.world.later(1)
    assert rig.planner.next_due == rig.world.now
    await rig.turn()
    assert rig.backend.asked == ["place a", "place a"]
    assert rig.row("a")[0] == "starting"
    assert rig.placed()[0] == "True"


async def test_a_cache_that_could_not_be_told_to_go_stays_and_says_why(rig):
    await serve(rig)
    rig.world.engine_gone("u1", "a")
    rig.world.live = {WORKLOAD: LiveWorkload(True, 0, 0)}
    rig.backend.failing = {"a"}
    await rig.turn()
    assert all(row.state != "leaving" for status in rig.said.statuses for row in status.nodes)
    assert rig.row("a") == ("serving", f"kept: {REASON}")
    rig.backend.failing = set()
    rig.world.later(5)
    await rig.turn()
    assert rig.row("a")[0] == "leaving"


async def test_an_end_that_could_not_be_cleaned_up_is_not_told_before_it_was(rig):
    await serve(rig)
    rig.world.kvcache(replicas=0)
    await rig.turn()
    rig.world.cache_ended("a")
    rig.backend.failing = {"a"}
    await rig.turn()
    assert rig.row("a") == ("leaving", "")
    rig.backend.failing = set()
    rig.world.later(5)
    await rig.turn()
    assert rig.row("a")[0] == "missing"
    assert rig.backend.asked == ["place a", "remove a", "finish a", "finish a"]


@pytest.mark.parametrize("known", [False, True])
async def test_a_next_life_tells_again_of_no_engine_that_started_without_its_cache(rig, known):
    class Events:
        def __init__(self) -> None:
            self.told: list[str] = []

        def say(self, namespace: str, name: str, uid: str, what: tuple[Any, ...]) -> None:
            self.told.append(what[1])

    rig.world.engine("u1", "a", gate=GateResult(outcome="timeout", reason="SocketMissing"))
    await rig.turn()
    events = Events()
    rig.begin(Statuses(None, {}.get, events))
    await rig.planner.adopt(rig.said.statuses[-1:] if known else [])
    await rig.turn()
    assert rig.said.statuses[-1].nodes[0].without_cache == ("pod-u1",)
    assert events.told == ([] if known else ["EngineStartedWithoutCache"])


async def test_a_node_whose_step_fails_holds_no_other_up(rig):
    rig.backend.failing = {"a"}
    rig.world.engine("u1", "a", wanted=2)
    rig.world.engine("u2", "b", wanted=2)
    await rig.turn()
    assert rig.backend.asked == ["place a", "place b"]
    assert (rig.row("a")[0], rig.row("b")[0]) == ("missing", "starting")
