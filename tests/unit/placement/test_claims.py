"""Where no cache can be: the directory alone is asked for, so that gates there follow the manifest."""

from datetime import timedelta

import pytest

from kvberth.placement import facts
from kvberth.placement.apply.kubernetes import directories
from kvberth.placement.apply.log import log_event
from kvberth.placement.states import Cause, Wanted
from kvberth.placement.steps import failed
from kvberth_schemas.events import SocketGoneV1
from kvberth_schemas.registry import decode
from kvberth_schemas.subjects import socket
from kvberth_schemas.wants import DirWantV1, Why
from support.placement_world import NAMESPACE, START, World, told

WAIT = {"gate": {"policy": "wait", "timeoutSeconds": 20}}


def crowded(**options) -> World:
    """An engine on a node that has no room for its cache."""
    world = World()
    world.node("a", free=10)
    world.kvcache(spec=WAIT, **options)
    world.engine("u1", "a")
    return world


def claim_on(world: World, node: str = "a") -> Wanted:
    return world.wanted[NAMESPACE, "kv", node]


def agent_let_go(world: World, node: str = "a") -> None:
    world.say(socket(node, NAMESPACE, "kv"), SocketGoneV1(cache="kv", namespace=NAMESPACE, node=node))


def test_gates_where_a_cache_does_not_fit_follow_the_manifest():
    world = crowded()
    assert told(world.act()) == ["claim a"]
    assert (claim_on(world).gate.policy, claim_on(world).gate.timeout_s) == ("wait", 20)
    assert told(world.act()) == [], "it is asked for once"
    assert (world.row("a").state, world.condition("Placed").reason) == ("missing", "CannotFit")
    assert world.snapshot().cluster.promised == {}, "a directory takes no room"


@pytest.mark.parametrize(
    "spec",
    [
        {"placement": {"nodeSelector": {"disk": "fast"}}},
        {"pools": [{"name": "small", "gpuType": "T4", "gpuLabelKey": "gpu"}]},
    ],
    ids=["excluded", "no pool"],
)
def test_so_do_gates_where_the_manifest_wants_no_cache_of_these_engines(spec):
    world = World()
    world.node("a", gpu="H100")
    world.kvcache(spec={**WAIT, **spec})
    world.engine("u1", "a")
    assert told(world.act()) == ["claim a"]


def test_a_manifest_that_says_nothing_about_gates_needs_no_directory():
    world = crowded()
    world.kvcache()
    assert told(world.act()) == []


@pytest.mark.parametrize("options", [{"paused": True}, {"replicas": 0}], ids=["paused", "off"])
def test_nothing_is_asked_for_while_the_user_wants_nothing(options):
    assert told(crowded(**options).act()) == []


def test_another_word_about_gates_is_brought_at_once():
    world = crowded()
    world.act()
    world.kvcache(spec={"gate": {"policy": "startWithoutCache"}})
    assert told(world.act()) == ["claim a"]
    assert claim_on(world).gate.policy == "startWithoutCache"
    world.kvcache()
    assert told(world.act()) == ["release a"]


def test_a_cache_takes_the_directory_over_when_there_is_room():
    world = crowded()
    world.act()
    world.node("a")
    assert told(world.act()) == ["place a"]
    world.cache_runs("a")
    assert told(world.act()) == []
    assert world.row("a").state == "serving"


def test_it_is_let_go_with_the_last_engine_and_nothing_is_told_of_a_cache():
    world = crowded()
    world.act()
    world.engine("u1", "a", deleting=True)
    assert told(world.act()) == [], "it still waits there"
    world.engine_gone("u1", "a")
    assert told(world.act()) == ["release a"]
    assert told(world.act()) == [], "the agent has not said so yet"
    agent_let_go(world)
    world.later(61)
    plan = world.act()
    assert told(plan) == ["finish a"]
    assert [log_event(NAMESPACE, step, "1-1") for step in plan.steps] == [None]
    assert world.wanted == {}
    assert told(world.act()) == []


def test_an_engine_that_comes_while_it_is_let_go_has_it_again():
    world = crowded()
    world.act()
    world.engine_gone("u1", "a")
    world.act()
    world.engine("u2", "a")
    assert told(world.act()) == ["claim a"]
    agent_let_go(world)
    world.later(61)
    assert told(world.act()) == []


@pytest.mark.parametrize("end", ["deleted", "off"])
def test_it_is_let_go_when_the_user_wants_no_cache(end):
    world = crowded()
    world.act()
    if end == "deleted":
        world.kvcache_gone()
    else:
        world.kvcache(spec=WAIT, replicas=0)
    assert told(world.act()) == ["release a"]
    agent_let_go(world)
    world.later(61)
    assert told(world.act()) == ["finish a"]
    assert world.plan().finished == (("kv",) if end == "deleted" else ())


def test_a_paused_kvcache_keeps_what_it_has():
    world = crowded()
    world.act()
    world.kvcache(spec=WAIT, paused=True)
    world.engine_gone("u1", "a")
    assert told(world.act()) == []


def test_a_node_that_is_gone_takes_it_along_and_nothing_is_told_of_a_cache():
    world = crowded()
    world.act()
    world.node_gone("a")
    plan = world.act()
    assert told(plan) == ["forget a"]
    assert [log_event(NAMESPACE, step, "1-1") for step in plan.steps] == [None]


def test_while_a_directory_alone_is_let_go_beside_an_engine_no_cache_is_said_to_leave():
    world = crowded()
    world.act()
    world.kvcache()
    assert told(world.act()) == ["release a"]
    world.act()
    assert world.row("a").state == "missing"
    assert "cannot fit" in world.row("a").message
    assert (world.condition("Placed").reason, world.condition("SocketsReady").reason) == ("CannotFit", "NotAnswering")
    assert "no cache was placed on a" in world.condition("SocketsReady").message


def hold(world: World, step) -> None:
    world.held["kv", step.node] = failed(step, "no answer", world.now + timedelta(seconds=5))


def test_a_claim_that_failed_is_told_and_tried_again_later():
    world = crowded()
    hold(world, world.plan().steps[0])
    assert told(world.act()) == []
    assert (world.condition("Placed").reason, "no answer" in world.condition("Placed").message) == ("CannotFit", True)
    world.later(6)
    assert told(world.act()) == ["claim a"]


def test_a_claim_that_failed_holds_no_cache_back_for_which_there_is_room_now():
    world = crowded()
    hold(world, world.plan().steps[0])
    world.node("a")
    assert told(world.act()) == ["place a"]


def test_a_release_that_failed_holds_no_cache_back_for_the_next_engine():
    world = crowded()
    world.act()
    world.engine_gone("u1", "a")
    hold(world, world.plan().steps[0])
    assert told(world.act()) == []
    world.node("a")
    world.engine("u2", "a")
    assert told(world.act()) == ["place a"]


def test_a_cache_that_is_just_leaving_is_no_directory_alone():
    world = crowded()
    world.node("a")
    world.act()
    world.cache_runs("a")
    world.kvcache(spec=WAIT, replicas=0)
    assert told(world.act()) == ["remove a"]
    world.node("a", free=10)
    world.kvcache(spec=WAIT)
    assert "claim a" not in told(world.act())


def adopted(world: World, want: DirWantV1, node: str = "a") -> None:
    """The next leader on Kubernetes finds a directory, and no DaemonSet that names its node."""
    said = facts.wanted(None, want, Cause("e", None, 1, START), None)
    world.wanted[NAMESPACE, "kv", node] = directories.adopted(said, want)


@pytest.mark.parametrize(("cache", "logged"), [(False, [None]), (True, ["CacheRemovedV1"])])
def test_the_next_leader_tells_the_end_of_a_cache_and_none_of_a_directory_that_stood_alone(cache, logged):
    world = crowded()
    world.engine_gone("u1", "a")
    adopted(world, directories.drop(NAMESPACE, "kv", Why.IDLE, 1, cache=cache))
    assert told(world.act()) == [], "the agent has not said so yet"
    agent_let_go(world)
    world.later(61)
    plan = world.act()
    assert told(plan) == ["finish a"]
    events = [log_event(NAMESPACE, step, "1-1") for step in plan.steps]
    assert [event and type(event).__name__ for event in events] == logged


def test_an_end_that_a_version_before_asked_for_is_told_as_a_caches():
    payload = b'{"term":1,"state":"drop","why":"idle","namespace":"default","kvcache":"kv"}'
    world = crowded()
    adopted(world, decode("kvberth.want.dir.v1", payload))
    assert not claim_on(world).only_directory


def test_the_next_leader_keeps_a_directory_alone_as_it_was_and_renews_one_that_was_let_go():
    world = crowded()
    (step,) = world.plan().steps
    adopted(world, directories.keep(NAMESPACE, step, 1))
    assert told(world.act()) == []
    adopted(world, directories.drop(NAMESPACE, "kv", Why.IDLE, 1, cache=False))
    assert told(world.act()) == ["claim a"]
