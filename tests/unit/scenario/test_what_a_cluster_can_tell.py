"""Which scenarios can be told on a cluster, on which of its nodes, and how a node becomes what it was."""

import pytest

from kvberth.scenario.backend.kubernetes import cluster
from kvberth.scenario.backend.kubernetes.eyes import Way, calmest
from kvberth.scenario.durations import Timing
from kvberth.scenario.format import Scenario
from kvberth.scenario.format.verbs import NodeSpec

L20 = "machine.cluster.vke.volcengine.com/gpu-name"


def told(*steps: dict, **more: object) -> Scenario:
    """Make a scenario of steps."""
    return Scenario.model_validate({"steps": list(steps), **more})


def node(name: str, **more: object) -> dict:
    """Make a node of a cluster."""
    allocatable = {"cpu": "60", "memory": "192Gi", "nvidia.com/gpu": "1", **more.pop("allocatable", {})}
    meta = {"name": name, "labels": more.pop("labels", {L20: "NVIDIA-L20"})}
    return {"metadata": meta, "spec": more, "status": {"allocatable": allocatable}}


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"node_add": "l20-c"}, "nodes are given"),
        ({"disk": "full"}, "disk of NATS"),
        ({"node_down": "l20-a"}, "--node-driver"),
        ({"pause": {"service": {"name": "runner", "node": "l20-a"}}}, "--node-driver"),
        ({"kill": {"service": {"name": "runner", "node": "l20-a"}}}, "paused and resumed"),
        ({"kill": "up"}, "kvberth up"),
    ],
)
def test_a_step_that_a_cluster_lacks_is_named(step: dict, reason: str) -> None:
    found = cluster.unfit(told({"cordon": "l20-b"}, step), has_driver=False)
    assert found is not None
    assert found.startswith("step 2: ")
    assert reason in found


def test_a_step_that_only_bare_can_do_is_left_out_by_itself() -> None:
    step = {"node_add": "l20-c", "requires": "bare"}
    assert cluster.unfit(told(step), has_driver=False) is None


def test_with_a_driver_nodes_can_be_lost() -> None:
    steps = ({"node_down": "l20-a"}, {"node_up": "l20-a"}, {"pause": {"service": {"name": "runner", "node": "l20-a"}}})
    assert cluster.unfit(told(*steps), has_driver=True) is None


@pytest.mark.parametrize(
    ("env", "asks"),
    [(None, False), ([{"name": "KVBERTH_NODE"}], False), ([{"name": "KVBERTH_NATS_NKEY_FILE", "value": "/x"}], True)],
)
def test_a_bus_that_asks_for_keys_is_known_by_the_agents(env: list | None, asks: bool) -> None:
    agent = {"spec": {"template": {"spec": {"containers": [{"name": "agent", "env": env}]}}}}
    assert cluster.asks_for_keys(agent) is asks


def test_waits_that_a_cluster_has_of_its_own_can_be_set_but_not_counted_on() -> None:
    time = {"node_not_ready": "30s", "engine_backoff": "10s"}
    assert cluster.unfit(told({"cordon": "l20-a"}, time=time), has_driver=True) is None
    counts = {"wait": {"caches": {"kvcache": "kv", "nodes": []}}, "within": "node_not_ready + 5s"}
    assert "node_not_ready" in str(cluster.unfit(told(counts, time=time), has_driver=True))


def test_services_are_told_what_a_scenario_sets() -> None:
    options = {"env": {"KVBERTH_LOG_LEVEL": "debug"}}
    scenario = told({"cordon": "l20-a"}, options=options)
    timing = Timing({"empty_directory": 180, "linger": 300, "node_lost": 9}, factor=0.02)
    assert cluster.settings(scenario, timing, None) == {"KVBERTH_LOG_LEVEL": "debug", "KVBERTH_EMPTY_AFTER_S": "3.6"}
    assert cluster.settings(told({"cordon": "l20-a"}), Timing(), "nats://x:1") == {"KVBERTH_NATS_URL": "nats://x:1"}
    assert cluster.settings(told({"cordon": "l20-a"}), Timing({"linger": 5}), None) == {}


def test_where_blocks_matter_transfer_workers_are_told_of_the_bus() -> None:
    scenario = told({"cordon": "l20-a"}, needs=["transfer"])
    assert cluster.settings(scenario, Timing(), None) == {"KVBERTH_TRANSFER_NATS_URL": cluster.BUS}


def test_a_scenario_that_lets_the_bus_or_the_api_server_fail_is_known() -> None:
    bus, api = {"fault": {"bus": True, "does": "reset"}}, {"fault": {"api": True, "does": "silence"}}
    assert cluster.cuts(told(bus, api)) == {"bus", "api"}
    assert cluster.cuts(told(api)) == {"api"}
    assert cluster.cuts(told({"fault": {"node": "l20-a", "kvcache": "kv", "does": "reset"}})) == set()


def test_nodes_that_a_scenario_takes_down_or_freezes_are_known_in_windows_too() -> None:
    steps = (
        {"pause": {"service": {"name": "runner", "node": "l20-a"}}},
        {"pause": {"service": {"name": "node_agent", "node": "l20-b"}}},
        {"during": {"never": [{"process": {"role": "cache"}}], "steps": [{"node_down": "l20-c"}], "for": "1s"}},
        {"cordon": "l20-d"},
    )
    nodes = ["l20-a", "l20-b", "l20-c", "l20-d"]
    scenario = told(*steps, nodes=nodes)
    assert cluster.troubled(scenario) == {"l20-a", "l20-c"}
    assert cluster.lost(scenario) == {"l20-c"}


def witness(on: str, *, ready: bool = True) -> dict:
    """Make a witness's pod."""
    status = {"podIP": f"10.0.0.{len(on)}", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"metadata": {"name": f"witness-{on}"}, "spec": {"nodeName": on}, "status": status}


def test_the_bus_is_heard_through_a_node_that_nothing_troubles() -> None:
    pods = [witness("a"), witness("bb"), witness("ccc"), witness("dddd", ready=False)]
    assert calmest(pods, {"a"}) == Way("bb", "witness-bb", "10.0.0.2")
    assert calmest(pods, {"a", "bb", "ccc"}) == Way("a", "witness-a", "10.0.0.1")
    assert calmest(pods[3:], set()) is None


def test_nodes_are_those_of_their_name_and_else_the_next_ones() -> None:
    wanted = [NodeSpec(name="l20-a"), NodeSpec(name="l20-b")]
    assert cluster.assigned(wanted, [node("x"), node("l20-b"), node("w")]) == {"l20-a": "w", "l20-b": "l20-b"}
    with pytest.raises(ValueError, match=r"2 nodes, the cluster 1 \(x\)"):
        cluster.assigned(wanted, [node("x")])


def test_a_scenario_speaks_of_the_clusters_nodes_everywhere() -> None:
    steps = (
        {"cordon": "l20-a"},
        {"expect": {"status": {"kvcache": "kv", "moved": "from l20-a to l20-b", "states": {"l20-b": "serving"}}}},
    )
    found = cluster.renamed(told(*steps), {"l20-a": "l20-b", "l20-b": "l20-a"})
    assert [spec.name for spec in found.nodes] == ["l20-a", "l20-b"] or [s.name for s in found.nodes] == [
        "l20-b",
        "l20-a",
    ]
    assert found.steps[0].cordon == "l20-b"
    status = found.steps[1].expectations()[0].value
    assert status.moved == "from l20-b to l20-a"
    assert status.states == {"l20-a": "serving"}


def test_default_nodes_are_renamed_too() -> None:
    found = cluster.renamed(told({"cordon": "l20-a"}), {"l20-a": "w1", "l20-b": "w2"})
    assert [spec.name for spec in found.nodes] == ["w1", "w2"]


@pytest.mark.parametrize(
    ("spec", "allocatable", "lacks"),
    [
        ({}, {}, None),
        ({}, {"memory": "200Gi"}, None),
        ({}, {"memory": "16Gi"}, "192Gi memory"),
        ({"memory": "96Gi"}, {}, "96Gi memory"),
        ({"cpu": "60000m"}, {}, None),
    ],
)
def test_a_node_has_what_the_scenario_says(spec: dict, allocatable: dict, lacks: str | None) -> None:
    found = cluster.too_small(NodeSpec(name="l20-a", **spec), node("w", allocatable=allocatable))
    assert (found is None) if lacks is None else (found is not None and lacks in found and "node w" in found)


def test_labels_become_the_scenarios_and_again_what_they_were() -> None:
    former = node("w", labels={L20: "NVIDIA-L20", "zone": "z"})
    spec = NodeSpec(name="w", labels={"gpu": "A100", "zone": "y"})
    change = cluster.labels_of(spec, former)
    assert change == {"gpu": "A100", "zone": "y", L20: None}
    assert cluster.labels_of(NodeSpec(name="w"), former) == {}
    now = node(
        "w", labels={"gpu": "A100", "zone": "y"}, unschedulable=True, taints=[{"key": "a", "effect": "NoSchedule"}]
    )
    assert cluster.undone(former, now) == {
        "metadata": {"labels": {L20: "NVIDIA-L20", "zone": "z", "gpu": None}},
        "spec": {"unschedulable": None, "taints": []},
    }
    assert cluster.undone(former, former) == {}


def test_only_nodes_that_take_engines_are_spare() -> None:
    assert cluster.spare([node("a"), node("b"), node("c", unschedulable=True)], ["a"]) == ["b"]
