"""Expectations against facts: what holds, what does not, and what can't be known."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kvberth.scenario.facts import (
    Answer,
    Facts,
    Heard,
    Life,
    Mark,
    PathFact,
    Place,
    Printed,
    Readiness,
    Sample,
    Verdict,
)
from kvberth.scenario.format import Expectation
from kvberth.scenario.judge import judge
from kvberth_schemas.events import KVCacheStatusV1, NodeRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def heard(kind: str, at: float = 0.0, **options: Any) -> Heard:
    body = options.pop("body", {})
    node, name = options.pop("node", None), options.pop("name", "kv")
    time = NOW + timedelta(seconds=at)
    subject = f"kvberth.evt.v1.{node or '-'}.default.{name}.{kind.partition('.')[0]}"
    stream = options.pop("stream", "KVBERTH_EVENTS")
    return Heard(time, f"id-{at}", subject, kind, node, "default", name, body, None, stream, int(at * 1000))


def verdict(expectation: dict[str, Any], facts: Facts) -> Verdict:
    return judge(Expectation.model_validate(expectation), facts)


def facts(said: Sequence[Heard] = (), **options: Any) -> Facts:
    return Facts(NOW, heard=said, **options)


CACHE = Life("cache", 10, "a", "default", "kv", incarnation="one")
ENGINE = Life("engine", 20, "a", "default", "uid-1", name="pod-1", workload="llama", socket="/run/kv.sock")


def test_caches_must_answer_on_exactly_the_nodes() -> None:
    answers = {Place("a", "default", "kv"): Answer("answers"), Place("b", "default", "kv"): Answer("stale")}
    found = facts(answers=answers)
    assert verdict({"caches": {"kvcache": "kv", "nodes": ["a"]}}, found).holds
    less = verdict({"caches": {"kvcache": "kv", "nodes": ["a", "b"]}}, found)
    assert (less.holds, less.seen) == (False, "they answer on a (b stale)")
    assert not verdict({"caches": {"kvcache": "kv", "nodes": []}}, found).holds


def test_what_a_silent_service_said_is_unknown_and_so_is_its_opposite() -> None:
    silent = facts(placement_known=False, scheduler_known=False)
    for expectation in (
        {"condition": {"kvcache": "kv", "type": "Ready"}},
        {"status": {"kvcache": "kv", "exists": False}},
        {"engines": {"workload": "llama", "count": 0}},
        {"node": {"name": "a", "exists": False}},
    ):
        assert verdict(expectation, silent).holds is None
        assert verdict({"not": expectation}, silent).holds is None


def test_any_of_holds_with_one_and_is_unknown_only_when_none_is_known_to_hold() -> None:
    known, unknown = {"process": {"role": "nats", "count": 0}}, {"status": {"kvcache": "kv"}}
    wrong = {"process": {"role": "nats"}}
    silent = facts(placement_known=False)
    assert verdict({"any_of": [unknown, known]}, silent).holds is True
    assert verdict({"any_of": [unknown, wrong]}, silent).holds is None
    assert verdict({"any_of": [wrong, wrong]}, silent).holds is False


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({"moved": "b"}, True),
        ({"moved": "a"}, False),
        ({"moved": {"differs": "a"}}, True),
        ({"moved": {"differs": "b"}}, False),
        ({"moved": {"matches": "^b$"}}, True),
        ({"nodes.*.node": "n2"}, True),
        ({"nodes.1.node": "n1"}, False),
        ({"nodes.0.node": "n1"}, True),
        ({"engines": {"at_least": 3}}, True),
        ({"engines": {"at_most": 2}}, False),
        ({"moved_at": None}, False),
        ({"moved_at": {"matches": "."}}, False),
        ({"moved_at": {"differs": "2026-01-01T00:00:00Z"}}, True),
    ],
)
def test_fields_of_a_message_are_compared_by_path(fields: dict[str, Any], holds: bool) -> None:
    body = {"moved": "b", "nodes": [{"node": "n1"}, {"node": "n2"}], "engines": 3}
    said = [heard("kvcache.status", body=body)]
    assert verdict({"event": {"type": "kvcache.status", "fields": fields}}, facts(said)).holds is holds


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        ("kvberth.evt.v1.a.default.kv.socket", True),
        ("kvberth.evt.v1.*.default.kv.socket", True),
        ("kvberth.evt.v1.a.>", True),
        ("kvberth.evt.v1.b.>", False),
        ("kvberth.evt.v1.a.default.kv.socket.>", False),
        ("kvberth.*", False),
        (">", True),
    ],
)
def test_subjects_match_as_in_nats(pattern: str, holds: bool) -> None:
    said = [heard("socket.ready", node="a")]
    assert verdict({"event": {"subject": pattern}}, facts(said)).holds is holds


def test_messages_count_since_a_mark_or_since_the_window_began() -> None:
    said = [heard("pod.gone", 0), heard("pod.gone", 1), heard("pod.gone", 2)]
    marked = facts(said, marks={"m": Mark(NOW, 1)}, begun=2)
    assert verdict({"event": {"type": "pod.gone", "count": 2, "since": "m"}}, marked).holds
    assert verdict({"event": {"type": "pod.gone", "count": 1}}, marked).holds
    assert verdict({"event": {"type": "pod.gone", "count": {"at_least": 2, "at_most": 3}}}, facts(said)).holds


def test_order_merges_streams_by_time_and_keeps_the_order_within_one() -> None:
    said = [heard("socket.ready", 2.0), heard("want.cache", 1.0, stream="KVBERTH_WANTS")]
    order = [{"type": "want.cache"}, {"type": "socket.ready"}]
    assert verdict({"order": {"events": order}}, facts(said)).holds
    back = verdict({"order": {"events": order[::-1]}}, facts(said))
    assert not back.holds
    assert back.seen.startswith("no want.cache after ")


def started(at: float, pid: int = 20, node: str = "a") -> Heard:
    start = (NOW + timedelta(seconds=at)).isoformat()
    body = {"role": "engine", "workload": "Deployment/llama", "pid": pid, "started": start, "name": f"pod-{pid}"}
    return heard("process.started", at + 0.1, node=node, name=f"pod-{pid}", body=body)


@pytest.mark.parametrize(
    ("said", "holds"),
    [
        ([heard("socket.ready", 1, node="a"), started(2)], True),
        ([heard("socket.ready", 3, node="a"), started(2)], False),
        ([heard("socket.ready", 1, node="b"), started(2)], False),
        ([heard("socket.ready", 0, node="a"), heard("socket.lost", 1, node="a"), started(2)], False),
        ([heard("socket.ready", 1, node="a"), started(2), started(0.5, pid=21)], False),
        ([heard("socket.ready", 1, node="a")], False),
    ],
)
def test_an_engine_starts_after_the_cache_of_its_node_answered(said: list[Heard], holds: bool) -> None:
    assert verdict({"start_order": {"workload": "llama", "kvcache": "kv"}}, facts(said)).holds is holds


def test_a_gate_is_no_life_of_its_engine() -> None:
    gate = started(0, pid=19)
    gate = replace(gate, body={**gate.body, "at_gate": True, "namespace": "default"})
    engine = started(2)
    engine = replace(engine, body={**engine.body, "namespace": "default"})
    found = facts([gate, heard("socket.ready", 1, node="a"), engine])
    assert verdict({"start_order": {"workload": "llama", "kvcache": "kv"}}, found).holds
    assert verdict({"lives": {"engine": {"workload": "llama"}, "count": 1}}, found).holds
    waits = replace(ENGINE, role="gate", pid=19)
    assert identity((CACHE, ENGINE, waits)) == (True, False)
    assert verdict({"lives": {"engine": {"workload": "llama"}, "count": 0}}, facts(lives=(waits,))).holds


@pytest.mark.parametrize(("seconds", "holds"), [(-1, False), (1, True)])
def test_where_no_runner_says_a_start_the_kernel_tells_it(seconds: int, holds: bool) -> None:
    said = [heard("socket.ready", 0, node="a", name="kv")]
    engine = replace(ENGINE, began=said[0].time + timedelta(seconds=seconds))
    rule = {"start_order": {"workload": "llama", "kvcache": "kv"}}
    assert verdict(rule, facts(said, lives=(engine,))).holds is holds
    after = {"m": Mark(engine.began + timedelta(seconds=1), 1)}
    since = {"start_order": {"workload": "llama", "kvcache": "kv", "since": "m"}}
    assert verdict(since, facts(said, lives=(engine,), marks=after)).holds is False


def identity(lives: tuple[Life, ...], **rule: Any) -> tuple[bool | None, bool | None]:
    """Judge `same` and `changed` for lives now, against CACHE and ENGINE at the mark."""
    found = facts(lives=lives, marks={"m": Mark(NOW, 0, (CACHE, ENGINE))})
    rule = {"since": "m", **rule}
    return verdict({"same": rule}, found).holds, verdict({"changed": rule}, found).holds


def test_identities_are_compared_by_place() -> None:
    reborn = replace(CACHE, pid=11, incarnation="two")
    assert identity((CACHE, ENGINE)) == (True, False)
    assert identity((reborn, ENGINE)) == (False, False)
    assert identity((reborn, replace(ENGINE, pid=21))) == (False, True)
    assert identity((ENGINE,)) == (False, False)
    assert identity((CACHE, ENGINE, replace(CACHE, node="b", pid=12))) == (False, False)
    assert identity((reborn, ENGINE), of={"engine": {"workload": "llama"}}) == (True, False)
    assert identity((reborn, ENGINE), of={"cache": {"kvcache": "kv", "node": "a"}}) == (False, True)


def test_lives_since_a_mark_are_those_that_were_said_or_run_and_did_not_live_then() -> None:
    again = {"role": "cache", "namespace": "default", "owner": "kv", "pid": 10, "incarnation": "one"}
    second = {**again, "pid": 11, "incarnation": "two"}
    said = [heard("process.started", i, node="a", body=body) for i, body in enumerate((again, second, second))]
    third = replace(CACHE, pid=12, incarnation="three")
    found = facts(said, lives=(third,), marks={"m": Mark(NOW, 0, (CACHE,))})
    rule = {"cache": {"kvcache": "kv"}, "since": "m"}
    assert verdict({"lives": {**rule, "count": 2}}, found).holds
    assert verdict({"lives": {"cache": {"kvcache": "kv"}, "count": 3}}, found).holds
    assert verdict({"lives": {"cache": {"kvcache": "kv", "node": "b"}, "count": 0}}, found).holds


def test_lives_without_a_mark_are_those_that_began_in_the_window() -> None:
    body = {"role": "cache", "namespace": "default", "owner": "kv"}
    old = heard("process.started", 0, node="a", body={**body, "pid": 10, "incarnation": "one"})
    ready = heard("process.started", 1, node="a", body={**body, "pid": 10, "incarnation": "one", "ready": True})
    rule = {"lives": {"cache": {"kvcache": "kv"}, "count": 1}}
    assert not verdict(rule, facts([old, ready], lives=(CACHE,), begun=1)).holds
    assert verdict(rule, facts([old, ready], lives=(CACHE,))).holds
    assert verdict(rule, facts([old], lives=(CACHE, replace(CACHE, pid=11, incarnation="two")), begun=1)).holds


def test_an_engine_reaches_the_daemon_of_its_own_node() -> None:
    right, wrong = Answer("answers", "one"), Answer("answers", "two")
    rule = {"reaches": {"workload": "llama", "kvcache": "kv"}}
    place = Place("a", "default", "kv")
    found = facts(lives=(ENGINE,), given={"/run/kv.sock": right}, answers={place: right})
    assert verdict(rule, found).holds
    assert not verdict(rule, replace(found, answers={place: wrong})).holds
    assert not verdict(rule, replace(found, given={})).holds
    assert not verdict(rule, replace(found, lives=())).holds


def test_a_service_is_judged_by_what_it_says_of_itself() -> None:
    of = {"of": "placement"}
    away = facts(readiness={"the placement": Readiness(False, '{"checks": {"bus": "not connected"}}')})
    assert verdict({"ready": {**of, "value": False}}, away).holds
    assert verdict({"ready": {**of, "value": False, "says": "not conn"}}, away).holds
    assert not verdict({"ready": {**of, "value": False, "says": "disk"}}, away).holds
    assert not verdict({"ready": of}, away).holds
    assert verdict({"ready": of}, facts(readiness={"the placement": Readiness(True, None)})).holds
    unsaid = verdict({"ready": {**of, "says": "x"}}, facts(readiness={"the placement": Readiness(True, None)}))
    assert unsaid.holds is None
    assert verdict({"ready": of}, facts(readiness={"the placement": "no answer"})).holds is None


def test_metrics_are_added_up_over_the_series_that_have_the_labels() -> None:
    samples = [Sample("x_total", {"reason": "a"}, 2), Sample("x_total", {"reason": "b"}, 3), Sample("y", {}, 9)]
    marks = {"m": Mark(NOW, 0, metrics={"the placement": [Sample("x_total", {"reason": "a"}, 1)]})}
    found = facts(metrics={"the placement": samples}, marks=marks)
    rule: dict[str, Any] = {"of": "placement", "name": "x_total"}
    assert verdict({"metric": {**rule, "value": 5}}, found).holds
    assert verdict({"metric": {**rule, "labels": {"reason": "b"}, "op": ">", "value": 2}}, found).holds
    assert verdict({"metric": {**rule, "value": 4, "since": "m"}}, found).holds
    assert verdict({"metric": {**rule, "labels": {"reason": "z"}, "value": 0}}, found).holds
    assert verdict({"metric": {**rule, "value": 5}}, facts(metrics={"the placement": "no answer"})).holds is None


def test_log_lines_count_since_the_length_at_the_mark() -> None:
    found = facts(logs={"NATS": ["ready", "lost", "ready"]}, marks={"m": Mark(NOW, 0, logs={"NATS": 2})})
    assert verdict({"log": {"of": "nats", "line": "^ready$", "count": 2}}, found).holds
    assert verdict({"log": {"of": "nats", "line": "ready", "count": 1, "since": "m"}}, found).holds
    assert not verdict({"log": {"of": "nats", "line": "lost", "since": "m"}}, found).holds


def test_memory_is_bounded_absolutely_and_by_its_growth() -> None:
    nats = Life("nats", 5, rss_bytes=3 << 20)
    found = facts(lives=(nats,), marks={"m": Mark(NOW, 0, (replace(nats, rss_bytes=1 << 20),))})
    assert verdict({"memory": {"of": "nats", "at_most": "3Mi"}}, found).holds
    assert not verdict({"memory": {"of": "nats", "at_most": "2Mi"}}, found).holds
    assert verdict({"memory": {"of": "nats", "grown_at_most": "2Mi", "since": "m"}}, found).holds
    assert not verdict({"memory": {"of": "nats", "grown_at_most": "1Mi", "since": "m"}}, found).holds
    assert not verdict({"memory": {"of": "placement", "at_most": "2Mi"}}, found).holds


@pytest.mark.parametrize(
    ("fact", "state", "mode", "holds"),
    [
        (PathFact("directory", empty=True, mode=0o700), "empty", "0700", True),
        (PathFact("directory", empty=True, mode=0o700), "directory", "700", True),
        (PathFact("directory", empty=False, mode=0o700), "empty", None, False),
        (PathFact("directory", mode=0o755), "present", "0700", False),
        (PathFact("socket"), "present", None, True),
        (PathFact("missing"), "present", None, False),
        (PathFact("missing"), "missing", None, True),
    ],
)
def test_a_path_is_what_lies_there(fact: PathFact, state: str, mode: str | None, holds: bool) -> None:
    rule = {"node": "a", "path": "default/kv", "state": state, **({"mode": mode} if mode else {})}
    assert verdict({"path": rule}, facts(paths={("a", "default/kv"): fact})).holds is holds


def test_a_status_mentions_what_stands_anywhere_in_it() -> None:
    status = KVCacheStatusV1(
        uid="u", name="kv", namespace="default", observed_generation=2, term=1, wanted_replicas=1, engines=1,
        engines_served=1, moved="relocated from a to b",
    )  # fmt: skip
    found = facts(statuses=(status,))
    assert verdict({"status": {"kvcache": "kv", "mentions": "from a"}}, found).holds
    assert verdict({"not": {"status": {"kvcache": "kv", "mentions": "l20-z"}}}, found).holds
    assert verdict({"status": {"kvcache": "kv", "generation": 2, "moved": "to b$", "nodes": []}}, found).holds
    assert not verdict({"status": {"kvcache": "kv", "generation": 1}}, found).holds


def test_what_nobody_can_look_at_is_unknown_and_so_is_its_opposite() -> None:
    found = facts(answers={Place("a", "default", "kv"): Answer("other")}, unseen=frozenset({"a"}))
    for expectation in (
        {"caches": {"kvcache": "kv", "nodes": []}},
        {"process": {"role": "cache", "count": 0}},
        {"process": {"role": "cache", "node": "a", "count": 0}},
        {"socket": {"kvcache": "kv", "node": "a", "state": "missing"}},
        {"lives": {"cache": {"kvcache": "kv"}, "count": 0}},
    ):
        assert verdict(expectation, found) == Verdict(None, "unknown: nobody can look at a")
        assert verdict({"not": expectation}, found).holds is None
    assert verdict({"process": {"role": "cache", "node": "b", "count": 0}}, found).holds is True


def test_who_lived_when_a_window_began_is_no_life_of_the_window() -> None:
    expectation = {"lives": {"engine": {"workload": "llama"}, "count": 0}}
    assert verdict(expectation, facts(lives=(ENGINE,))).holds is False
    assert verdict(expectation, facts(lives=(ENGINE,), lived=(ENGINE,))).holds is True
    assert verdict(expectation, facts(lives=(ENGINE, replace(ENGINE, pid=21)), lived=(ENGINE,))).holds is False


MARKED = {"m": Mark(NOW, 0)}


def told(at: float, reason: str = "Hung") -> Heard:
    since = (NOW + timedelta(seconds=at)).isoformat()
    said = {"type": "Healthy", "status": "False", "reason": reason, "message": "x", "since": since}
    return heard("kvcache.status", at, body={"conditions": [said]})


@pytest.mark.parametrize(("at", "holds"), [(1.9, True), (2.1, False)])
def test_what_was_said_counts_by_its_own_time_however_late_it_is_looked_at(at: float, holds: bool) -> None:
    late = facts([heard("cache.health", at), told(at)], marks=MARKED)
    late = replace(late, at=NOW + timedelta(seconds=60))
    event = verdict({"event": {"type": "cache.health", "since": "m", "by": "2s"}}, late)
    condition = verdict({"condition": {"kvcache": "kv", "type": "Healthy", "since": "m", "by": "2s"}}, late)
    assert (event.holds, condition.holds) == (holds, holds)
    assert ("2.100 s after the mark" in event.seen) is not holds


def test_a_condition_since_a_mark_was_so_whatever_was_said_later() -> None:
    said = facts([told(1.0, "Hung"), told(2.0, "Stale")], marks=MARKED, placement_known=False)
    for reason, holds in (("Hung", True), ("Stale", True), ("Full", False)):
        wanted = {"kvcache": "kv", "type": "Healthy", "reason": reason, "since": "m"}
        assert verdict({"condition": wanted}, said).holds is holds
    assert not verdict({"condition": {"kvcache": "other", "type": "Healthy", "since": "m"}}, said).holds


@pytest.mark.parametrize(("by", "holds"), [("3s", True), ("1s", False)])
def test_an_order_may_have_to_be_done_in_some_time(by: str, holds: bool) -> None:
    said = facts([heard("socket.ready", 10.0), heard("cache.health", 12.0)])
    order = {"events": [{"type": "socket.ready"}, {"type": "cache.health"}], "by": by}
    assert verdict({"order": order}, said).holds is holds


@pytest.mark.parametrize(
    ("wanted", "holds"),
    [
        ({"health": {"a": "Hung"}}, True),
        ({"health": {"a": "Proven"}}, False),
        ({"health": {"b": "Hung"}}, False),
        ({"proofs": {"a": "2s"}, "since": "m"}, True),
        ({"proofs": {"a": "1s"}, "since": "m"}, False),
        ({"proofs": {"b": "2s"}, "since": "m"}, False),
    ],
)
def test_a_row_tells_health_and_the_time_of_the_last_proof(wanted: dict[str, Any], holds: bool) -> None:
    proof = NOW - timedelta(seconds=1.5)
    rows = (NodeRow(node="a", state="serving", health="Hung", last_proof=proof), NodeRow(node="b", state="starting"))
    status = KVCacheStatusV1(
        uid="u",
        name="kv",
        namespace="default",
        observed_generation=1,
        term=1,
        wanted_replicas=1,
        engines=0,
        engines_served=0,
        nodes=rows,
        conditions=(),
        moved="",
    )
    assert verdict({"status": {"kvcache": "kv", **wanted}}, facts(statuses=(status,), marks=MARKED)).holds is holds


def test_what_the_status_command_prints_counts_by_when_it_was_given() -> None:
    runs = [Printed(NOW + timedelta(seconds=at), f"kv  {word}") for at, word in ((-1.0, "old"), (1.0, "a"), (3.0, "b"))]
    found = facts(printed=runs, marks=MARKED)
    assert verdict({"cli": {"line": "^kv +b$"}}, found).holds
    assert verdict({"cli": {"line": "kv +a"}}, found).holds is False
    assert verdict({"cli": {"line": "kv +a", "since": "m"}}, found).holds
    assert verdict({"cli": {"line": "old", "since": "m"}}, found).holds is False
    assert verdict({"cli": {"line": "b$", "since": "m", "by": "2s"}}, found).holds is False
    assert verdict({"cli": {"line": "kv"}}, facts()).holds is None
    begun = replace(found, step_began=NOW + timedelta(seconds=2))
    assert verdict({"cli": {"line": "kv +b"}}, begun).holds
    assert verdict({"cli": {"line": "kv +a", "since": "m"}}, begun).holds
    assert verdict({"cli": {"line": "kv +b"}}, replace(found, step_began=NOW + timedelta(seconds=4))).holds is None
