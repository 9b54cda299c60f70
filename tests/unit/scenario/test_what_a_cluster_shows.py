"""How pods, nodes, KVCaches and processes of a cluster are read as facts."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvberth.placement.apply.kubernetes import worker
from kvberth.scenario.backend.kubernetes import concern, observed, processes
from kvberth.scenario.backend.kubernetes.processes import Process
from kvberth.scenario.format import Target
from kvberth_schemas.events import PodReadyV1, PodScheduledV1, PodWaitingV1

ENGINE, SIDECAR, CACHE, LEADER = ("e" * 64, "5" * 64, "c" * 64, "1" * 64)


def pod(name: str, namespace: str = "default", **more: object) -> dict:
    """Make a pod on l20-a whose containers run."""
    ids = more.pop("ids", {})
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "7", "labels": {}}
    running = [
        {"name": n, "containerID": f"containerd://{i}", "restartCount": 1, "state": {"running": {}}}
        for n, i in ids.items()
    ]
    spec = {"nodeName": "l20-a", "containers": [{"name": n} for n in ids], **more.pop("spec", {})}
    return {
        "metadata": {**meta, **more.pop("metadata", {})},
        "spec": spec,
        "status": {"phase": "Running", "containerStatuses": running, **more.pop("status", {})},
    }


def engine(**more: object) -> dict:
    """Make an engine's pod of a Deployment, with a sidecar."""
    containers = [{"name": "side"}, {"name": "vllm", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    owner = {"kind": "ReplicaSet", "name": "llama-5d4f", "uid": "rs", "controller": True}
    labels = {"model.aibrix.ai/name": "llama", "pod-template-hash": "5d4f"}
    return pod(
        "llama-5d4f-x",
        ids={"side": SIDECAR, "vllm": ENGINE},
        metadata={"labels": labels, "ownerReferences": [owner], **more.pop("metadata", {})},
        spec={"containers": containers, **more.pop("spec", {})},
        **more,
    )


def process(container: str, pid: int, *argv: str, inner: int = 1, **more: object) -> Process:
    """Make a process."""
    rest = {"started": 5, "began": 100.5, "state": "S", "rss_bytes": 10, "socket": None, **more}
    return Process(container=container, pid=pid, inner_pid=inner, argv=argv, **rest)


def test_an_engine_is_the_first_process_of_its_own_container() -> None:
    seen = [
        process(ENGINE, 20, "python3", socket="/var/run/vineyard.sock"),
        process(ENGINE, 21, "python3", inner=9),
        process(SIDECAR, 22, "aibrix_runtime"),
        process("f" * 64, 23, "stranger"),
    ]
    (being,) = observed.beings([engine()], {"l20-a": seen})
    life = being.life
    assert (life.role, life.pid, life.node, life.namespace) == ("engine", 20, "l20-a", "default")
    assert (life.owner, life.name, life.workload) == ("uid-llama-5d4f-x", "llama-5d4f-x", "llama")
    assert life.began == datetime.fromtimestamp(100.5, UTC)
    assert life.rss_bytes == 20
    assert life.socket == "/var/run/vineyard.sock of pid 20 on l20-a"


@pytest.mark.parametrize("argument", [("--deployment=abc",), ("--deployment", "abc")])
def test_a_cache_is_its_daemon_and_not_the_script_around_it(argument: tuple[str, ...]) -> None:
    cache = pod("kv-x", ids={"vineyardd": CACHE}, metadata={"labels": {observed.CACHE_LABEL: "kv"}})
    seen = [
        process(CACHE, 30, "sh", "-c", "…"),
        process(CACHE, 31, "/usr/bin/vineyardd", "--size=1", *argument, inner=8),
    ]
    (being,) = observed.beings([cache], {"l20-a": seen})
    assert (being.life.role, being.life.pid, being.life.owner, being.life.incarnation) == ("cache", 31, "kv", "abc")


def test_a_transfer_worker_is_a_life_of_its_own_in_its_caches_pod() -> None:
    labels = {observed.CACHE_LABEL: "kv"}
    cache = pod("kv-x", ids={"vineyardd": CACHE, observed.WORKER: SIDECAR}, metadata={"labels": labels})
    seen = [
        process(CACHE, 31, "vineyardd", "--deployment", "abc", inner=8),
        process(SIDECAR, 32, "python", "-m", "kvberth.transfer_worker"),
        process(SIDECAR, 33, "python", inner=9),
    ]
    daemon, helper = (being.life for being in observed.beings([cache], {"l20-a": seen}))
    assert (daemon.role, daemon.owner, daemon.pid) == ("cache", "kv", 31)
    assert (helper.role, helper.owner, helper.namespace, helper.pid) == ("transfer", "kv", "default", 32)
    assert helper.incarnation is None
    for target, container in (
        ({"worker": {"kvcache": "kv"}}, observed.WORKER),
        ({"cache": {"kvcache": "kv"}}, "vineyardd"),
    ):
        means = Target.model_validate(target)
        assert concern.stands_for(cache, means)
        assert observed.container_of(means.kind, cache) == container
    alone = pod("kv-y", ids={"vineyardd": CACHE}, metadata={"labels": labels})
    assert not concern.stands_for(alone, Target.model_validate({"worker": {"kvcache": "kv"}}))


def test_the_worker_is_known_by_the_name_and_the_port_that_placement_gives_it() -> None:
    assert (observed.WORKER, observed.WORKER_PORT) == (worker.CONTAINER, worker.PORT)


def test_services_are_known_by_the_install_and_nats_has_no_node() -> None:
    named = {"app.kubernetes.io/name": "nats"}
    pods = [
        pod("nats-x", "kvberth", ids={"nats": LEADER}, metadata={"labels": named}),
        pod("nats-y", "default", ids={"nats": CACHE}, metadata={"labels": named}),
    ]
    seen = [process(LEADER, 40, "nats-server"), process(CACHE, 41, "nats-server")]
    (being,) = observed.beings(pods, {"l20-a": seen})
    assert (being.life.role, being.life.node, being.node) == ("nats", None, "l20-a")


def test_pods_are_waiting_scheduled_or_ready() -> None:
    why = {"type": "PodScheduled", "status": "False", "message": "3 Insufficient nvidia.com/gpu"}
    waiting = engine(spec={"nodeName": None}, status={"conditions": [why]})
    ready = engine(status={"conditions": [{"type": "Ready", "status": "True"}]}, metadata={"deletionTimestamp": "now"})
    ended = engine(status={"phase": "Failed"})
    bound = engine()
    first, second, third = observed.engines([waiting, ended, bound, ready])
    assert isinstance(first, PodWaitingV1)
    assert first.why == "3 Insufficient nvidia.com/gpu"
    assert isinstance(second, PodScheduledV1)
    assert isinstance(third, PodReadyV1)
    assert (third.deleting, third.workload and third.workload.name) == (True, "llama")


def test_a_status_is_read_whole_and_none_is_no_status() -> None:
    meta = {"uid": "u", "name": "kv", "namespace": "default"}
    assert observed.status_of({"metadata": meta}) is None
    status = {
        "observedGeneration": 2,
        "engines": 2,
        "enginesServed": 1,
        "moved": "relocated from a to b",
        "nodes": [
            {
                "node": "a",
                "state": "serving",
                "engines": ["x"],
                "health": "Slow",
                "lastProofTime": "2026-11-30T00:00:01Z",
            },
            {"node": "b", "state": "starting"},
        ],
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Serving",
                "message": "m",
                "lastTransitionTime": "2026-11-30T00:00:00Z",
            }
        ],
    }
    found = observed.status_of({"metadata": meta, "status": status})
    assert found is not None
    assert (found.observed_generation, found.engines, found.engines_served) == (2, 2, 1)
    assert [(row.node, row.state, row.health) for row in found.nodes] == [
        ("a", "serving", "Slow"),
        ("b", "starting", ""),
    ]
    assert [row.last_proof for row in found.nodes] == [datetime(2026, 11, 30, 0, 0, 1, tzinfo=UTC), None]
    assert [(one.type, one.status.value) for one in found.conditions] == [("Ready", "True")]


def test_a_nodes_state_is_what_its_kubelet_says() -> None:
    ready = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting"}
    raw = {
        "metadata": {"name": "a", "resourceVersion": "1"},
        "spec": {"unschedulable": True},
        "status": {"conditions": [ready]},
    }
    found = observed.node_state(raw)
    assert (found.ready, found.unschedulable, found.why) == (False, True, "Kubelet stopped posting")


def test_a_path_is_followed_in_the_file_system_that_it_belongs_to(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "run").symlink_to("/run")
    (tmp_path / "out").symlink_to("../../..")
    (tmp_path / "round").symlink_to("round")
    assert processes.within(tmp_path, "/var/run/vineyard.sock") == tmp_path / "run" / "vineyard.sock"
    assert processes.within(tmp_path, "/out/etc") == tmp_path / "etc"
    assert processes.within(tmp_path, "default/kv/vineyard.sock") == tmp_path / "default/kv/vineyard.sock"
    with pytest.raises(OSError, match="circles"):
        processes.within(tmp_path, "/round/x")
