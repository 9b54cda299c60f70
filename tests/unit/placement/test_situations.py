"""What placement does and says, situation by situation (most of them from people's reports)."""

from datetime import timedelta

import pytest

from kvberth.placement.steps import Finish, Place, Remove
from kvberth_schemas import subjects
from kvberth_schemas.events import ConditionStatus, SocketLostReason
from kvberth_schemas.wants import Why
from support.placement_world import GI, MODEL, NAMESPACE, World, told


@pytest.fixture
def world() -> World:
    """Two nodes and a KVCache."""
    world = World()
    world.node("a")
    world.node("b")
    world.kvcache()
    return world


@pytest.fixture
def serving(world) -> World:
    """An engine on `a` with an answering cache beside it."""
    world.engine("u1", "a")
    world.engine_process("u1", "a")
    world.act()
    world.cache_runs("a")
    world.act()
    return world


# --- adding -----------------------------------------------------------------------------------------------------------


def test_an_engine_that_is_bound_gets_a_cache_on_its_node_because_of_that_event(world):
    cause = world.engine("u1", "a")
    result = world.act()
    assert told(result) == ["place a"]
    step = result.steps[0]
    assert isinstance(step, Place)
    assert (step.cause, step.traceparent) == (cause.id, cause.traceparent)
    assert step.size.memory_bytes == 72 * GI
    assert step.size.size_bytes < step.size.memory_bytes


def test_three_engines_on_three_nodes_get_three_caches_though_replicas_says_one(world):
    world.node("c")
    for uid, node in (("u1", "a"), ("u2", "b"), ("u3", "c")):
        world.engine(uid, node)
    assert told(world.act()) == ["place a", "place b", "place c"]
    assert world.status().wanted_replicas == 1
    assert world.status().engines == 3


def test_two_engines_on_one_node_share_one_cache(world):
    world.engine("u1", "a")
    world.engine("u2", "a")
    assert told(world.act()) == ["place a"]
    world.cache_runs("a")
    world.plan()
    assert world.status().engines_served == 2


def test_a_waiting_engine_gets_nothing_and_status_says_why_it_waits(serving):
    serving.engine("u2", None, why="Insufficient nvidia.com/gpu")
    assert told(serving.act()) == []
    placed = serving.condition("Placed")
    assert placed.status is ConditionStatus.TRUE
    assert "1 engine waits for a node: pod-u2: Insufficient nvidia.com/gpu" in placed.message
    assert serving.condition("Ready").status is ConditionStatus.TRUE


def test_a_waiting_engine_alone_is_no_engine_with_the_reason_it_waits_for(world):
    world.engine("u1", None, why="Insufficient nvidia.com/gpu")
    world.plan()
    ready = world.condition("Ready")
    assert (ready.status, ready.reason) == (ConditionStatus.UNKNOWN, "NoEngine")
    assert "Insufficient nvidia.com/gpu" in ready.message
    assert world.condition("Placed").reason == "EngineWaiting"


def test_an_ending_engine_gets_no_new_cache(world):
    world.engine("u1", "a", deleting=True)
    assert told(world.act()) == []


def test_an_engine_on_an_unknown_node_gets_its_cache_when_the_node_appears(world):
    world.engine("u1", "new")
    assert told(world.act()) == []
    assert world.condition("Placed").reason == "NodeUnknown"
    world.node("new")
    assert told(world.act()) == ["place new"]


def test_an_engine_of_another_workload_gets_nothing(world):
    world.engine("u1", "a", model="qwen")
    assert told(world.act()) == []


def test_an_engine_belongs_by_the_directory_that_it_mounts_where_no_workload_is_named(world):
    world.kvcache(workload=None)
    world.engine("u1", "a", model="anything", mounts=["kv"])
    assert told(world.act()) == ["place a"]


def test_a_cache_that_runs_without_being_asked_for_is_asked_for_where_an_engine_is(world):
    world.engine("u1", "a")
    world.cache_runs("a")
    assert told(world.act()) == ["place a"]
    assert told(world.act()) == []


# --- room -------------------------------------------------------------------------------------------------------------


def test_a_cache_that_does_not_fit_is_told_with_numbers_and_comes_by_itself_once_it_fits(world):
    world.node("a", free=30, requested=66)
    world.engine("u1", "a")
    assert told(world.act()) == []
    placed = world.condition("Placed")
    assert (placed.status, placed.reason) == (ConditionStatus.FALSE, "CannotFit")
    assert placed.message == (
        "cannot fit: needs 72Gi, node a has 30Gi free of 96Gi; lower spec.cacheSpec.memory, or free some there"
    )
    assert world.condition("Ready").status is ConditionStatus.FALSE
    assert world.row("a").state == "missing"
    world.node("a", free=80)
    assert told(world.act()) == ["place a"]


def test_two_caches_of_one_plan_count_together(world):
    world.node("a", free=100)
    world.kvcache("other", workload="qwen", age=1)
    world.engine("u1", "a")
    world.engine("u2", "a", model="qwen")
    assert [step.kvcache for step in world.act().steps] == ["kv"]
    assert "has 28Gi free" in world.condition("Placed", "other").message


def test_a_cache_that_was_asked_for_and_does_not_run_yet_counts_too(world):
    world.node("a", free=100)
    world.kvcache("other", workload="qwen", age=1)
    world.engine("u1", "a")
    world.act()
    world.engine("u2", "a", model="qwen")
    assert told(world.act()) == []


def test_a_cache_that_runs_there_already_counts_itself_out(world):
    world.node("a", free=10, requested=72)
    world.engine("u1", "a")
    world.cache_runs("a")
    assert told(world.act()) == ["place a"]


def test_what_does_not_fit_on_one_node_does_not_hold_up_the_others(world):
    world.node("a", free=30)
    world.engine("u1", "a")
    world.engine("u2", "b")
    assert told(world.act()) == ["place b"]


# --- moving -----------------------------------------------------------------------------------------------------------


def test_a_move_adds_the_new_node_at_once_and_keeps_the_old_one_while_its_engine_ends(serving):
    serving.engine("u1", "a", deleting=True)
    cause = serving.engine("u2", "b")
    serving.answer(wanted=1, bound=1)
    result = serving.act()
    assert told(result) == ["place b"]
    assert result.steps[0].cause == cause.id
    assert serving.row("a").message == "kept: its engine is ending"


def moved(serving: World) -> World:
    serving.engine("u1", "a", deleting=True)
    serving.later(30)
    serving.engine("u2", "b")
    serving.act()
    serving.cache_runs("b", incarnation="i2")
    serving.engine_gone("u1", "a")
    serving.engine_process_ended("u1", "a")
    serving.answer(wanted=1, bound=1)
    return serving


def test_the_old_cache_leaves_when_its_engine_is_gone_and_the_wanted_ones_are_bound(serving):
    result = moved(serving).act()
    assert told(result) == ["remove a"]
    step = result.steps[0]
    assert isinstance(step, Remove)
    assert (step.why, step.reason) == (Why.MOVED, "EnginesBoundElsewhere")
    assert serving.row("a").state == "leaving"


def test_nothing_is_removed_before_the_live_read_was_answered(serving):
    result = moved(serving).act(live=False)
    assert told(result) == []
    assert result.questions == {("Deployment", "llama")}
    assert result.undecided == {"kv"}
    assert result.recheck_at is not None


def test_a_live_read_that_is_ahead_of_our_view_removes_nothing_yet(serving):
    serving.engine_gone("u1", "a")
    serving.engine_process_ended("u1", "a")
    serving.answer(wanted=1, bound=1)  # bound, but the new cache was not asked for yet
    assert told(serving.act()) == []


def test_a_live_read_that_knows_of_fewer_engines_than_our_view_removes_nothing(serving):
    moved(serving).answer(wanted=1, bound=0)  # the scheduler lost the new one already
    assert told(serving.act()) == []


@pytest.mark.parametrize("options", [{"paused": True}, {"memory": "banana"}, {"memory": "banana", "replicas": 0}])
def test_nothing_of_a_paused_or_broken_kvcache_is_removed(serving, options):
    moved(serving).kvcache(**options)
    assert told(serving.act()) == []


def test_an_engine_that_returns_as_the_cache_ends_gets_it_anew_and_nothing_is_cleaned_up(serving):
    moved(serving).act()
    serving.cache_ended("a")
    serving.engine("u3", "a")
    assert told(serving.act()) == ["place a"]


def test_the_end_of_the_old_cache_is_told_as_a_move(serving):
    moved(serving).act()
    serving.cache_ended("a")
    result = serving.act()
    assert told(result) == ["finish a"]
    step = result.steps[0]
    assert isinstance(step, Finish)
    assert (step.moved_to, step.message) == ("b", "relocated from a to b")
    status = serving.status()
    assert (status.moved, status.moved_at) == ("relocated from a to b", serving.now)
    assert [row.node for row in status.nodes] == ["b"]
    assert (status.engines_served, status.engines) == (1, 1)
    assert serving.condition("Ready").status is ConditionStatus.TRUE


def test_a_move_stays_told_with_its_time(serving):
    moved(serving).act()
    serving.cache_ended("a")
    serving.act()
    at = serving.now
    serving.later(100)
    serving.act()
    assert (serving.status().moved, serving.status().moved_at) == ("relocated from a to b", at)


def test_scaling_down_is_no_move(serving):
    serving.engine("u2", "b")
    serving.act()
    serving.cache_runs("b")
    serving.act()
    serving.later(60)
    serving.engine_gone("u2", "b")
    serving.answer(wanted=1, bound=1)
    assert told(serving.act()) == ["remove b"]
    serving.cache_ended("b")
    serving.act()
    assert serving.status().moved == ""


def test_scaling_away_an_engine_that_began_a_moment_before_another_is_no_move(serving):
    serving.later(0.021)
    serving.engine("u2", "b")
    serving.act()
    serving.cache_runs("b")
    serving.later(60)
    serving.engine_gone("u1", "a")
    serving.engine_process_ended("u1", "a")
    serving.answer(wanted=1, bound=1)
    assert told(serving.act()) == ["remove a"]
    serving.cache_ended("a")
    assert told(serving.act()) == ["finish a"]
    assert serving.status().moved == ""


def test_a_cache_stays_while_a_process_of_its_engine_lives_though_the_pod_is_gone(serving):
    moved(serving)
    serving.engine_process("u1", "a")
    assert told(serving.act()) == []


def test_a_cache_stays_while_any_process_there_uses_its_directory(serving):
    moved(serving)
    serving.engine_process("stranger", "a", model="x", directories=["/var/run/vineyard-kubernetes/default/kv"])
    assert told(serving.act()) == []


def test_a_silent_runner_keeps_its_cache(serving):
    moved(serving)
    serving.silent_runners.add("a")
    assert told(serving.act()) == []
    assert "the runner of a is silent" in serving.condition("Placed").message


def test_an_unreadable_pod_stops_every_removal_of_its_namespace_and_no_addition(serving):
    moved(serving)
    serving.unreadable[subjects.pod(NAMESPACE, "u9")] = "garbage"
    serving.node("c")
    serving.engine("u3", "c")
    assert told(serving.act()) == ["place c"]


def test_an_unreadable_process_keeps_the_caches_of_its_node(serving):
    moved(serving)
    serving.unreadable[subjects.process("a", NAMESPACE, "u1", "engine")] = "garbage"
    assert told(serving.act()) == []


def test_the_gap_between_two_pods_of_a_recreate_rollout_keeps_the_warm_cache(serving):
    serving.engine_gone("u1", "a")
    serving.engine_process_ended("u1", "a")
    serving.answer(wanted=1, bound=0)
    assert told(serving.act()) == []
    assert "Deployment/llama wants 1 and has 0 bound" in serving.condition("Placed").message
    serving.engine("u2", "a")
    assert told(serving.act()) == []


def test_a_warm_cache_is_kept_for_a_pending_engine(serving):
    serving.engine_gone("u1", "a")
    serving.engine_process_ended("u1", "a")
    serving.engine("u2", None)
    serving.answer(wanted=1, bound=0)
    assert told(serving.act()) == []


def test_linger_ends_the_waiting_for_an_engine_that_never_comes(serving):
    serving.engine_gone("u1", "a")
    serving.engine_process_ended("u1", "a")
    serving.answer(wanted=1, bound=0)
    serving.later(299)
    assert told(serving.act()) == []
    serving.later(2)
    assert told(serving.act()) == ["remove a"]


def test_an_owner_that_cannot_be_asked_is_left_to_linger(serving):
    serving.engine("u1", "a", workload=("LeaderWorkerSet", "llama"))
    serving.engine_gone("u1", "a", workload=("LeaderWorkerSet", "llama"))
    serving.engine_process_ended("u1", "a")
    assert serving.act().questions == frozenset()
    serving.later(301)
    assert told(serving.act()) == ["remove a"]


def test_an_engine_scaled_to_zero_loses_its_cache_at_once(serving):
    serving.engine_gone("u1", "a")
    serving.engine_process_ended("u1", "a")
    serving.answer(wanted=0, bound=0)
    result = serving.act()
    assert told(result) == ["remove a"]
    assert isinstance(result.steps[0], Remove)
    assert result.steps[0].why is Why.SCALED
    ready = serving.condition("Ready")
    assert (ready.status, ready.reason) == (ConditionStatus.UNKNOWN, "NoEngine")


def test_a_deleted_workload_wants_nothing_any_more(serving):
    serving.engine_gone("u1", "a")
    serving.engine_process_ended("u1", "a")
    serving.answer(wanted=0, bound=0, found=False)
    assert told(serving.act()) == ["remove a"]


def test_an_engine_that_returns_before_the_cache_ended_gets_it_back(serving):
    moved(serving).act()
    serving.engine("u3", "a")
    assert told(serving.act()) == ["place a"]
    assert told(serving.act()) == []


def test_a_stopped_cache_that_is_about_to_restart_has_not_ended(serving):
    moved(serving).act()
    serving.cache_ended("a", restarting=True)
    assert told(serving.act()) == []


def test_a_stopped_cache_of_which_nobody_ever_spoke_is_given_up_after_a_minute(world):
    world.engine("u1", "a")
    world.act()
    world.engine_gone("u1", "a")
    world.answer(wanted=0, bound=0)
    assert told(world.act()) == ["remove a"]
    result = world.act()
    assert told(result) == []
    assert result.recheck_at == world.now + timedelta(seconds=60)
    world.later(61)
    assert told(world.act()) == ["finish a"]


# --- pods by uid ------------------------------------------------------------------------------------------------------


def test_a_late_delete_of_the_old_uid_does_not_touch_the_cache_of_the_new_one(world):
    world.engine("old", "a", name="qwen-0")
    world.act()
    world.engine("new", "b", name="qwen-0")
    world.act()
    world.engine_gone("old", "a")
    world.answer(wanted=1, bound=1)
    assert told(world.act()) == ["remove a"]
    assert world.wanted[NAMESPACE, "kv", "b"].run


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_an_engine_on_a_lost_node_does_not_hold_the_new_one_back(serving):
    serving.node("a", ready=False)
    serving.silent_runners.add("a")
    serving.silent_agents.add("a")
    serving.engine("u1", "a", deleting=True)
    serving.engine("u2", "b")
    serving.answer(wanted=1, bound=1)
    assert told(serving.act()) == ["place b"]
    serving.cache_runs("b")
    serving.act()
    status = serving.status()
    assert (status.engines, status.engines_served) == (1, 1)
    assert serving.row("a").state == "unknown"
    assert serving.condition("Ready").status is ConditionStatus.TRUE


def test_a_lost_node_that_returns_loses_its_old_cache(serving):
    serving.node("a", ready=False)
    serving.engine("u1", "a", deleting=True)
    serving.engine("u2", "b")
    serving.act()
    serving.cache_runs("b")
    serving.node("a", ready=True)
    serving.engine_gone("u1", "a")
    serving.engine_process_ended("u1", "a")
    serving.answer(wanted=1, bound=1)
    assert told(serving.act()) == ["remove a"]


def test_a_deleted_node_is_forgotten_and_status_does_not_name_it(serving):
    serving.engine("u1", "a", deleting=True)
    serving.node_gone("a")
    assert told(serving.act()) == ["forget a"]
    assert '"a"' not in serving.status().model_dump_json()
    assert " a" not in serving.condition("Placed").message.replace("a cache", "")
    assert told(serving.act()) == []


def test_a_move_is_forgotten_with_the_node_that_it_names(serving):
    moved(serving).act()
    serving.cache_ended("a")
    serving.act()
    serving.node_gone("a")
    serving.act()
    assert serving.status().moved == ""


def test_an_unreadable_node_is_not_a_deleted_one(serving):
    serving.states.pop(subjects.node("a"))
    serving.unreadable[subjects.node("a")] = "garbage"
    assert told(serving.act()) == []


# --- the user's word --------------------------------------------------------------------------------------------------


def test_replicas_zero_removes_the_cache_beside_a_running_engine(serving):
    serving.kvcache(replicas=0)
    result = serving.act()
    assert told(result) == ["remove a"]
    assert isinstance(result.steps[0], Remove)
    assert result.steps[0].why is Why.USER
    ready = serving.condition("Ready")
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "TurnedOff")


def test_a_deleted_kvcache_loses_its_caches_and_then_its_status(serving):
    serving.kvcache_gone()
    assert told(serving.act()) == ["remove a"]
    serving.cache_ended("a")
    result = serving.act()
    assert told(result) == ["finish a"]
    assert result.finished == ("kv",)
    assert result.statuses == ()


def test_a_kvcache_that_merely_was_not_found_keeps_its_caches(serving):
    serving.kvcache_gone(by_user=False)
    assert told(serving.act()) == []
    ready = serving.condition("Ready")
    assert (ready.status, ready.reason) == (ConditionStatus.UNKNOWN, "NotFound")


def test_a_kvcache_of_which_nothing_was_ever_said_is_left_alone(world):
    world.cache_runs("a", "orphan")
    assert told(world.act()) == []


def test_a_new_kvcache_of_the_same_name_renews_what_is_asked_for(serving):
    serving.kvcache(uid="uid-new")
    assert [step.reason for step in serving.act().steps] == ["Renewed"]
    assert told(serving.act()) == []


def test_paused_freezes_and_says_so(serving):
    serving.kvcache(paused=True)
    serving.engine("u2", "b")
    assert told(serving.act()) == []
    placed = serving.condition("Placed")
    assert (placed.status, placed.reason) == (ConditionStatus.FALSE, "Paused")


def test_a_broken_manifest_freezes_its_own_kvcache_and_no_other(serving):
    serving.kvcache(memory="banana")
    serving.kvcache("other", workload="qwen", age=1)
    serving.engine("u2", "b")
    serving.engine("u3", "b", model="qwen")
    assert [(step.kvcache, step.node) for step in serving.act().steps] == [("other", "b")]
    accepted = serving.condition("Accepted")
    assert accepted.status is ConditionStatus.FALSE
    assert "spec.cacheSpec.memory" in accepted.message
    assert serving.condition("Ready").status is ConditionStatus.FALSE


def test_an_unreadable_spec_freezes_its_kvcache(serving):
    moved(serving)
    serving.unreadable[subjects.spec(NAMESPACE, "kv")] = "the body is no JSON"
    assert told(serving.act()) == []
    assert serving.condition("Ready").reason == "Unreadable"


def test_another_size_does_not_touch_a_running_cache_and_is_told(serving):
    serving.kvcache(memory="40Gi")
    assert told(serving.act()) == []
    assert (
        "its store has 68.4Gi: 38Gi, the memory less its headroom, holds when it is placed anew"
        in serving.condition("Placed").message
    )


def test_another_gate_renews_the_directory(serving):
    serving.kvcache(spec={"gate": {"policy": "wait", "timeoutSeconds": 60}})
    assert [step.reason for step in serving.act().steps] == ["Renewed"]
    assert told(serving.act()) == []


# --- belonging --------------------------------------------------------------------------------------------------------


def test_of_two_kvcaches_for_one_workload_the_older_serves_and_the_other_says_conflict(world):
    world.kvcache("kv-v2", age=10)
    world.engine("u1", "a")
    assert [step.kvcache for step in world.act().steps] == ["kv"]
    loser = world.condition("Ready", "kv-v2")
    assert (loser.status, loser.reason) == (ConditionStatus.FALSE, "Conflict")
    assert "superseded by kv: KVCaches kv and kv-v2 claim workload llama" in loser.message
    assert world.condition("Placed").status is ConditionStatus.TRUE


def test_no_engine_says_where_one_with_that_label_is(world):
    world.engine("u1", "a", namespace="serving")
    world.plan()
    message = world.condition("Ready").message
    assert f"no engine with label model.aibrix.ai/name={MODEL} in namespace default; found 1 in serving" in message


def test_a_gpu_type_that_no_node_carries_is_told_with_the_values_seen(world):
    world.node("a", nvidia__com="x", **{"nvidia.com__gpu.product": "Tesla-T4"})
    world.kvcache(gpu_type="T4", gpu_key="nvidia.com/gpu.product")
    world.engine("u1", "a")
    assert told(world.act()) == []
    placed = world.condition("Placed")
    assert (placed.status, placed.reason) == (ConditionStatus.FALSE, "NoNodeWithLabel")
    assert "no node has nvidia.com/gpu.product=T4; values seen: Tesla-T4" in placed.message


def test_each_pool_serves_its_own_kind_of_node(world):
    world.node("a", gpu="A100")
    world.node("b", gpu="T4")
    pools = [
        {"name": "big", "gpuType": "A100", "gpuLabelKey": "gpu", "resources": {"limits": {"memory": "64Gi"}}},
        {"name": "small", "gpuType": "T4", "gpuLabelKey": "gpu", "resources": {"limits": {"memory": "8Gi"}}},
    ]
    world.kvcache(spec={"pools": pools})
    world.engine("u1", "a")
    world.engine("u2", "b")
    placed = {step.node: (step.pool, step.size.memory_bytes) for step in world.act().steps if isinstance(step, Place)}
    assert placed == {"a": ("big", 64 * GI), "b": ("small", 8 * GI)}


def test_a_pool_that_is_turned_off_loses_its_caches_and_the_others_keep_theirs(world):
    world.node("a", gpu="A100")
    world.node("b", gpu="T4")
    pools = [{"name": name.lower(), "gpuType": name, "gpuLabelKey": "gpu"} for name in ("A100", "T4")]
    world.kvcache(spec={"pools": pools})
    world.engine("u1", "a")
    world.engine("u2", "b")
    world.act()
    world.kvcache(spec={"pools": [pools[0], pools[1] | {"replicas": 0}]})
    assert told(world.act()) == ["remove b"]
    assert told(world.act()) == []
    assert "pool t4, which serves node b, has replicas 0" in world.condition("Placed").message


def test_a_node_that_no_pool_fits_is_told(world):
    world.node("a", gpu="H100")
    world.node("b", gpu="T4")
    world.kvcache(spec={"pools": [{"name": "small", "gpuType": "T4", "gpuLabelKey": "gpu"}]})
    world.engine("u1", "a")
    assert told(world.act()) == []
    assert world.condition("Placed").reason == "NoPool"


def test_a_node_that_the_user_excluded_is_told(world):
    world.kvcache(spec={"placement": {"nodeSelector": {"zone": "one"}}})
    world.engine("u1", "a")
    assert told(world.act()) == []
    assert "node a lacks zone=one" in world.condition("Placed").message


def test_an_engine_that_mounts_another_directory_than_its_kvcache_is_told(world):
    world.kvcache("other", workload="qwen", age=1)
    world.engine("u1", "a", mounts=["other"])
    world.act()
    assert "but mounts the directory of other" in world.condition("Placed").message


def test_an_engine_that_mounts_another_directory_than_its_kvcache_is_not_served(world):
    world.kvcache("other", workload="qwen", age=1)
    world.engine("u1", "a", mounts=["other"])
    world.engine("u2", "b", mounts=["kv"])
    world.act()
    for node in "ab":
        world.cache_runs(node)
    for _ in range(2):  # the second time nothing is new
        world.act()
        sockets, ready = world.condition("SocketsReady"), world.condition("Ready")
        assert (sockets.status, sockets.reason) == (ConditionStatus.FALSE, "DirectoryDiffers")
        assert sockets.message == (
            "engine pod-u1 on a mounts /var/run/vineyard-kubernetes/default/other, not "
            "/var/run/vineyard-kubernetes/default/kv of its KVCache kv, so it can't reach its cache; "
            "mount /var/run/vineyard-kubernetes/default/kv in its pod template"
        )
        assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "DirectoryDiffers")
        assert (world.status().engines_served, world.status().engines) == (1, 2)
    world.engine_gone("u1", "a")
    world.plan()
    assert world.condition("Ready").status is ConditionStatus.TRUE


def test_a_kvcache_whose_rivals_directory_is_mounted_serves_nobody_once_the_rival_is_deleted(world):
    world.kvcache("kv-v2", age=10)
    world.engine("u1", "a", mounts=["kv"])
    world.act()
    world.kvcache_gone()
    world.act()
    world.cache_runs("a", "kv-v2")
    world.act()
    assert world.condition("Ready", "kv-v2").reason == "DirectoryDiffers"
    assert (world.status("kv-v2").engines_served, world.status("kv-v2").engines) == (0, 1)


@pytest.mark.parametrize("path", ["", "/default", "/default/kv/", "/default/kv/deeper"])
def test_an_engine_whose_mount_leads_to_the_directory_is_served(world, path):
    pod = world.engine("u1", "a", mounts=["kv"])
    event, _ = world.states[subjects.pod(NAMESPACE, "u1")]
    mount = event.sockets[0].model_copy(update={"host_path": f"/var/run/vineyard-kubernetes{path}"})
    world.states[subjects.pod(NAMESPACE, "u1")] = (event.model_copy(update={"sockets": (mount,)}), pod)
    world.act()
    world.cache_runs("a")
    world.act()
    assert world.condition("Ready").status is ConditionStatus.TRUE


def test_an_engine_that_mounts_nothing_is_told_so(world):
    world.engine("u1", "a")
    world.act()
    remedy = "to use this one, mount /var/run/vineyard-kubernetes/default/kv in its pod template"
    assert f"an engine of llama mounts no directory of a cache: {remedy}" in world.condition("Placed").message


# --- sockets ----------------------------------------------------------------------------------------------------------


def test_a_socket_of_another_incarnation_than_the_one_that_runs_does_not_serve(serving):
    serving.socket_ready("a", incarnation="i0")
    serving.plan()
    assert serving.status().engines_served == 0
    assert "another daemon answers" in serving.condition("SocketsReady").message


def test_a_lost_socket_is_told_with_its_reason(serving):
    serving.socket_lost("a", reason=SocketLostReason.HUNG)
    serving.plan()
    sockets = serving.condition("SocketsReady")
    assert (sockets.status, sockets.reason) == (ConditionStatus.FALSE, "NotAnswering")
    assert "a: socket hung: nobody listens" in sockets.message
    assert serving.condition("Ready").status is ConditionStatus.FALSE


def test_a_silent_agent_makes_its_own_row_unknown_and_stops_nothing_else(serving):
    serving.silent_agents.add("a")
    serving.engine("u2", "b")
    assert told(serving.act()) == ["place b"]
    assert serving.row("a").state == "unknown"
    serving.cache_runs("b")
    serving.plan()
    assert serving.condition("SocketsReady").status is ConditionStatus.UNKNOWN
    assert serving.condition("Ready").reason == "AgentSilent"


def test_metadata_is_local_for_now(serving):
    metadata = serving.condition("MetadataReady")
    assert (metadata.status, metadata.reason) == (ConditionStatus.TRUE, "Local")


# --- knowing ----------------------------------------------------------------------------------------------------------


def test_a_silent_scheduler_freezes_everything_and_status_says_unknown(serving):
    moved(serving)
    serving.engine("u3", "b")
    serving.kvcache("new", workload="llama2", age=1)
    serving.engine("u4", "a", model="llama2")
    serving.stale = "the scheduler is silent"
    result = serving.act()
    assert told(result) == []
    assert result.questions == frozenset()
    ready = serving.condition("Ready")
    assert (ready.status, ready.reason) == (ConditionStatus.UNKNOWN, "SourceStale")


def test_linger_does_not_start_anew_when_the_scheduler_was_silent_for_a_while(serving):
    serving.engine_gone("u1", "a", workload=("LeaderWorkerSet", "llama"))
    serving.engine_process_ended("u1", "a")
    serving.act()
    serving.later(200)
    serving.stale = "the scheduler is silent"
    serving.act()
    serving.stale = None
    serving.later(101)
    assert told(serving.act()) == ["remove a"]


def test_removals_are_held_to_thirty_a_minute(world):
    names = [f"n{number:02}" for number in range(40)]
    for name in names:
        world.node(name)
        world.engine(f"u-{name}", name)
    world.act()
    for name in names:
        world.engine_gone(f"u-{name}", name)
    world.answer(wanted=0, bound=0)
    first = world.act()
    assert len(first.steps) == 30
    second = world.act()
    assert second.steps == ()
    assert second.recheck_at == world.now + timedelta(minutes=1)
    world.later(60)
    assert len([step for step in world.act().steps if isinstance(step, Remove)]) == 10


# --- status -----------------------------------------------------------------------------------------------------------


def test_a_condition_keeps_its_time_while_its_status_stays(serving):
    since = serving.condition("Ready").since
    serving.later(1000)
    serving.plan()
    assert serving.condition("Ready").since == since
    serving.socket_lost("a")
    serving.plan()
    assert serving.condition("Ready").since == serving.now


def test_nothing_that_changed_gives_the_same_status_to_the_letter(serving):
    serving.plan()
    before = serving.status()
    serving.later(1000)
    serving.plan()
    assert serving.status() == before


def test_status_right_after_the_first_plan_is_placed_and_not_yet_ready(world):
    world.engine("u1", "a")
    world.act()
    status = world.status()
    assert (status.engines_served, status.engines) == (0, 1)
    assert world.condition("Accepted").status is ConditionStatus.TRUE
    assert world.condition("Placed").status is ConditionStatus.TRUE
    assert world.condition("SocketsReady").status is ConditionStatus.FALSE
    assert world.row("a").state == "starting"


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_what_the_stream_forgot_is_forgotten_and_what_is_there_stays(serving):
    serving.kvcache("old", workload="old")
    serving.kvcache_gone("old")
    serving.engine_gone("u9", "b")
    index = serving.index()
    assert serving.snapshot_of(index).departed
    gone = {subjects.spec(NAMESPACE, "old"), subjects.pod(NAMESPACE, "u9"), subjects.pod(NAMESPACE, "u1")}
    index.forget_missing(serving.states.keys() - gone)
    snapshot = serving.snapshot_of(index)
    assert [item.name for item in snapshot.kvcaches] == ["kv"]
    assert snapshot.departed == ()
    assert [sorted(group.bound) for group in snapshot.engines] == [["a"]]  # not said to be gone: unknown, not absent
    assert index.known == len(serving.states) - len(gone)


def test_a_namespace_of_which_nothing_is_left_is_forgotten(world):
    index = world.index()
    world.kvcache_gone()
    event, cause = world.states[subjects.spec(NAMESPACE, "kv")]
    index.take(subjects.spec(NAMESPACE, "kv"), event, cause)
    assert index.namespaces == {NAMESPACE}
    index.forget_missing(set())
    assert index.namespaces == frozenset()
