"""Caches that were made from an older manifest begin another life: one at a time, and none that could be spared."""

from typing import Any

import pytest

from kvberth.placement.memory import Trouble
from kvberth.placement.plan import Policy, plan
from kvberth.placement.reasons import Reason
from kvberth.placement.steps import Plan, Restart
from kvberth_schemas import subjects
from kvberth_schemas.events import HealthReason, PodRole, PodScheduledV1, Resources
from support.placement_world import GI, NAMESPACE, World, told

NODES = ("a", "b", "c")


def cache_pod(world: World, node: str, revision: str | None, **options: Any) -> None:
    """The pod of the cache on a node, and its daemon's answer."""
    uid = options.get("uid", f"pod-{node}-{revision}")
    event = PodScheduledV1(
        uid=uid,
        name=uid,
        namespace=NAMESPACE,
        resource_version=world.sequence,
        role=PodRole.CACHE,
        kvcache="kv",
        requests=Resources(memory_bytes=72 * GI, cpu_millis=2000),
        revision=revision,
        deleting=options.get("deleting", False),
        node=node,
    )
    world.say(subjects.pod(NAMESPACE, uid), event)
    if options.get("answers", True):
        world.socket_ready(node, incarnation=uid)
        world.health(node, incarnation=uid)


@pytest.fixture
def outdated() -> World:
    """Three caches that answer, beside engines, all made from `old`; new ones would be made from `new`."""
    world = World()
    for node in NODES:
        world.node(node, free=100, requested=72)
        world.engine(f"e-{node}", node)
    world.kvcache()
    world.act()
    for node in NODES:
        cache_pod(world, node, "old")
    world.act()
    world.revisions["kv"] = {"": "new"}
    return world


def renew(world: World, node: str) -> None:
    """The pod of a restarted cache is gone, and the next one answers."""
    world.pod_gone(f"pod-{node}-old", node)
    cache_pod(world, node, "new")


def test_a_cache_of_an_older_manifest_begins_anew_with_its_pod_named(outdated: World) -> None:
    result = outdated.act()
    assert told(result) == ["restart a"]
    (step,) = result.steps
    assert isinstance(step, Restart)
    assert (step.pod, step.why.value, step.reason) == ("pod-a-old", "upgrade", Reason.OUTDATED)
    assert step.answers
    assert outdated.row("a").state == "starting"
    assert "older manifest" in outdated.row("a").message
    assert outdated.condition("Ready").status.value == "False"


def test_the_next_one_waits_until_the_first_answers_again_and_all_get_their_turn(outdated: World) -> None:
    assert told(outdated.act()) == ["restart a"]
    assert told(outdated.act()) == [], "nothing has been heard of it yet"
    outdated.later(6)
    cache_pod(outdated, "a", "old", deleting=True)
    assert told(outdated.act()) == [], "it still ends"
    outdated.pod_gone("pod-a-old", "a")
    outdated.socket_lost("a")
    assert told(outdated.act()) == []
    assert "the cache on a does not answer" in outdated.row("b").message
    cache_pod(outdated, "a", "new")
    assert told(outdated.act()) == ["restart b"]
    outdated.later(6)
    renew(outdated, "b")
    assert told(outdated.act()) == [], "two a minute are the limit"
    assert "2 restarts a minute" in outdated.row("c").message
    outdated.later(60)
    assert told(outdated.act()) == ["restart c"]
    outdated.later(6)
    renew(outdated, "c")
    assert told(outdated.act()) == []
    assert outdated.condition("Ready").status.value == "True"


def test_while_nothing_is_outdated_or_a_pod_does_not_say_what_it_was_made_from_none_begins_anew(
    outdated: World,
) -> None:
    outdated.revisions["kv"] = {"": "old"}
    assert told(outdated.act()) == []
    outdated.revisions["kv"] = {"": "new"}
    for node in NODES:
        outdated.pod_gone(f"pod-{node}-old", node)
        cache_pod(outdated, node, None)
    assert told(outdated.act()) == []


@pytest.mark.parametrize("missing", ["answer", "node", "agent"])
def test_a_warm_cache_is_not_ended_while_another_is_not_well(outdated: World, missing: str) -> None:
    if missing == "answer":
        outdated.socket_lost("c")
        cache_pod(outdated, "c", "new", uid="pod-c-old", answers=False)
    elif missing == "node":
        outdated.node("a", free=100, requested=72, ready=False)
    else:
        outdated.silent_agents.add("a")
    expected = {"answer": [], "node": ["restart b"], "agent": []}
    assert told(outdated.act()) == expected[missing]


def test_a_cache_that_does_not_answer_has_nothing_to_lose_and_goes_first(outdated: World) -> None:
    outdated.socket_lost("c")
    outdated.restarts["kv"] = (outdated.now, outdated.now)
    (step,) = outdated.act().steps
    assert isinstance(step, Restart)
    assert (step.node, step.answers) == ("c", False)


def test_a_larger_cache_begins_only_where_it_has_room_beside_what_it_replaces(outdated: World) -> None:
    outdated.kvcache(memory="180Gi")
    assert told(outdated.act()) == []
    assert "cannot fit: needs 180Gi, node a has 172Gi in all" in outdated.row("a").message
    assert outdated.row("a").state == "serving"
    outdated.kvcache(memory="172Gi")
    (step,) = outdated.act().steps
    assert isinstance(step, Restart)
    assert (step.node, step.size.memory_bytes) == ("a", 172 * GI)


def test_a_pod_that_hangs_is_not_ended_for_one_that_would_find_no_room(outdated: World) -> None:
    outdated.revisions["kv"] = {"": "old"}
    outdated.kvcache(memory="180Gi")
    outdated.health("a", incarnation="pod-a-old", reason=HealthReason.HUNG)
    outdated.later(30)
    assert told(outdated.act()) == []
    assert outdated.row("a").message.startswith("hangs; begins anew later: cannot fit: needs 180Gi, node a has 172Gi")
    outdated.kvcache(memory="172Gi")
    assert told(outdated.act()) == ["restart a"]


def test_an_engine_that_can_have_no_cache_keeps_no_other_cache_from_its_manifest(outdated: World) -> None:
    outdated.node("d", free=1)
    outdated.engine("e-d", "d")
    assert told(outdated.act()) == ["restart a"]
    assert outdated.row("d").state == "missing"


def test_a_held_one_a_paused_one_and_one_with_a_trouble_wait(outdated: World) -> None:
    index = outdated.index()
    index.set_trouble(NAMESPACE, "kv", Trouble(Reason.QUOTA_EXCEEDED, "exceeded quota: mem"))
    assert _restarts(plan(outdated.snapshot_of(index), Policy(), outdated.now)) == []
    outdated.kvcache(paused=True)
    assert _restarts(outdated.act()) == []


def test_a_cache_that_lost_its_engine_is_left_as_it_is(outdated: World) -> None:
    outdated.engine_gone("e-a", "a")
    outdated.answer(wanted=3, bound=2)
    assert told(outdated.act()) == ["restart b"]


def test_a_pod_that_somebody_else_replaced_runs_with_the_new_size_and_needs_nothing(outdated: World) -> None:
    outdated.kvcache(memory="64Gi")
    for node in NODES:
        renew(outdated, node)
    assert told(outdated.act()) == []
    assert [outdated.row(node).message for node in NODES] == [""] * 3


def test_what_was_at_rest_is_looked_at_once_its_manifest_is_another(outdated: World) -> None:
    outdated.revisions["kv"] = {"": "old"}
    index = outdated.index()
    outdated.at_rest = plan(outdated.snapshot_of(index), Policy(), outdated.now).at_rest
    assert outdated.at_rest["kv"].rows.keys() == set(NODES)
    assert index.set_revisions(NAMESPACE, "kv", {"": "new"})
    assert not index.set_revisions(NAMESPACE, "kv", {"": "new"})
    assert _restarts(plan(outdated.snapshot_of(index), Policy(), outdated.now)) == ["a"]


def test_a_manifest_that_was_another_for_a_moment_ends_no_cache(outdated: World) -> None:
    index = outdated.index()
    assert _restarts(plan(outdated.snapshot_of(index), Policy(), outdated.now)) == ["a"]

    def apply(memory: str) -> list[str]:
        outdated.kvcache(memory=memory)
        subject = subjects.spec(NAMESPACE, "kv")
        index.take(subject, *outdated.states[subject])
        return _restarts(plan(outdated.snapshot_of(index), Policy(), outdated.now))

    assert apply("64Gi") == [], "what new caches would be made from, nobody has said of this one"
    assert index.set_revisions(NAMESPACE, "kv", {"": "new"})
    assert apply("64Gi") == ["a"], "said again, it is the same"


def test_only_a_pod_of_the_present_manifest_must_have_its_size(outdated: World) -> None:
    outdated.health("b", incarnation="pod-b-old", memory_limit=2**28)
    outdated.plan()
    assert outdated.row("b").health == "Proven"
    outdated.kvcache(memory="64Gi")
    item = outdated.index().kvcache(NAMESPACE, "kv")
    assert item is not None
    assert item.spec is not None
    for node, size in (("a", item.spec.size_bytes), ("b", 2**28)):
        renew(outdated, node)
        outdated.health(node, incarnation=f"pod-{node}-new", memory_limit=size)
    outdated.plan()
    assert (outdated.row("a").health, outdated.row("b").health) == ("Proven", "SizeDiffers")
    assert (
        outdated.condition("Healthy").message
        == "b: its store has 256Mi, not 60.8Gi, the memory that is configured less its headroom"
    )


def _restarts(result: Plan) -> list[str]:
    return [step.node for step in result.steps if isinstance(step, Restart)]
