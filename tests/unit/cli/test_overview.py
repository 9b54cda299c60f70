"""The tables of `kvberth status`: what a person reads about every state that the bus can hold."""

import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from kvberth.cli.overview import Overview, condition, pretended_lines, silence_lines
from kvberth.cli.status import render
from kvberth.cli.told import told_lines
from kvberth_schemas.events import (
    Condition,
    ConditionStatus,
    KVCacheGoneV1,
    KVCacheSpecV1,
    KVCacheStatusV1,
    LastEnd,
    NodeChangedV1,
    NodeGoneV1,
    NodeRow,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodWaitingV1,
    ProcessStartedV1,
    Resources,
)
from kvberth_schemas.events.pods import Owner

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GI = 2**30


def spec(name="kv", age_s=10.0, namespace="default"):
    created = NOW - timedelta(seconds=age_s)
    return KVCacheSpecV1(
        uid=f"uid-{name}",
        name=name,
        namespace=namespace,
        generation=1,
        resource_version=1,
        created=created,
        manifest={},
    )


def said(kind, status="True", reason="Fine", message=""):
    return Condition(type=kind, status=ConditionStatus(status), reason=reason, message=message, since=NOW)


def status(*conditions, name="kv", rows=(), moved=""):
    return KVCacheStatusV1(
        uid=f"uid-{name}",
        name=name,
        namespace="default",
        observed_generation=1,
        term=1,
        wanted_replicas=1,
        engines=2,
        engines_served=1,
        nodes=rows,
        conditions=conditions,
        moved=moved,
    )


def pod(cls=PodReadyV1, name="llama-1", **more):
    common = {"uid": name, "name": name, "namespace": "default", "resource_version": 1, "role": PodRole.ENGINE}
    return cls(**{**common, "requests": Resources(), **more})


def node(name="a", ready=True, **more):
    return NodeChangedV1(
        name=name,
        resource_version=1,
        ready=ready,
        labels={},
        allocatable=Resources(gpus=2, cpu_millis=8500, memory_bytes=64 * GI),
        requested=Resources(gpus=1, cpu_millis=500, memory_bytes=8 * GI),
        **more,
    )


def process(role, name, on="a"):
    return ProcessStartedV1(
        node=on, namespace="default", owner=name, name=name, role=role, pid=7, started=NOW, ready=True
    )


def dumped(message):
    return message.model_dump(mode="json")


def drawn(*messages, silent=None):
    """The tables as lines, each split at its columns."""
    out = io.StringIO()
    Console(file=out, width=400, soft_wrap=True).print(render(Overview.of(messages, silent), NOW))
    return out.getvalue().splitlines()


def cells(lines, name):
    """The cells of the one row that begins with a name."""
    (row,) = [line for line in lines if line.startswith(name)]
    return [cell.strip() for cell in row.split("  ") if cell.strip()]


def test_an_empty_bus_says_what_to_do():
    assert drawn()[0] == "no KVCache is applied; 'kvberth apply -f FILE' takes one"


def test_a_kvcache_shows_engines_places_conditions_and_age():
    rows = (NodeRow(node="a", state="serving"), NodeRow(node="b", state="starting"))
    conditions = (said("Ready", "False", "NotAnswering"), said("Healthy", "Unknown", "NotProbed"))
    lines = drawn(spec(age_s=300), status(*conditions, rows=rows))
    assert cells(lines, "kv") == [
        "kv",
        "default",
        "1/2 served",
        "a (serving)",
        "False (NotAnswering)",
        "Unknown (NotProbed)",
        "5m",
    ]
    assert any(line.strip() == "b (starting)" for line in lines)


def test_a_cache_that_serves_shows_its_health_where_it_is_not_fine():
    healths = {"a": "Proven", "b": "Slow", "c": "NotProbed", "d": "", "e": "Hung"}
    rows = tuple(NodeRow(node=node, state="serving", health=health) for node, health in healths.items())
    lines = "\n".join(drawn(spec(), status(rows=rows)))
    assert all(text in lines for text in ("a (serving)", "b (serving, Slow)", "c (serving, NotProbed)", "d (serving)"))
    assert "e (serving, Hung)" in lines


def test_a_kvcache_of_which_placement_has_said_nothing_says_so():
    assert "placement has not said anything yet" in cells(drawn(spec()), "kv")


def test_a_condition_that_is_missing_is_a_question_mark():
    assert cells(drawn(spec(), status()), "kv")[4:6] == ["?", "?"]
    assert condition(status(), "Ready") is None


@pytest.mark.parametrize(
    ("age_s", "text"), [(-3, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172800, "2d")]
)
def test_ages_are_short(age_s, text):
    assert cells(drawn(spec(age_s=age_s), status()), "kv")[-1] == text


def test_a_transfer_worker_that_does_not_serve_is_named_with_its_reason():
    waits = "a: Waiting for 1 client that maps an earlier store"
    overview = Overview.of([spec(), status(said("BlocksReady", "False", "NotServing", waits))])
    assert told_lines(overview, NOW) == [f"default/kv: {waits}"]


def test_each_sentence_is_told_once_and_dull_ones_not_at_all():
    overview = Overview.of(
        [
            spec(),
            status(
                said("Accepted", message="understood"),
                said("Placed", "Unknown", "NoEngine", "no engine"),
                said("SocketsReady", "Unknown", "NoEngine", "no engine"),
                said("Healthy", "Unknown", "NotProbed", "caches are not probed yet"),
                said("Ready", "Unknown", "NoEngine", "no engine at all"),
                moved="relocated from a to b",
            ),
        ]
    )
    assert told_lines(overview, NOW) == ["default/kv: relocated from a to b", "default/kv: no engine"]


def test_what_a_cache_says_of_itself_is_told_once_also_where_its_kvcache_is_fine():
    kept = "kept for at most 300 s: Deployment/phi wants 3 and has 2 bound"
    wrong = "engine of qwen on a mounts the directory of qwenkv"
    rows = (
        NodeRow(node="a", state="serving"),
        NodeRow(node="b", state="serving", message=kept),
        NodeRow(node="c", state="starting", message="the cache's process ended: status 1"),
    )
    conditions = (
        said("Placed", message=f"caches beside all engines, on a; {wrong}; b: {kept}"),
        said("SocketsReady", "False", "NotAnswering", "c: the cache's process ended: status 1"),
    )
    assert told_lines(Overview.of([spec(), status(*conditions, rows=rows)]), NOW) == [
        "default/kv: c: the cache's process ended: status 1",
        f"default/kv: {wrong}",
        f"default/kv: b: {kept}",
    ]


def test_a_kvcache_at_rest_says_nothing():
    rows = (NodeRow(node="a", state="serving"), NodeRow(node="b", state="leaving"))
    placed = said("Placed", message="caches beside all engines, on a, b")
    assert told_lines(Overview.of([spec(), status(placed, rows=rows)]), NOW) == []


@pytest.mark.parametrize(
    ("engine", "node_cell", "state"),
    [
        (pod(node="a", ready=True), "a", "ready"),
        (pod(PodScheduledV1, node="a"), "a", "starting"),
        (pod(PodScheduledV1, node="a", deleting=True), "a", "ending"),
        (pod(PodWaitingV1, why="0/2 nodes: no GPU"), "-", "waiting: 0/2 nodes: no GPU"),
    ],
)
def test_an_engine_says_where_it_is_and_what_it_does(engine, node_cell, state):
    assert cells(drawn(engine), "llama-1") == ["llama-1", "default", node_cell, state, "0"]


@pytest.mark.parametrize(
    ("restarts", "code", "message", "sentence"),
    [
        (0, 2, "", "ended by exit code 2 at 2026-01-02 03:04:05 UTC; log: /logs/e.log"),
        (
            1,
            137,
            "",
            "restarted once, last ended by exit code 137 (SIGKILL) at 2026-01-02 03:04:05 UTC; log: /logs/e.log",
        ),
        (3, None, "not seen", "restarted 3 times, last ended at 2026-01-02 03:04:05 UTC: not seen; log: /logs/e.log"),
    ],
)
def test_an_engine_that_ended_says_how_and_where_its_log_is(restarts, code, message, sentence):
    last = LastEnd(at=NOW, exit_code=code, message=message)
    lines = drawn(pod(node="a", restarts=restarts, last_end=last, log="/logs/e.log"), pod(name="fine", node="a"))
    assert [line for line in lines if "log:" in line] == [f"default/llama-1: {sentence}"]


def test_a_program_gets_every_last_message_whole():
    last = LastEnd(at=NOW, exit_code=1)
    found = [spec(), status(), pod(node="a", ready=True, last_end=last, log="/l"), node(), process("engine", "llama-1")]
    document = json.loads(json.dumps(Overview.of(found, {"scheduler": 7.0}).document()))
    assert document["kvcaches"] == [{"spec": dumped(found[0]), "status": dumped(found[1])}]
    assert document["engines"] == [dumped(found[2])]
    assert document["engines"][0]["last_end"] == {"at": "2026-01-02T03:04:05Z", "exit_code": 1, "message": ""}
    assert (document["nodes"], document["processes"]) == ([dumped(found[3])], [dumped(found[4])])
    assert document["silent"] == {"scheduler": 7.0}
    assert Overview.of([spec()]).document()["kvcaches"] == [{"spec": dumped(spec()), "status": None}]


def test_pods_of_caches_are_no_engines():
    assert Overview.of([pod(node="a", role=PodRole.CACHE)]).pods == ()


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        (node(), "ready"),
        (node(unschedulable=True), "ready, cordoned"),
        (node(ready=False, why="its runner is silent"), "not ready: its runner is silent"),
    ],
)
def test_a_node_says_its_state_and_what_is_asked_of_it(shown, state):
    assert cells(drawn(shown), "a") == ["a", state, "1/2", "0.5/8.5", "8Gi/64Gi", "-", "-"]


def test_a_node_names_the_processes_that_run_there():
    lines = drawn(node("a"), node("b"), process("engine", "llama-1"), process("cache", "kv"))
    assert cells(lines, "a")[-2:] == ["llama-1", "kv"]
    assert cells(lines, "b")[-2:] == ["-", "-"]


def test_what_is_gone_is_not_shown():
    gone = (
        NodeGoneV1(name="a", why="deleted"),
        KVCacheGoneV1(uid="u", name="kv", namespace="default", by_user=True, why="deleted"),
    )
    assert Overview.of(gone) == Overview()


def test_rows_come_in_the_order_of_their_names():
    overview = Overview.of([spec("b"), spec("a"), spec("a", namespace="aa"), node("y"), node("x")])
    assert [(s.namespace, s.name) for s, _ in overview.kvcaches] == [("aa", "a"), ("default", "a"), ("default", "b")]
    assert [one.name for one in overview.nodes] == ["x", "y"]


def test_what_is_pretended_is_said_once_for_a_workload():
    owner = Owner(kind="Deployment", name="llama", uid="u")
    engines = [pod(name=f"llama-{n}", node="a", workload=owner, pretended=("probes", "init container x")) for n in "12"]
    assert pretended_lines(Overview.of(engines)) == ["pretended for default/llama: probes, init container x"]


def test_clocks_that_are_off_are_told_before_the_tables():
    overview = Overview.of([], clocks=["the clock of runner on a is 420 s ahead"])
    out = io.StringIO()
    Console(file=out, width=400, soft_wrap=True).print(render(overview, NOW))
    assert out.getvalue().startswith("the clock of runner on a is 420 s ahead")
    assert overview.document()["clocks"] == ["the clock of runner on a is 420 s ahead"]


def test_silent_services_are_named_first():
    lines = drawn(spec(), silent={"scheduler": 7.4, "placement": None})
    assert lines[:2] == [
        "placement has not been heard of: what it said may be old",
        "scheduler has not been heard of for 7 s: what it said may be old",
    ]
    assert silence_lines(Overview()) == []


def test_what_a_silent_placement_said_of_health_is_shown_as_unknown_with_the_last_proof():
    rows = (NodeRow(node="a", state="serving", health="Proven", last_proof=NOW, message="it has 2Gi"),)
    conditions = (said("Accepted"), said("Healthy", reason="Proven"), said("Ready"))
    messages = spec(), status(*conditions, rows=rows)
    lines = drawn(*messages, silent={"placement": 6.0})
    unknown = ["Unknown (PlacementSilent)"] * 2
    assert cells(lines, "kv")[2:6] == ["?/2 served", "a (unknown)", *unknown]
    assert not any("2Gi" in line for line in lines)
    assert any("bytes last came back on a at 2026-01-02T03:04:05Z" in line for line in lines)
    heard = drawn(*messages, silent={"scheduler": 6.0})
    assert cells(heard, "kv")[2:6] == ["1/2 served", "a (serving)", "True", "True"]
    assert any("2Gi" in line for line in heard)
    document = Overview.of(messages, {"placement": 6.0}).document()
    assert document["kvcaches"][0]["status"] == dumped(messages[1])  # as it was on the bus, beside who is silent


def test_names_with_brackets_are_shown_as_they_are():
    lines = drawn(node("a", ready=False, why="[/red] is no tag"))
    assert "not ready: [/red] is no tag" in cells(lines, "a")


def test_an_engine_that_waits_at_its_gate_says_for_what():
    waiting = pod(PodScheduledV1, node="a", at_gate="waits at its gate: SocketMissing: /s: there is no socket")
    assert any("waits at its gate: SocketMissing" in line for line in drawn(waiting))
