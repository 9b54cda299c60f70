"""What all namespaces share is bounded by what is there, however many nodes and models came and went."""

from dataclasses import replace

from kvberth.placement.cluster import ClusterIndex
from kvberth.placement.states import Cache, Cause, Engine, Wanted
from kvberth_schemas.wants import Why
from support.placement_world import START


def wanted():
    """A cache that was asked for and does not run yet."""
    sizes = {"size_bytes": 2, "memory_bytes": 3, "cpu_millis": 4}
    run = {"run": True, "why": Why.WANTED, "uid": "k", "pool": "", "gate": None, "directory": True}
    return Cache(wanted=Wanted(**run, **sizes, since=START, cause=None))


def engine(node, model):
    cause = Cause("e", None, 1, START)
    return Engine("u", "e", model, node, (), None, deleting=False, why_waiting="", cause=cause)


def test_nodes_and_models_that_came_and_went_leave_nothing_behind():
    index = ClusterIndex()
    for number in range(100):
        node, bound = f"spot-{number}", engine(f"spot-{number}", f"model-{number}")
        index.count_engine("default", None, bound)
        assert index.set_cache(node, "default", "kv", wanted())
        assert index.namespaces_on(node) == {"default"}
        assert index.view(frozenset()).promised[node].memory_bytes == 3
        assert index.set_cache(node, "default", "kv", Cache())
        assert index.count_engine("default", bound, None)
        assert index.namespaces_on(node) == set()
    cluster = index.view(frozenset())
    assert (cluster.promised, cluster.engines_elsewhere) == ({}, {})
    assert [name for name, held in vars(index).items() if held and name != "_label_values"] == []


def test_of_two_caches_on_a_node_the_other_stays_promised():
    index = ClusterIndex()
    index.set_cache("a", "one", "kv", wanted())
    index.set_cache("a", "two", "kv", wanted())
    index.set_cache("a", "one", "kv", Cache())
    assert index.view(frozenset()).promised["a"].memory_bytes == 3
    assert index.namespaces_on("a") == {"two"}


def test_an_engine_that_begins_to_end_is_counted_once():
    index = ClusterIndex()
    bound = engine("a", "m")
    index.count_engine("default", None, bound)
    assert not index.count_engine("default", bound, replace(bound, deleting=True))
    assert index.view(frozenset()).engines_elsewhere["m"]["default"] == 1
    assert index.namespaces_on("a") == {"default"}
