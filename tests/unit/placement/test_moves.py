"""Which ends of caches are moves: those whose engine another one replaced, and no others."""

import pytest

from kvberth.placement.steps import Finish, Remove
from kvberth_schemas.wants import Why
from support.placement_world import World, told


@pytest.fixture
def world() -> World:
    """Five nodes and a KVCache."""
    world = World()
    for name in "abcde":
        world.node(name)
    world.kvcache()
    return world


def serve(world: World, wanted: int, **engines: str) -> None:
    """Bind engines, one after the other, and have their caches answer."""
    for uid, node in engines.items():
        bind(world, uid, node, wanted)
        world.later(5)


def bind(world: World, uid: str, node: str, wanted: int) -> None:
    world.engine(uid, node, wanted=wanted)
    world.engine_process(uid, node)
    world.act()
    world.cache_runs(node, incarnation=f"i-{node}")
    world.act()


def ending(world: World, uid: str, node: str, wanted: int) -> None:
    world.engine(uid, node, wanted=wanted, deleting=True)
    world.act()


def end(world: World, uid: str, node: str) -> None:
    world.engine_gone(uid, node)
    world.engine_process_ended(uid, node)


def all_of(world: World, *nodes: str) -> list[str]:
    """Plan until nothing is left to be done while caches of these nodes end; return what was said of each."""
    said = []
    for _ in range(3):
        result = world.act()
        for step in result.steps:
            if isinstance(step, Remove):
                said.append(f"{step.node} {step.why}")
            if isinstance(step, Finish):
                said.append(step.message)
        for node in nodes:
            if (cache := world.wanted.get(("default", "kv", node))) is not None and not cache.run:
                world.cache_ended(node)
    return said


def again(world: World, wanted: int, **engines: str) -> None:
    """Say that another number is wanted, of every engine that stays."""
    for uid, node in engines.items():
        world.engine(uid, node, wanted=wanted)


def test_a_surge_whose_new_engine_is_bound_before_the_old_one_ends_is_a_move(world):
    serve(world, 1, u1="a")
    serve(world, 1, u2="b")
    ending(world, "u1", "a", 1)
    world.later(480)
    end(world, "u1", "a")
    world.answer(wanted=1, bound=1)
    assert all_of(world, "a") == ["a moved", "relocated from a to b"]


def test_an_engine_that_ends_before_the_new_one_is_bound_moves(world):
    serve(world, 1, u1="a")
    ending(world, "u1", "a", 1)
    end(world, "u1", "a")
    world.answer(wanted=1, bound=0)
    world.act()
    world.later(20)
    serve(world, 1, u2="b")
    world.answer(wanted=1, bound=1)
    assert all_of(world, "a") == ["a moved", "relocated from a to b"]


def test_a_scale_down_is_no_move_though_the_engines_that_stay_came_later(world):
    serve(world, 3, u1="a", u2="b", u3="c")
    again(world, 1, u3="c")
    for uid, node in (("u1", "a"), ("u2", "b")):
        ending(world, uid, node, 1)
        end(world, uid, node)
    world.answer(wanted=1, bound=1)
    assert sorted(all_of(world, "a", "b")) == [
        "a idle",
        "b idle",
        "the cache on a has ended",
        "the cache on b has ended",
    ]
    assert world.status().moved == ""


def test_a_scale_down_by_one_is_no_move(world):
    serve(world, 3, u1="a", u2="b", u3="c")
    again(world, 2, u2="b", u3="c")
    ending(world, "u1", "a", 2)
    end(world, "u1", "a")
    world.answer(wanted=2, bound=2)
    assert all_of(world, "a") == ["a idle", "the cache on a has ended"]


def test_a_scale_down_right_after_a_move_is_no_move(world):
    serve(world, 2, u1="a", u2="b")
    ending(world, "u1", "a", 2)
    serve(world, 2, u3="c")
    end(world, "u1", "a")
    world.answer(wanted=2, bound=2)
    assert all_of(world, "a") == ["a moved", "relocated from a to c"]
    again(world, 1, u3="c")
    ending(world, "u2", "b", 1)
    end(world, "u2", "b")
    world.answer(wanted=1, bound=1)
    assert all_of(world, "b") == ["b idle", "the cache on b has ended"]
    assert world.status().moved == "relocated from a to c"


def test_an_engine_that_came_back_after_its_cache_lingered_out_replaced_nobody(world):
    serve(world, 3, u1="a", u2="b", u3="c")
    ending(world, "u2", "b", 3)
    world.engine("u4", None, wanted=3)
    end(world, "u2", "b")
    world.answer(wanted=3, bound=2)
    world.act()
    world.later(301)
    assert all_of(world, "b") == ["b idle", "the cache on b has ended"]
    serve(world, 3, u4="b")
    again(world, 1, u3="c")
    for uid, node in (("u1", "a"), ("u4", "b")):
        ending(world, uid, node, 1)
        end(world, uid, node)
    world.answer(wanted=1, bound=1)
    assert [word for word in all_of(world, "a", "b") if "relocated" in word or "moved" in word] == []


def test_several_moves_at_once_are_paired_one_to_one(world):
    serve(world, 2, u1="a", u2="b")
    for uid, node in (("u1", "a"), ("u2", "b")):
        ending(world, uid, node, 2)
    serve(world, 2, u3="c", u4="d")
    for uid, node in (("u1", "a"), ("u2", "b")):
        end(world, uid, node)
    world.answer(wanted=2, bound=2)
    said = all_of(world, "a", "b")
    assert {word for word in said if "relocated" not in word} == {"a moved", "b moved"}
    assert {word.split()[-1] for word in said if "relocated" in word} == {"c", "d"}


def test_one_that_moves_and_one_that_is_scaled_away_are_one_move(world):
    serve(world, 2, u1="a", u2="b")
    for uid, node in (("u1", "a"), ("u2", "b")):
        ending(world, uid, node, 1)
    serve(world, 1, u3="c")
    for uid, node in (("u1", "a"), ("u2", "b")):
        end(world, uid, node)
    world.answer(wanted=1, bound=1)
    assert len([word for word in all_of(world, "a", "b") if "relocated" in word]) == 1


def test_a_rollout_by_surge_pairs_each_old_engine_with_its_own_successor(world):
    serve(world, 2, u1="a", u2="b")
    said = []
    for old, left, new, came in (("u1", "a", "u3", "c"), ("u2", "b", "u4", "d")):
        serve(world, 2, **{new: came})
        ending(world, old, left, 2)
        end(world, old, left)
        world.answer(wanted=2, bound=2)
        said += all_of(world, left)
    assert said == ["a moved", "relocated from a to c", "b moved", "relocated from b to d"]


def test_a_surge_that_is_taken_back_is_no_move(world):
    serve(world, 1, u1="a")
    serve(world, 1, u2="b")
    ending(world, "u2", "b", 1)
    end(world, "u2", "b")
    world.answer(wanted=1, bound=1)
    assert all_of(world, "b") == ["b idle", "the cache on b has ended"]


def test_an_engine_replaced_on_its_own_node_leaves_no_successor_for_later(world):
    serve(world, 1, u1="a")
    ending(world, "u1", "a", 1)
    bind(world, "u2", "a", 1)
    end(world, "u1", "a")
    world.act()
    again(world, 2, u2="a")
    serve(world, 2, u3="b")
    again(world, 1, u2="a")
    ending(world, "u3", "b", 1)
    end(world, "u3", "b")
    world.answer(wanted=1, bound=1)
    assert all_of(world, "b") == ["b idle", "the cache on b has ended"]


def test_an_engine_that_moves_beside_another_is_told_as_moved_there(world):
    serve(world, 2, u1="a", u2="b")
    ending(world, "u1", "a", 2)
    bind(world, "u3", "b", 2)
    end(world, "u1", "a")
    world.answer(wanted=2, bound=2)
    assert all_of(world, "a") == ["a moved", "relocated from a to b"]


AT_ONCE = {"a surge": True, "an engine that ends first": False}


@pytest.mark.parametrize("surge", AT_ONCE.values(), ids=AT_ONCE)
@pytest.mark.parametrize("after", ["nothing", "the old one ends", "the new one is bound", "the old one left", "stop"])
def test_a_move_is_told_by_placements_that_were_killed_in_its_midst_however_fast_it_is(world, after, surge):
    """One life after the other is killed at that moment: none of them saw more of the move than the last status."""
    bind(world, "u1", "a", 1)
    steps = {
        "nothing": lambda: None,
        "the old one ends": lambda: ending(world, "u1", "a", 1),
        "the new one is bound": lambda: bind(world, "u2", "b", 1),
        "the old one left": lambda: end(world, "u1", "a"),
        "stop": lambda: (world.answer(wanted=1, bound=1), world.act()),
    }
    order = ["nothing", "the old one ends", "the new one is bound", "the old one left", "stop"]
    if surge:
        order[1], order[2] = order[2], order[1]
    for name in order:
        steps[name]()
        if name == after:
            world.restart()
            world.act(live=False)
            world.restart()
    assert all_of(world, "a")[-1] == "relocated from a to b"


def test_a_move_that_began_while_no_placement_lived_is_told(world):
    bind(world, "u1", "a", 1)
    world.restart()
    world.engine("u2", "b", wanted=1)
    end(world, "u1", "a")
    world.answer(wanted=1, bound=1)
    assert all_of(world, "a") == ["a moved", "relocated from a to b"]


def test_a_scale_down_is_no_move_for_a_placement_that_began_anew(world):
    serve(world, 2, u1="a", u2="b")
    world.restart()
    again(world, 1, u2="b")
    ending(world, "u1", "a", 1)
    world.restart()
    end(world, "u1", "a")
    world.answer(wanted=1, bound=1)
    assert all_of(world, "a") == ["a idle", "the cache on a has ended"]


def test_who_took_over_once_does_not_take_over_again_in_a_later_life(world):
    serve(world, 2, u1="a", u2="b")
    ending(world, "u1", "a", 2)
    bind(world, "u3", "c", 2)
    end(world, "u1", "a")
    world.answer(wanted=2, bound=2)
    assert all_of(world, "a") == ["a moved", "relocated from a to c"]
    world.restart()
    again(world, 1, u3="c")
    ending(world, "u2", "b", 1)
    end(world, "u2", "b")
    world.answer(wanted=1, bound=1)
    assert all_of(world, "b") == ["b idle", "the cache on b has ended"]


def test_engines_that_a_stale_status_does_not_know_came_for_nobody(world):
    """A wiped bus held nobody when it was said."""
    serve(world, 2, u1="a", u2="b")
    known = world.statuses["kv"]
    world.stale = "the scheduler is silent, so pods, nodes and KVCaches are unknown"
    states, world.states = world.states, {key: row for key, row in world.states.items() if "pod" not in str(key)}
    world.restart()
    world.act()
    assert world.statuses["kv"].nodes != known.nodes
    world.stale, world.states = None, states
    again(world, 1, u2="b")
    ending(world, "u1", "a", 1)
    end(world, "u1", "a")
    world.answer(wanted=1, bound=1)
    assert all_of(world, "a") == ["a idle", "the cache on a has ended"]


def test_no_cache_whose_own_engine_left_is_told_as_the_successor(world):
    serve(world, 1, u1="a")
    ending(world, "u1", "a", 1)
    serve(world, 1, u2="b")
    end(world, "u1", "a")
    world.answer(wanted=1, bound=1)
    assert told(world.act()) == ["remove a"]
    end(world, "u2", "b")
    world.cache_ended("a")
    finished = [step for step in world.act().steps if isinstance(step, Finish)]
    assert [step.moved_to for step in finished] == [None]


def test_two_workloads_of_one_model_do_not_move_to_each_other(world):
    green = ("Deployment", "green")
    serve(world, 1, u1="a")
    world.engine("u2", "b", wanted=1, workload=green)
    world.act()
    world.cache_runs("b")
    world.act()
    ending(world, "u1", "a", 0)
    end(world, "u1", "a")
    world.answer(wanted=0, bound=0)
    world.answer(wanted=1, bound=1, workload=green)
    assert all_of(world, "a") == [f"a {Why.SCALED}", "the cache on a has ended"]
