"""What plans make of the words of a cluster: pods of caches, needs of engines, budgets and quotas."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kvberth.kvcache import normalise
from kvberth.placement.cachepods import CachePods
from kvberth.placement.memory import Held, Trouble
from kvberth.placement.needs import needs_beside, needs_of
from kvberth.placement.observe import Index
from kvberth.placement.plan import Policy, plan
from kvberth.placement.reasons import Reason
from kvberth.placement.states import Needs, Node, Priority
from kvberth.placement.steps import Plan, Remove
from kvberth.placement.tolerated import Tolerated, widest
from kvberth.placement.words import SHOWN
from kvberth_schemas.events import PodRole, PodScheduledV1, PodWaitingV1, Resources, Taint, Toleration
from support.placement_world import NAMESPACE, World, manifest, told


def pod(uid: str, node: str | None, **options: Any) -> PodScheduledV1 | PodWaitingV1:
    common = {"uid": uid, "name": f"kv-{uid}", "namespace": NAMESPACE, "resource_version": 1, "role": PodRole.CACHE}
    common |= {"kvcache": "kv", "requests": Resources(), **options}
    return PodWaitingV1(**common, why="Too many pods") if node is None else PodScheduledV1(**common, node=node)


@pytest.fixture
def moving() -> World:
    """A cache on a whose engine ends, and an engine on b."""
    world = World()
    world.node("a")
    world.node("b")
    world.kvcache()
    world.engine("u1", "a")
    world.act()
    world.cache_runs("a")
    world.act()
    world.later(10)
    world.engine("u1", "a", deleting=True)
    world.engine("u2", "b")
    world.act()
    return world


def planned(world: World, index: Index) -> Plan:
    return plan(world.snapshot_of(index), Policy(), world.now)


def test_what_the_drain_of_a_cordoned_node_waits_for_is_told_of_the_engines_kvcache() -> None:
    world = World()
    world.node("a", cordoned=True)
    world.node("b")
    for name, model in (("kv", "llama"), ("other", "mistral")):
        world.kvcache(name, workload=model)
        world.engine(f"e-{name}", "a", model=model)
        world.engine(f"f-{name}", "b", model=model)
    world.act()
    index = world.index()
    found = index.engines_on_cordoned_nodes()
    assert [(namespace, engine.uid) for namespace, engine in found] == [(NAMESPACE, "e-kv"), (NAMESPACE, "e-other")]
    index.take_touched()
    waits = {NAMESPACE: {"e-kv": "a is cordoned: a drain would wait for PDB llama"}}
    assert index.set_drains(waits)
    assert not index.set_drains(dict(waits))
    assert index.take_touched() == {NAMESPACE}
    said = {
        status.name: next(item for item in status.conditions if item.type == "Placed")
        for status in planned(world, index).statuses
    }
    assert (said["kv"].status, said["kv"].message.split("; ")[-1]) == ("True", waits[NAMESPACE]["e-kv"])
    assert "drain" not in said["other"].message
    assert index.set_drains({})
    assert index.take_touched() == {NAMESPACE}


@pytest.mark.parametrize(("closed", "status"), [(True, "False"), (False, "True")])
def test_an_engine_whose_user_may_not_enter_the_directory_is_named(closed: bool, status: str) -> None:
    world = World()
    world.node("a")
    world.kvcache()
    world.engine("u1", "a")
    world.act()
    world.cache_runs("a")
    key = (NAMESPACE, "kv", "a")
    world.wanted[key] = replace(world.wanted[key], needs=Needs(strangers=frozenset(() if closed else ("pod-u2",))))
    world.engine("u2", "a", run_as_user=2000)
    world.kvcache(paused=True)
    world.plan()
    found = world.condition("SocketsReady")
    assert (found.status, found.reason) == (status, "EngineDenied" if closed else "AllAnswered")
    assert ("a: permission denied for uid 2000: engine pod-u2 is neither root nor in" in found.message) == closed
    if closed:
        world.kvcache()
        assert told(world.plan()) == ["place a"]
        assert world.condition("SocketsReady").status == "True", "it is opened by this very plan"


@pytest.mark.parametrize("denied", [1, 6])
def test_users_who_may_not_enter_where_no_cache_fits_are_named_few_and_not_where_it_is_opened_now(denied: int) -> None:
    world = World()
    world.node("a", free=1)
    world.kvcache(spec={"gate": {"policy": "wait"}})
    for number in range(denied):
        world.engine(f"u{number}", "a", run_as_user=2000)
    world.act()
    key = (NAMESPACE, "kv", "a")
    world.wanted[key] = replace(world.wanted[key], needs=Needs())
    assert told(world.plan()) == ["claim a"]
    assert "permission denied" not in world.condition("SocketsReady").message, "it is opened by this very plan"
    world.kvcache(spec={"gate": {"policy": "wait"}}, paused=True)
    world.plan()
    message = world.condition("SocketsReady").message
    assert message.count("permission denied") == min(denied, SHOWN)
    assert (f"and {denied - SHOWN} more" in message) == (denied > SHOWN)


def test_a_cache_lives_as_long_as_its_last_pod_on_a_node() -> None:
    pods = CachePods()
    assert pods.put("p1", pod("p1", "a")) == {("kv", "a")}
    pods.put("p2", pod("p2", "a", deleting=True))
    assert pods.put("p1", None) == {("kv", "a")}
    assert pods.process(("kv", "a")).running
    pods.put("p2", None)
    assert not pods.process(("kv", "a")).running
    assert len(pods) == 0


def test_a_cache_pod_without_a_node_is_told_with_its_reason() -> None:
    pods = CachePods()
    pods.put("p1", pod("p1", None))
    assert pods.waiting() == {"kv": ("pod kv-p1 waits: Too many pods",)}
    pods.put("p1", pod("p1", "b"))
    assert pods.waiting() == {}
    assert pods.names("kv") == {"b": "kv-p1"}


def test_tolerations_are_taken_over_for_as_long_but_those_that_kubernetes_adds() -> None:
    tolerations = (
        Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute", toleration_seconds=300),
        Toleration(key="node.kubernetes.io/unschedulable", operator="Exists"),
        Toleration(key="spot", operator="Exists", effect="NoExecute", toleration_seconds=60),
        Toleration(key="gpu", operator="Exists", effect="NoSchedule"),
    )
    assert needs_of(pod("e", "a", tolerations=tolerations)).tolerations == {
        Tolerated("gpu", "Exists", "", "NoSchedule"),
        Tolerated("spot", "Exists", "", "NoExecute", 60),
    }


def test_of_tolerations_that_match_alike_the_longest_counts() -> None:
    short = Tolerated("spot", "Equal", "yes", "NoExecute", 60)
    others = {
        replace(short, seconds=600): replace(short, seconds=600),
        replace(short, seconds=None): replace(short, seconds=None),
        Tolerated("spot", "Exists", "", ""): Tolerated("spot", "Exists", "", ""),
    }
    for other, left in others.items():
        assert widest([short, other]) == {left}
    for other in (replace(short, value="no"), replace(short, effect="NoSchedule", seconds=None)):
        assert widest([short, other]) == {short, other}
    assert Needs(frozenset({Tolerated("spot", "Exists")})).cover(Needs(frozenset({short})))
    assert not Needs(frozenset({short})).cover(Needs(frozenset({replace(short, seconds=61)})))


def test_a_cache_has_the_highest_priority_of_its_engines(moving: World) -> None:
    node = Node("b", ready=True, labels={}, allocatable=Resources(), requested=Resources())
    engine = next(iter(moving.snapshot().engines)).bound["b"][0]
    engines = [
        replace(engine, needs=needs_of(pod(name, "b", priority_class=name, priority=value)))
        for name, value in (("low", -5), ("gpu-online", 1000), ("batch", 10))
    ]
    needs = needs_beside(engines, node, normalise(manifest()))
    assert needs.priority == Priority("gpu-online", 1000)
    assert not needs.cover(needs_of(pod("x", "b", priority_class="urgent", priority=1001)))
    assert needs_of(pod("x", "b")).priority == Priority()


def test_who_tolerates_everything_needs_a_cache_that_tolerates_the_taints_of_its_node(moving: World) -> None:
    taints = (
        Taint(key="gpu", value="l20", effect="NoSchedule"),
        Taint(key="node.kubernetes.io/unreachable", effect="NoExecute"),
        Taint(key="evict", effect="NoExecute"),
    )
    node = Node("b", ready=True, labels={}, allocatable=Resources(), requested=Resources(), taints=taints)
    engine = next(iter(moving.snapshot().engines)).bound["b"][0]
    every = replace(engine, needs=Needs(frozenset({Tolerated(None, "Exists")})))
    found = needs_beside([every], node, normalise(manifest())).tolerations
    assert found == {Tolerated("gpu", "Equal", "l20", "NoSchedule"), Tolerated("evict", "Exists", "", "NoExecute")}
    some = replace(engine, needs=Needs(frozenset({Tolerated(None, "Exists", "", "NoExecute")})))
    assert needs_beside([some], node, normalise(manifest())).tolerations == {
        Tolerated("evict", "Exists", "", "NoExecute")
    }


def test_an_engine_that_cannot_enter_the_directory_is_a_stranger() -> None:
    assert needs_of(pod("e", "a", run_as_user=2000)).strangers == {"kv-e"}
    assert needs_of(pod("e", "a", run_as_user=2000, supplemental_groups=(10001,))).strangers == set()
    assert needs_of(pod("e", "a", run_as_user=0)).strangers == set()
    assert needs_of(pod("e", "a")).strangers == set()


def test_a_need_that_comes_later_renews_what_is_asked_for(moving: World) -> None:
    key = (NAMESPACE, "kv", "b")
    moving.wanted[key] = replace(moving.wanted[key], needs=Needs())
    assert told(moving.plan()) == []
    moving.wanted[key] = replace(moving.wanted[key], needs=Needs(strangers=frozenset({"gone"})))
    assert told(moving.plan()) == ["place b"]


def test_a_quota_swaps_a_cache_whose_engine_only_ends(moving: World) -> None:
    index = moving.index()
    index.set_trouble(NAMESPACE, "kv", Trouble(Reason.QUOTA_EXCEEDED, "exceeded quota: mem"))
    (step,) = planned(moving, index).steps
    assert isinstance(step, Remove)
    assert (step.node, step.reason) == ("a", Reason.SWAPPED_FOR_QUOTA)


def test_a_quota_swaps_nothing_for_a_node_that_only_has_a_directory(moving: World) -> None:
    moving.node("aa", free=1)
    moving.kvcache(spec={"gate": {"policy": "wait"}})
    moving.engine("u3", "aa")
    moving.act()
    assert moving.wanted[NAMESPACE, "kv", "aa"].only_directory
    index = moving.index()
    index.set_trouble(NAMESPACE, "kv", Trouble(Reason.QUOTA_EXCEEDED, "exceeded quota: mem"))
    (step,) = planned(moving, index).steps
    assert step.message.startswith("swap a for b: ")
    moving.cache_runs("b")
    index = moving.index()
    index.set_trouble(NAMESPACE, "kv", Trouble(Reason.QUOTA_EXCEEDED, "exceeded quota: mem"))
    assert not [step for step in planned(moving, index).steps if step.reason is Reason.SWAPPED_FOR_QUOTA]


def test_a_quota_takes_no_cache_from_a_running_engine(moving: World) -> None:
    moving.engine("u3", "a")
    index = moving.index()
    index.set_trouble(NAMESPACE, "kv", Trouble(Reason.QUOTA_EXCEEDED, "exceeded quota: mem"))
    found = planned(moving, index)
    assert found.steps == ()
    assert _placed(found) == ("False", "QuotaExceeded", "exceeded quota: mem")


def test_other_refusals_swap_nothing(moving: World) -> None:
    index = moving.index()
    index.set_trouble(NAMESPACE, "kv", Trouble(Reason.CREATE_REFUSED, "violates PodSecurity"))
    found = planned(moving, index)
    assert found.steps == ()
    assert _placed(found)[1:] == ("CreateRefused", "violates PodSecurity")


def test_a_removal_that_a_budget_forbids_is_tried_again_only_later(moving: World) -> None:
    moving.cache_runs("b", incarnation="i2")
    moving.engine_gone("u1", "a")
    moving.answer(1, 1)
    index = moving.index()
    held = Held(Reason.BUDGET_REFUSES, "kept: PodDisruptionBudget pdb allows none", moving.now + timedelta(seconds=5))
    moving.held["kv", "a"] = held
    found = planned(moving, index)
    assert found.steps == ()
    assert found.recheck_at == held.until
    assert _placed(found)[:2] == ("True", "BudgetRefuses")
    assert held.message in _placed(found)[2]
    moving.later(5)
    assert told(planned(moving, index)) == ["remove a"]


def test_a_kvcache_that_another_controller_manages_is_not_accepted(moving: World) -> None:
    index = moving.index()
    index.set_trouble(NAMESPACE, "kv", Trouble(Reason.MANAGED_BY_ANOTHER, "Deployment default/kv was made by another"))
    (status,) = planned(moving, index).statuses
    accepted = next(item for item in status.conditions if item.type == "Accepted")
    assert (accepted.status, accepted.reason) == ("False", "ManagedByAnother")


def _placed(found: Plan) -> tuple[str, str, str]:
    (status,) = found.statuses
    placed = next(item for item in status.conditions if item.type == "Placed")
    return placed.status.value, placed.reason, placed.message
