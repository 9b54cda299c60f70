"""What placement says and does of caches that were proven, that were not, and that hang."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kvberth.placement.memory import Held
from kvberth.placement.plan import Policy, plan
from kvberth.placement.reasons import Reason
from kvberth.placement.steps import Restart
from kvberth_schemas import subjects
from kvberth_schemas.events import ConditionStatus, HealthReason, Verdict
from kvberth_schemas.wants import Why
from support.placement_world import GI, START, World, told

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@pytest.fixture
def world():
    """One KVCache, an engine on each of two nodes, and a cache beside each."""
    world = World()
    for node in ("a", "b"):
        world.node(node)
        world.engine(f"e-{node}", node)
    world.kvcache()
    world.act()
    for node in ("a", "b"):
        world.cache_runs(node)
    world.act()
    return world


def healthy(world):
    world.plan()
    return world.condition("Healthy")


def test_caches_are_healthy_where_bytes_came_back_and_rows_tell_when(world):
    found = healthy(world)
    assert (found.status, found.reason) == (TRUE, "Proven")
    assert found.message == "bytes went in and came back on a, b"
    assert (world.row("a").health, world.row("a").last_proof) == ("Proven", START)
    assert world.condition("Ready").status is TRUE


def test_a_cache_that_was_not_proven_yet_is_unknown_and_ready_all_the_same():
    world = World()
    world.node("a")
    world.engine("e-a", "a")
    world.kvcache()
    world.act()
    world.cache_runs("a", answers=False)
    world.socket_ready("a")
    found = healthy(world)
    assert (found.status, found.reason) == (UNKNOWN, "NotProbed")
    assert world.condition("Ready").status is TRUE


@pytest.mark.parametrize(
    ("reason", "verdict", "status"),
    [
        (HealthReason.HUNG, Verdict.FAILED, FALSE),
        (HealthReason.STALE, Verdict.FAILED, FALSE),
        (HealthReason.WRONG_BYTES, Verdict.FAILED, FALSE),
        (HealthReason.SLOW, Verdict.DEGRADED, FALSE),
        (HealthReason.FULL, Verdict.DEGRADED, FALSE),
        (HealthReason.NOT_PROBED, Verdict.UNKNOWN, UNKNOWN),
    ],
)
def test_the_reason_of_the_agent_is_that_of_condition_and_row(world, reason, verdict, status):
    world.health("b", reason=reason, verdict=verdict)
    found = healthy(world)
    assert (found.status, found.reason) == (status, reason.value)
    assert found.message == f"b: it is {reason.value}; bytes last came back at 2026-11-30T12:00:00Z"
    assert (world.row("b").health, world.row("a").health) == (reason.value, "Proven")
    assert world.condition("Ready").status is (FALSE if status is FALSE else TRUE)
    world.health("b")
    assert healthy(world).status is TRUE


def test_an_engine_without_a_cache_beside_it_has_none_that_takes_bytes(world):
    world.node("c", free=10)
    world.engine("e-c", "c")
    found = healthy(world)
    assert (found.status, found.reason, found.message) == (FALSE, "NotAnswering", "c: no cache is there")
    assert (world.row("c").health, world.row("c").last_proof) == ("", None)


def test_a_reason_of_a_newer_agent_is_borne(world):
    world.health("b", reason=HealthReason.HUNG)
    subject = next(item for item, (event, _) in world.states.items() if getattr(event, "reason", "") == "Hung")
    event, cause = world.states[subject]
    world.states[subject] = (event.model_copy(update={"reason": "Melted"}), cause)
    assert healthy(world).reason == "NotAnswering"


def test_an_agent_that_falls_silent_leaves_unknown_with_the_time_of_the_last_proof(world):
    world.silent_agents.add("a")
    found = healthy(world)
    assert (found.status, found.reason) == (UNKNOWN, "AgentSilent")
    assert found.message == "a: its node agent is silent; bytes last came back at 2026-11-30T12:00:00Z"
    world.silent_since["a"] = START + timedelta(seconds=25)  # it lived, and so vouched for its word, until then
    assert healthy(world).message.endswith("at 2026-11-30T12:00:25Z")
    assert world.row("a").last_proof == START + timedelta(seconds=25)


def test_silence_after_a_failure_does_not_make_its_proof_any_younger(world):
    world.health("a", reason=HealthReason.HUNG)
    world.silent_agents.add("a")
    world.silent_since["a"] = START + timedelta(seconds=25)
    assert healthy(world).message.endswith("at 2026-11-30T12:00:00Z")


def test_a_daemon_that_began_anew_is_not_healthy_by_the_proof_of_the_one_before(world):
    world.cache_runs("a", incarnation="i2", answers=False)
    world.socket_ready("a", incarnation="i2")
    assert (healthy(world).status, world.condition("Healthy").reason) == (UNKNOWN, "NotProbed")
    world.health("a", incarnation="i2")
    assert healthy(world).status is TRUE


def test_a_daemon_with_another_size_than_was_asked_for_is_a_fault_with_both_numbers(world):
    world.health("a", memory_limit=256 * 2**20)
    found = healthy(world)
    assert (found.status, found.reason) == (FALSE, "SizeDiffers")
    assert found.message == "a: its store has 256Mi, not 68.4Gi, the memory that is configured less its headroom"


def hung(world, node="a", **options):
    world.health(node, reason=HealthReason.HUNG, **options)


def passes(world, seconds):
    world.now += timedelta(seconds=seconds)


def test_a_cache_that_hangs_is_restarted_after_its_time_and_once(world):
    hung(world)
    plan = world.act()
    assert told(plan) == []
    assert plan.recheck_at == START + timedelta(seconds=30)
    passes(world, 29)
    assert told(world.act()) == []
    passes(world, 1)
    (step,) = world.act().steps
    assert isinstance(step, Restart)
    assert (step.node, step.why, step.incarnation, step.answers) == ("a", Why.HUNG, "i1", False)
    assert step.message == "restart a: its cache has answered nothing for 30 s"
    assert told(world.act()) == []
    world.cache_runs("a", incarnation="i2")
    passes(world, 120)
    assert told(world.act()) == []
    assert healthy(world).status is TRUE


def test_how_long_a_cache_hangs_is_measured_by_the_clock_of_whoever_waits(world):
    hung(world)
    subject = subjects.health("a", "default", "kv")
    event, cause = world.states[subject]
    world.states[subject] = (event, replace(cause, time=cause.time - timedelta(hours=1)))  # that node's clock is behind
    assert world.act().recheck_at == START + timedelta(seconds=30)
    passes(world, 3600)
    world.jumped_s = 3599  # ours was set ahead
    result = world.act()
    assert told(result) == []
    assert result.recheck_at == world.now + timedelta(seconds=29)
    passes(world, 29)
    assert told(world.act()) == ["restart a"]


def test_a_cache_that_was_proven_unheard_and_hangs_again_gets_its_time_again(world):
    index, subject = world.index(), subjects.health("a", "default", "kv")

    def restarted(seconds, **options):
        passes(world, seconds)
        hung(world, **options)
        index.take(subject, *world.states[subject])
        return told(plan(world.snapshot_of(index), Policy(), world.now))

    assert restarted(0, last_proof=START) == []
    proven = START + timedelta(seconds=60)
    assert restarted(61, last_proof=proven) == []
    assert restarted(29, last_proof=proven) == []
    assert restarted(1, last_proof=proven) == ["restart a"]


def test_a_restart_that_failed_is_not_tried_again_at_once(world):
    hung(world)
    passes(world, 30)
    world.held["kv", "a"] = Held(Reason.STEP_FAILED, "kept: no answer", world.now + timedelta(seconds=5))
    result = world.plan()
    assert result.steps == ()
    assert result.recheck_at == world.now + timedelta(seconds=5)
    assert world.row("a").message == "hangs; kept: no answer"
    passes(world, 5)
    assert told(world.plan()) == ["restart a"]


@pytest.mark.parametrize(("memory", "given"), [("172Gi", 172), ("180Gi", 72)])
def test_a_cache_that_hangs_begins_anew_with_the_new_size_only_where_there_is_room(world, memory, given):
    world.node("a", free=100, requested=72)
    world.kvcache(memory=memory)
    hung(world)
    passes(world, 30)
    (step,) = world.act().steps
    assert isinstance(step, Restart)
    assert step.size.memory_bytes == given * GI
    had = world.wanted["default", "kv", "a"]
    assert (step.size.size_bytes == had.size_bytes) == (given == 72)
    assert ("cannot fit: needs 180Gi, node a has 172Gi in all" in step.message) == (given == 72)


def test_a_cache_that_hangs_begins_anew_as_it_is_on_a_node_that_is_too_full(world):
    world.node("a", free=-10, requested=72)
    hung(world)
    passes(world, 30)
    assert told(world.act()) == ["restart a"]


def test_a_cache_that_is_removed_does_not_begin_anew_as_well(world):
    hung(world)
    world.engine_gone("e-a", "a")
    world.answer(wanted=1, bound=1)
    passes(world, 600)
    world.plan()
    passes(world, 600)
    assert told(world.act()) == ["remove a"]


def test_the_kvcache_says_how_long_a_hang_is_borne(world):
    world.kvcache(spec={"hungRestartSeconds": 5})
    hung(world)
    assert told(world.act()) == []
    passes(world, 5)
    assert told(world.act()) == ["restart a"]


def test_two_restarts_a_minute_are_the_limit_one_after_the_other(world):
    for node in ("c", "d"):
        world.node(node)
        world.engine(f"e-{node}", node)
    world.act()
    for node in ("c", "d"):
        world.cache_runs(node)
    world.act()
    for node in ("a", "b", "c"):
        hung(world, node)
    passes(world, 30)
    assert told(world.act()) == ["restart a"]
    world.cache_runs("a", incarnation="i2")
    assert told(world.act()) == []
    passes(world, 5)
    assert told(world.act()) == ["restart b"]
    world.cache_runs("b", incarnation="i2")
    passes(world, 5)
    assert told(world.act()) == []
    assert "restarts a minute" in world.row("c").message
    passes(world, 51)
    assert told(world.act()) == ["restart c"]


_OTHERS = ["slow", "starting", "another life", "silent agent", "lost node", "paused", "stopping"]


@pytest.mark.parametrize("case", _OTHERS)
def test_nothing_else_is_restarted_for_hanging(world, case):
    hung(world)
    if case == "slow":
        world.health("a", reason=HealthReason.SLOW, verdict=Verdict.DEGRADED)
    if case == "starting":  # nobody saw this life answer: it may reserve its memory still
        hung(world, incarnation=None)
    if case == "another life":
        world.cache_runs("a", incarnation="i2", answers=False)
    if case == "silent agent":
        world.silent_agents.add("a")
    if case == "lost node":
        world.node("a", ready=False)
    if case == "paused":
        world.kvcache(paused=True)
    if case == "stopping":
        world.kvcache_gone()
        world.act()
    passes(world, 600)
    assert not any(isinstance(step, Restart) for step in world.act().steps)


def test_a_verdict_that_is_said_again_stands_since_it_was_said_first(world):
    index, subject = world.index(), subjects.health("a", "default", "kv")

    def since(seconds, reason):
        passes(world, seconds)
        world.health("a", reason=reason, last_proof=START)
        index.take(subject, *world.states[subject])
        return world.snapshot_of(index).caches["kv"]["a"].health.cause.heard_s

    seen = [since(1, HealthReason.HUNG), since(9, HealthReason.HUNG), since(1, HealthReason.STALE)]
    assert seen == [1, 1, 11]


def test_what_an_agent_says_and_nobody_can_read_is_unknown_until_it_says_it_again(world):
    index, subject = world.index(), subjects.health("a", "default", "kv")

    def found():
        (status,) = plan(world.snapshot_of(index), Policy(), world.now).statuses
        return next(item for item in status.conditions if item.type == "Healthy")

    index.set_unreadable({subject: "no JSON"})
    assert (found().status, found().reason) == (UNKNOWN, "NotProbed")
    world.health("a")
    index.take(subject, *world.states[subject])
    index.set_unreadable({})
    assert found().status is TRUE


def test_what_is_not_proven_is_never_at_rest(world):
    assert world.plan().at_rest["kv"].rows.keys() == {"a", "b"}
    hung(world)
    assert world.plan().at_rest["kv"].rows.keys() == {"b"}
