"""What a KVCache says of transfer workers that do not serve."""

from dataclasses import replace

import pytest

from kvberth_schemas import subjects
from kvberth_schemas.events import ConditionStatus, HealthReason
from support.placement_world import NAMESPACE, START, World, told

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
STORE = {"blockStore": {"size": "32Gi"}}
WAITS = "Waiting for 1 client that maps an earlier store."


@pytest.fixture
def world():
    """A KVCache with a store of blocks beside each of two engines, where both serve."""
    world = World()
    for node in ("a", "b"):
        world.node(node)
        world.engine(f"e-{node}", node)
    world.kvcache(spec=STORE)
    world.act()
    for node in ("a", "b"):
        world.cache_runs(node)
        world.health(node, blocks="")
    world.act()
    return world


def blocks_ready(world):
    world.plan()
    found = world.condition("BlocksReady")
    return found.status, found.reason, found.message


def test_blocks_can_be_stored_where_all_workers_serve(world):
    assert blocks_ready(world) == (TRUE, "Serving", "blocks can be stored on a, b")


def test_a_worker_that_waits_is_named_with_for_whom_and_keeps_nobody_from_being_ready(world):
    world.health("b", blocks=WAITS)
    assert blocks_ready(world) == (FALSE, "NotServing", f"b: {WAITS[:-1]}")
    assert world.condition("Ready").status is TRUE
    world.health("b", blocks="")
    assert blocks_ready(world)[0] is TRUE


def test_a_cache_beside_which_no_worker_listens_says_so(world):
    world.health("a", blocks="no transfer worker listens in its directory")
    assert blocks_ready(world) == (FALSE, "NotServing", "a: no transfer worker listens in its directory")


def test_a_worker_of_which_its_agent_says_nothing_is_unknown(world):
    world.health("a", blocks=None)
    assert blocks_ready(world) == (
        UNKNOWN,
        "NotProbed",
        "a: nobody could say yet whether its transfer worker serves",
    )


def test_every_worker_that_does_not_serve_is_named(world):
    world.health("a", blocks="There is no store: nobody listens.", reason=HealthReason.STALE)
    world.health("b", blocks=WAITS)
    assert blocks_ready(world)[2] == f"a: There is no store: nobody listens; b: {WAITS[:-1]}"


def test_the_word_of_a_silent_agent_is_unknown(world):
    world.silent_agents.add("b")
    assert blocks_ready(world) == (UNKNOWN, "AgentSilent", "b: its node agent is silent")


def test_on_a_node_that_is_not_ready_nobody_knows(world):
    world.node("b", ready=False)
    assert blocks_ready(world) == (UNKNOWN, "AgentSilent", "b: the node is not ready")


def test_a_worker_that_was_not_asked_yet_is_unknown(world):
    world.node("c")
    world.engine("e-c", "c")
    world.act()
    assert blocks_ready(world) == (UNKNOWN, "NotProbed", "c: its transfer worker was not asked yet")


def test_without_an_engine_nothing_is_known_of_blocks():
    world = World()
    world.node("a")
    world.kvcache(spec=STORE)
    assert blocks_ready(world)[:2] == (UNKNOWN, "NoEngine")


def test_a_kvcache_without_a_store_of_blocks_says_nothing_of_it():
    world = World()
    world.node("a")
    world.engine("e-a", "a")
    world.kvcache()
    world.plan()
    assert "BlocksReady" not in {found.type for found in world.statuses["kv"].conditions}


def test_another_word_on_blocks_makes_a_hang_no_younger(world):
    hung = {"reason": HealthReason.HUNG, "last_proof": START}
    world.health("a", **hung, blocks="")
    assert told(world.act()) == []
    world.later(29)
    before = world.states[subjects.health("a", NAMESPACE, "kv")][1]
    cause = replace(before, id="another", sequence=before.sequence + 1000, heard_s=world.steady_s)
    index = world.index()
    event = world.states[subjects.health("a", NAMESPACE, "kv")][0].model_copy(update={"blocks": "There is no store."})
    index.take(subjects.health("a", NAMESPACE, "kv"), event, cause)
    kept = world.snapshot_of(index).caches["kv"]["a"].health
    assert (kept.said.blocks, kept.cause) == ("There is no store.", before)
