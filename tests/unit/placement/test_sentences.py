"""What status says where something is missing: once, without contradiction, with what to do."""

import pytest

from kvberth_schemas.events import ConditionStatus
from support.placement_world import World, told


@pytest.fixture
def world() -> World:
    """Two nodes and a KVCache."""
    world = World()
    world.node("a")
    world.node("b")
    world.kvcache()
    return world


def messages(world: World, name: str = "kv") -> dict[str, str]:
    return {item.type: item.message for item in world.statuses[name].conditions}


def test_a_waiting_engine_is_told_alike_by_every_condition(world):
    world.engine("u1", None, why="0/2 nodes: 2 without 1 free GPU")
    world.plan()
    told_of_it = "1 engine waits for a node: pod-u1: 0/2 nodes: 2 without 1 free GPU"
    found = messages(world)
    assert [found[kind] for kind in ("Placed", "SocketsReady", "Ready")] == [told_of_it] * 3
    status = world.status()
    assert (status.engines, status.engines_served, status.engines_waiting) == (0, 0, 1)


def test_a_cache_that_does_not_fit_is_told_with_its_numbers_once(world):
    world.node("a", free=30, requested=66)
    world.engine("u1", "a")
    world.act()
    found = messages(world)
    assert found["Placed"] == found["Ready"]
    assert found["SocketsReady"] == "no cache was placed on a"


def test_a_cache_that_never_fits_a_node_is_not_told_to_wait(world):
    world.node("a", free=30)
    world.engine("u1", "a")
    world.act()
    assert messages(world)["Placed"] == (
        "cannot fit: needs 72Gi, node a has 30Gi in all, so it never will; lower spec.cacheSpec.memory"
    )


def test_every_field_that_is_not_understood_is_named(world):
    fields = [f"imagined{letter}" for letter in "ABCDEFGHIJKL"]
    world.kvcache(spec={"cacheSpec": {"memory": "72Gi"}, **dict.fromkeys(fields, 1)})
    world.plan()
    assert [field for field in fields if f"spec.{field}:" not in messages(world)["Accepted"]] == []


def test_fields_that_are_too_many_to_name_are_counted(world):
    world.kvcache(spec={"cacheSpec": {"memory": "72Gi"}, **{f"imagined{number:03}": 1 for number in range(100)}})
    world.plan()
    assert messages(world)["Accepted"].endswith("has 69 more fields of which that is true")


def test_a_cache_that_lacks_cpu_names_that_field(world):
    world.kvcache(spec={"cacheSpec": {"memory": "72Gi", "cpu": "65"}})
    world.engine("u1", "a")
    world.act()
    assert messages(world)["Placed"] == (
        "cannot fit: needs 65 cpu, node a has 64 cpu in all, so it never will; lower spec.cacheSpec.cpu"
    )


def test_a_cache_that_no_node_could_ever_hold_is_told_before_any_engine_is_there(world):
    world.kvcache(memory="720Gi")
    world.plan()
    placed = world.condition("Placed")
    assert (placed.status, placed.reason) == (ConditionStatus.FALSE, "CannotFit")
    assert placed.message == (
        "no node can ever hold a cache: it needs 720Gi, the largest has 500Gi in all; lower spec.cacheSpec.memory"
    )
    world.node("c", free=800)
    world.plan()
    assert world.condition("Placed").reason == "NoEngine"


def test_a_pool_that_does_not_fit_names_its_own_field(world):
    pool = {"name": "big", "resources": {"limits": {"memory": "800Gi"}}}
    world.kvcache(spec={"pools": [pool]})
    world.engine("u1", "a")
    world.act()
    assert messages(world)["Placed"].endswith("lower spec.pools[0].resources.limits.memory")


def test_a_workload_that_no_engine_has_is_told_with_the_one_that_was_meant(world):
    world.kvcache(workload="lama")
    world.engine("u1", "a")
    world.plan()
    assert messages(world)["Placed"] == (
        "no engine with label model.aibrix.ai/name=lama in namespace default; did you mean llama, which engines there "
        "are labelled with? write it in kvcache.orchestration.aibrix.ai/pod-affinity-workload"
    )


def test_each_pool_looks_for_its_own_label(world):
    world.node("a", one="A100", **{"kubernetes.io__hostname": "a"})
    world.node("b", other="T4")
    pools = [
        {"name": "big", "gpuType": "A100", "gpuLabelKey": "one"},
        {"name": "small", "gpuType": "T4", "gpuLabelKey": "other"},
    ]
    world.kvcache(spec={"pools": pools})
    world.plan()
    assert world.condition("Placed").reason == "NoEngine"
    world.kvcache(spec={"pools": [pools[0], pools[1] | {"gpuType": "Tesla-T4"}]})
    world.plan()
    assert messages(world)["Placed"] == "no node has other=Tesla-T4; values seen: T4"


def test_an_engine_in_another_namespace_is_told_with_the_remedy(world):
    world.engine("u1", "a", namespace="serving")
    world.plan()
    assert messages(world)["Placed"] == (
        "no engine with label model.aibrix.ai/name=llama in namespace default; found 1 in serving; "
        "a KVCache serves engines of its own namespace: apply it in serving"
    )


def test_two_kvcaches_for_one_workload_conflict_before_any_engine_is_there(world):
    world.kvcache("kv-v2", age=10)
    world.plan()
    loser = world.condition("Placed", "kv-v2")
    assert (loser.status, loser.reason) == (ConditionStatus.FALSE, "Conflict")
    assert loser.message == (
        "superseded by kv: KVCaches kv and kv-v2 claim workload llama; kv serves, since it is the oldest; "
        "delete one of them, or give it a workload of its own"
    )
    assert world.condition("Placed").reason == "NoEngine"
    assert "kv serves, since it is the oldest" in messages(world)["Placed"]


def test_the_conflict_ends_with_the_other_kvcache(world):
    world.kvcache("kv-v2", age=10)
    world.plan()
    world.kvcache_gone()
    world.engine("u1", "a")
    assert [step.kvcache for step in world.act().steps] == ["kv-v2"]
    assert world.condition("Placed", "kv-v2").status is ConditionStatus.TRUE


@pytest.mark.parametrize("options", [{"replicas": 0}, {"memory": "banana"}, {"workload": "other"}])
def test_a_kvcache_that_serves_nothing_or_something_else_supersedes_nobody(world, options):
    world.kvcache(**options)
    world.kvcache("kv-v2", age=10)
    world.plan()
    assert world.condition("Placed", "kv-v2").reason == "NoEngine"


def test_kvcaches_for_different_gpu_types_do_not_conflict(world):
    world.node("a", gpu="A100")
    world.node("b", gpu="T4")
    world.kvcache(gpu_type="A100", gpu_key="gpu")
    world.kvcache("kv-v2", age=10, gpu_type="T4", gpu_key="gpu")
    world.plan()
    assert world.condition("Placed", "kv-v2").reason == "NoEngine"


def test_the_directory_that_an_engine_mounts_decides_who_is_superseded(world):
    world.kvcache("kv-v2", age=10)
    world.engine("u1", "a", mounts=["kv-v2"])
    assert [step.kvcache for step in world.act().steps] == ["kv-v2"]
    assert world.condition("Placed").reason == "Conflict"
    assert "superseded by kv-v2" in messages(world)["Placed"]
    assert told(world.act()) == []
