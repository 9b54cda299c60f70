"""The objects of a KVCache as they are rendered, compared and read back."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from kvberth.kvcache import HASH, CacheSize, Variable, normalise
from kvberth.placement.apply.kubernetes import budgets
from kvberth.placement.apply.kubernetes.children import Apply, Blocked, Create, Delete, ours, taken, writes
from kvberth.placement.apply.kubernetes.compare import differences
from kvberth.placement.apply.kubernetes.failures import Failures
from kvberth.placement.apply.kubernetes.kinds import LiveSet
from kvberth.placement.apply.kubernetes.reading import selector
from kvberth.placement.apply.kubernetes.render import (
    CacheSet,
    Owner,
    daemon_set,
    has_rpc,
    nodes_of,
    priority_of,
    rpc_service,
    set_hash,
    sizes_of,
    terms,
    tolerations_of,
)
from kvberth.placement.apply.kubernetes.restarting import revisions
from kvberth.placement.apply.kubernetes.status import is_said, status_body
from kvberth.placement.apply.kubernetes.wanted import Ways, adopted, children
from kvberth.placement.apply.kubernetes.worker import WorkerProgram
from kvberth.placement.reasons import Reason
from kvberth.placement.states import Needs, Priority, Wanted
from kvberth.placement.tolerated import Tolerated
from kvberth_schemas.events import Condition, ConditionStatus, KVCacheStatusV1, NodeRow
from kvberth_schemas.wants import Why
from support.placement_world import manifest

GI = 2**30
OWNER = Owner("default", "kv", "uid-kv")
GPU = Tolerated("nvidia.com/gpu", "Exists", "", "NoSchedule")
SPOT = Tolerated("spot", "Equal", "yes", "NoExecute", 600)
NOW = datetime(2026, 11, 30, tzinfo=UTC)
WAYS = Ways("Local", WorkerProgram("kvberth:1"))
SET = CacheSet(
    owner=OWNER,
    pool="",
    nodes=("b", "a"),
    image="vineyardd:1",
    pull_policy="IfNotPresent",
    size=CacheSize(Decimal(2), 72 * GI, 68 * GI),
    env=(Variable("A", "1"),),
    tolerations=frozenset({GPU, SPOT}),
    rpc=True,
    priority=Priority("gpu-online", 1000),
)


def live(wanted: CacheSet = SET, **metadata: object) -> LiveSet:
    """The set as the API server would have it."""
    body = json.loads(json.dumps(daemon_set(wanted).body))
    meta = {**body["metadata"], "name": "kv", "namespace": "default", "uid": "u1", "resourceVersion": "7", **metadata}
    spec = body["spec"]
    spec["template"]["spec"] |= {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "x"}
    spec["template"]["spec"]["containers"][0]["terminationMessagePath"] = "/dev/termination-log"
    return LiveSet.model_validate({"metadata": meta, "spec": spec})


def asked(*nodes: str, pool: str = "", needs: Needs | None = None) -> dict[str, Wanted]:
    spec = normalise(manifest())
    common = {"why": Why.WANTED, "uid": "uid-kv", "size_bytes": 1, "memory_bytes": 1, "cpu_millis": 1}
    one = Wanted(run=True, pool=pool, gate=spec.gate, directory=True, since=NOW, cause=None, needs=needs, **common)
    return dict.fromkeys(nodes, one)


def test_what_new_pods_are_made_from_is_known_once_the_set_is_seen_as_it_is_wanted() -> None:
    wanted = [daemon_set(SET), rpc_service(OWNER, 9600, "Local")]
    digest = wanted[0].body["metadata"]["annotations"][HASH]
    name = ("DaemonSet", "kv")
    seen = live(generation=2)
    settled = seen.model_copy(update={"status": seen.status.model_copy(update={"observed_generation": 2})})
    assert revisions(wanted, {name: settled}) == {"": digest}
    assert revisions(wanted, {name: seen}) is None, "its controller may still make older ones"
    other = [daemon_set(replace(SET, image="vineyardd:2"))]
    assert revisions(other, {name: settled}) is None, "another one is written, or will be"
    assert revisions(wanted, {}) == {}


def test_variables_reach_the_cache_as_the_manifest_names_them() -> None:
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    env = (Variable("B", value_from=source), Variable("A", "$(B)"), Variable("C"))
    (container,) = daemon_set(replace(SET, env=env)).body["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [
        {"name": "B", "valueFrom": source},
        {"name": "A", "value": "$(B)"},
        {"name": "C", "value": ""},
    ]


def test_a_variable_from_elsewhere_makes_another_pod() -> None:
    one, other = ({"secretKeyRef": {"name": "s", "key": key}} for key in "ab")
    hashes = {set_hash(replace(SET, env=(Variable("A", value_from=source),))) for source in (one, other)}
    assert len(hashes | {set_hash(replace(SET, env=(Variable("A"),)))}) == 3


def test_every_node_has_a_term_of_its_own() -> None:
    found = terms(("b", "a", "b"))
    assert [term["matchFields"][0]["values"] for term in found] == [["a"], ["b"]]


def test_no_node_is_a_term_that_fits_none() -> None:
    assert terms(()) == [
        {
            "matchExpressions": [
                {"key": "kvberth.dev/none", "operator": "Exists"},
                {"key": "kvberth.dev/none", "operator": "DoesNotExist"},
            ]
        }
    ]
    assert nodes_of(daemon_set(replace(SET, nodes=())).body["spec"]) == ()


def test_what_is_rendered_is_read_back() -> None:
    body = daemon_set(SET).body
    spec = body["spec"]
    assert nodes_of(spec) == ("a", "b")
    assert tolerations_of(spec) == {GPU, SPOT}
    assert priority_of(body["metadata"]["annotations"], spec) == SET.priority
    assert priority_of({}, {}) == priority_of({"kvberth.dev/priority": "high"}, {}) == Priority()
    assert has_rpc(spec)
    assert sizes_of(spec) == (68 * GI, 72 * GI, 2000)
    assert nodes_of({}) == ()
    assert sizes_of({}) == (0, 0, 0)


def test_a_cache_without_legacy_engines_opens_no_port_and_has_no_probe() -> None:
    container = daemon_set(replace(SET, rpc=False)).body["spec"]["template"]["spec"]["containers"][0]
    assert "ports" not in container
    assert "readinessProbe" not in container
    assert "--rpc=false" in container["command"][2]


def test_what_follows_from_engines_makes_no_pod_outdated_but_image_and_size_do() -> None:
    moved = replace(SET, nodes=("c",), tolerations=frozenset(), priority=Priority(), rpc=not SET.rpc)
    assert set_hash(moved) == set_hash(SET)
    assert set_hash(replace(SET, image="vineyardd:2")) != set_hash(SET)
    assert set_hash(replace(SET, size=CacheSize(Decimal(2), 72 * GI, 60 * GI))) != set_hash(SET)


def test_what_the_server_fills_in_is_no_difference_and_another_spelling_of_an_amount_neither() -> None:
    item = live()
    requests = item.spec["template"]["spec"]["containers"][0]["resources"]["requests"]
    requests |= {"memory": "72Gi", "cpu": "2"}
    assert list(differences(daemon_set(SET).body["spec"], item.spec)) == []


@pytest.mark.parametrize("edit", ["image", "term", "container", "strategy"])
def test_an_edit_by_hand_is_a_difference(edit: str) -> None:
    item = live()
    pod = item.spec["template"]["spec"]
    if edit == "image":
        pod["containers"][0]["image"] = "other"
    elif edit == "term":
        pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].pop()
    elif edit == "container":
        pod["containers"].append({"name": "sidecar"})
    else:
        item.spec["updateStrategy"]["type"] = "RollingUpdate"
    assert len(list(differences(daemon_set(SET).body["spec"], item.spec))) == 1


def test_an_unchanged_child_is_not_written() -> None:
    assert writes(OWNER, [daemon_set(SET)], {("DaemonSet", "kv"): live()}) == []


def test_the_fence_and_other_annotations_do_not_count() -> None:
    noted = live(annotations={**daemon_set(SET).body["metadata"]["annotations"], "kvberth.dev/fence": "3", "x": "y"})
    assert writes(OWNER, [daemon_set(SET)], {("DaemonSet", "kv"): noted}) == []


def test_a_missing_child_is_created_and_a_different_one_applied_as_it_was_seen() -> None:
    child = daemon_set(replace(SET, nodes=("a",)))
    assert writes(OWNER, [child], {}) == [Create(child)]
    (found,) = writes(OWNER, [child], {("DaemonSet", "kv"): live()})
    assert isinstance(found, Apply)
    assert (found.child.target.uid, found.child.target.resource_version) == ("u1", "7")


def test_a_child_of_an_earlier_life_is_waited_for_or_deleted_when_nobody_collects_it() -> None:
    earlier = live(replace(SET, owner=replace(OWNER, uid="uid-old")))
    (found,) = writes(OWNER, [daemon_set(SET)], {("DaemonSet", "kv"): earlier})
    assert isinstance(found, Blocked)
    assert found.trouble.reason is Reason.EARLIER_LIFE
    (found,) = writes(OWNER, [daemon_set(SET)], {("DaemonSet", "kv"): live(ownerReferences=[])})
    assert isinstance(found, Delete)
    assert found.target.uid == "u1"


def test_a_child_that_is_being_deleted_is_waited_for() -> None:
    (found,) = writes(OWNER, [daemon_set(SET)], {("DaemonSet", "kv"): live(deletionTimestamp="2026-11-30T00:00:00Z")})
    assert isinstance(found, Blocked)


def test_a_foreign_object_is_named_and_never_ours() -> None:
    foreign = live(labels={"owner": "data-team"}, ownerReferences=[])
    assert not ours(OWNER, foreign)
    trouble = taken(daemon_set(SET), foreign, OWNER)
    assert trouble.reason is Reason.NAME_TAKEN
    assert trouble.message.startswith("DaemonSet default/kv is not kvberth's (it has no owner and no label of ours)")
    assert taken(daemon_set(SET), live(labels={}), OWNER).reason is Reason.MANAGED_BY_ANOTHER


def test_a_pool_that_the_manifest_lost_keeps_its_template_until_its_last_cache_left() -> None:
    spec = normalise(manifest())
    old = live(replace(SET, pool="t4"), name="kv-t4")
    known = {("DaemonSet", "kv-t4"): old}
    (child, *_) = [one for one in children(spec, OWNER, asked("a", pool="t4"), known, WAYS) if "t4" in one.target.name]
    assert nodes_of(child.body["spec"]) == ("a",)
    assert priority_of(child.body["metadata"]["annotations"], child.body["spec"]) == SET.priority
    assert child.body["spec"]["template"]["spec"]["containers"] == old.spec["template"]["spec"]["containers"]
    (child,) = [one for one in children(spec, OWNER, {}, known, WAYS) if "t4" in one.target.name]
    empty = live(replace(SET, pool="t4", nodes=()), name="kv-t4")
    assert children(spec, OWNER, {}, {("DaemonSet", "kv-t4"): empty}, WAYS) == []
    (found,) = writes(OWNER, [], {("DaemonSet", "kv-t4"): empty})
    assert isinstance(found, Delete)


def test_a_service_is_made_only_for_legacy_engines() -> None:
    spec = normalise(manifest())
    kinds = [one.target.resource.kind for one in children(spec, OWNER, asked("a", needs=Needs()), {}, WAYS)]
    assert kinds == ["DaemonSet"]
    kinds = [one.target.resource.kind for one in children(spec, OWNER, asked("a", needs=Needs(rpc=True)), {}, WAYS)]
    assert kinds == ["DaemonSet", "Service"]
    service = rpc_service(OWNER, 9600, "Local")
    assert service.target.name == "kv-rpc"
    assert service.body["spec"]["internalTrafficPolicy"] == "Local"


def test_an_earlier_life_s_caches_are_taken_over_with_their_needs() -> None:
    (said,) = asked("a").values()
    found = adopted(live(), said, directory=True)
    assert (found.run, found.uid, found.size_bytes, found.directory) == (True, "uid-kv", 68 * GI, True)
    assert found.needs == Needs(frozenset({GPU, SPOT}), rpc=True, priority=SET.priority)


def test_a_budget_that_can_never_allow_anything_is_told_from_one_that_does_not_now() -> None:
    said = "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget kv needs 1 healthy"
    held = budgets.refused("a", said, {"kv": ""}, NOW)
    assert (held.reason, held.until - NOW) == (Reason.BUDGET_REFUSES, budgets.AGAIN)
    assert "PodDisruptionBudget kv" in held.message
    broken = [
        {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale subresource"}
    ]
    held = budgets.refused("a", said, {"kv": budgets.unusable(broken)}, NOW)
    assert held.reason is Reason.BUDGET_UNUSABLE
    assert held.message.endswith("no scale subresource; use an integer minAvailable")


def test_a_drain_that_waits_names_its_budget_or_says_that_there_is_one_too_many() -> None:
    said = "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget llama needs 1 pod"
    assert "a: a drain would wait for PDB llama" in budgets.drain_waits("a", "e1", said, {}).replace(
        "a is cordoned", "a"
    )
    many = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    assert budgets.drain_waits("a", "e1", many, {}).endswith("holds engine e1, which Kubernetes can't serve")


def test_a_set_is_behind_only_once_its_controller_has_seen_it() -> None:
    failures = Failures()
    counts = {"desiredNumberScheduled": 2, "currentNumberScheduled": 1}
    stale = live().model_copy(update={"status": type(live().status)(observed_generation=-1, **_snake(counts))})
    behind = live().model_copy(update={"status": type(live().status)(observed_generation=1, **_snake(counts))})
    done = live()
    assert failures.look(stale, 1.0) is None
    assert failures.look(behind, 2.0) == 0.0
    assert failures.look(behind, 4.5) == 2.5
    assert [failures.touch("u1", at) for at in (4.5, 32.5, 33.0)] == [False, True, False]
    assert failures.look(done, 40.0) is None
    assert failures.look(behind, 41.0) == 0.0


def _snake(counts: dict[str, int]) -> dict[str, int]:
    return {
        "desired_number_scheduled": counts["desiredNumberScheduled"],
        "current_number_scheduled": counts["currentNumberScheduled"],
    }


def test_a_selector_is_asked_for_as_it_is_written() -> None:
    expressions = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "old", "operator": "DoesNotExist"},
    ]
    assert selector({"matchLabels": {"app": "x"}, "matchExpressions": expressions}) == "app=x,tier in (a,b),!old"
    assert selector({"matchExpressions": [{"key": "k", "operator": "Gt"}]}) is None
    assert selector({}) is None


def test_a_status_is_written_once_whoever_leads() -> None:
    status = KVCacheStatusV1(
        uid="uid-kv",
        name="kv",
        namespace="default",
        observed_generation=3,
        term=7,
        wanted_replicas=1,
        engines=1,
        engines_served=1,
        nodes=(NodeRow(node="a", state="serving", engines=("e",), memory_limit=5),),
        conditions=(
            Condition(type="Ready", status=ConditionStatus.TRUE, reason="AllServed", message="all", since=NOW),
        ),
    )
    body = status_body(status, {"a": "kv-x1"})
    assert (body["caches"], body["nodes"][0]["pod"]) == (1, "kv-x1")
    stored = {key: value for key, value in body.items() if value is not None}
    assert is_said(body, stored)
    assert is_said({**body, "term": 8}, stored)
    assert not is_said({**body, "enginesServed": 0}, stored)
    assert not is_said(body, {})


WITH_BLOCKS = replace(
    SET, size=CacheSize(Decimal(2), 2 * GI, GI, block_bytes=GI // 2, worker_bytes=GI), worker=WorkerProgram("kvberth:1")
)


def test_a_block_store_brings_a_worker_beside_vineyardd_and_splits_what_both_may_use() -> None:
    pod = daemon_set(WITH_BLOCKS).body["spec"]["template"]["spec"]
    daemon, worker = pod["containers"]
    assert [one["resources"]["limits"] for one in (daemon, worker)] == [{"cpu": "1000m", "memory": str(GI)}] * 2
    assert (worker["image"], worker["securityContext"]) == ("kvberth:1", daemon["securityContext"])
    env = {item["name"]: item.get("value") for item in worker["env"]}
    assert (env["KVBERTH_BLOCK_BYTES"], env["KVBERTH_NAMESPACE"], env["KVBERTH_KVCACHE"]) == (
        str(GI // 2),
        "default",
        "kv",
    )
    assert "KVBERTH_NATS_URL" not in env
    assert "readinessProbe" not in worker
    assert sizes_of(daemon_set(WITH_BLOCKS).body["spec"]) == (GI, 2 * GI, 2000)
    assert [one["name"] for one in daemon_set(SET).body["spec"]["template"]["spec"]["containers"]] == ["vineyardd"]


def test_a_new_image_of_ours_ends_no_warm_cache_and_another_size_of_the_store_does() -> None:
    renewed = replace(WITH_BLOCKS, worker=WorkerProgram("kvberth:2"))
    assert set_hash(renewed) == set_hash(WITH_BLOCKS)
    assert set_hash(replace(WITH_BLOCKS, size=replace(WITH_BLOCKS.size, block_bytes=GI // 4))) != set_hash(WITH_BLOCKS)
