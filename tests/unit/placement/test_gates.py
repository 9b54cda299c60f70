"""What a KVCache says of engines whose gate let them start without their cache, or that had none."""

import pytest

from kvberth.placement.apply.kubernetes.status import status_body
from kvberth.placement.apply.kubernetes.telling import news_of_engines
from kvberth_schemas.events import ConditionStatus, GateResult
from support.placement_world import World

WITHOUT = GateResult(outcome="timeout", reason="SocketMissing", waited_s=30.02)
SENTENCE = "engine pod-u1 started without its cache (timeout after 30 s: SocketMissing)"


@pytest.fixture
def world():
    made = World()
    made.node("a")
    made.kvcache()
    return made


@pytest.mark.parametrize("gate", [None, GateResult(outcome="open", reason="RpcUnreachable", waited_s=1.0)])
def test_an_engine_whose_cache_answered_is_not_told_of(world, gate):
    world.engine("u1", "a", gate=gate)
    world.act()
    world.cache_runs("a")
    world.plan()
    assert (world.row("a").without_cache, world.row("a").message) == ((), "")


@pytest.mark.parametrize("outcome", ["timeout", "fault", "skipped", "unreadable"])
def test_an_engine_that_started_without_its_cache_stands_in_its_row_and_in_a_condition_even_when_that_has_come(
    world, outcome
):
    world.engine("u1", "a", gate=WITHOUT.model_copy(update={"outcome": outcome}))
    world.act()
    world.plan()
    assert world.row("a").without_cache == ("pod-u1",)
    assert "pod-u1 started without its cache" in world.condition("SocketsReady").message
    world.cache_runs("a")
    world.plan()
    assert world.row("a").message == SENTENCE.replace("timeout", outcome)
    assert "pod-u1 started without its cache" in world.condition("Placed").message
    assert world.condition("Ready").status is ConditionStatus.TRUE


def test_a_new_pod_that_waited_for_its_cache_ends_the_complaint(world):
    world.engine("u1", "a", gate=WITHOUT)
    world.act()
    world.cache_runs("a")
    world.plan()
    world.engine_gone("u1", "a")
    world.engine("u2", "a", gate=GateResult(outcome="open"))
    world.plan()
    assert world.row("a").message == ""


def test_kubectl_shows_it_and_an_event_is_recorded_once_for_each_engine(world):
    world.engine("u1", "a", gate=WITHOUT)
    world.act()
    world.plan()
    first = world.status()
    assert status_body(first, {})["nodes"][0]["enginesWithoutCache"] == ["pod-u1"]
    (note,) = news_of_engines(None, first)
    assert SENTENCE in note
    assert news_of_engines(first, first) == []
    world.engine("u2", "a", gate=WITHOUT)
    world.plan()
    assert len(news_of_engines(first, world.status())) == 1


@pytest.mark.parametrize(
    ("legacy", "restarts", "reason"),
    [(True, 1, "RestartedWithoutGate"), (True, 0, "NotAnswering"), (False, 1, "NotAnswering")],
)
def test_a_legacy_engine_that_was_restarted_without_its_cache_is_named(world, legacy, restarts, reason):
    world.engine("u1", "a", legacy=legacy, restarts=restarts)
    world.act()
    world.plan()
    found = world.condition("SocketsReady")
    assert (found.status, found.reason) == (ConditionStatus.FALSE, reason)
    assert ("a: engine pod-u1 was restarted" in found.message) == (reason == "RestartedWithoutGate")
