"""A move's time is told from the messages of its own chain, whatever else is said."""

from datetime import UTC, datetime, timedelta

import pytest
from benchmarks.stages import STAGES, Heard, binding, percentile, stages, summary

from kvberth_schemas.envelope import Envelope
from kvberth_schemas.events import PodRole, PodScheduledV1, ProcessRole, ProcessStartedV1, Resources
from kvberth_schemas.wants import CacheWantV1, Why

START = datetime(2026, 11, 30, tzinfo=UTC)


def at(ms):
    return START + timedelta(milliseconds=ms)


def heard(message, event_id, said_ms, stored_ms, cause=None):
    envelope = Envelope(event_id, message.ce_type, "/kvberth/x/y", at(said_ms), "subject", cause)
    return Heard(envelope, message, at(stored_ms))


def pod(uid, **changes):
    said = {"name": uid, "namespace": "default", "resource_version": 1, "role": PodRole.ENGINE, "requests": Resources()}
    return PodScheduledV1(uid=uid, node="l20-b", **(said | changes))


def want(**changes):
    said = {"term": 1, "state": "run", "why": Why.WANTED, "namespace": "default", "kvcache": "k", "kvcache_uid": "u"}
    return CacheWantV1(**(said | {"size_bytes": 1} | changes))


def process(role, started_ms):
    return ProcessStartedV1(
        node="l20-b", namespace="default", owner="k", name="k", role=role, pid=1, started=at(started_ms), ready=False
    )


CHAIN = [
    heard(process(ProcessRole.CACHE, 1), "other", 1, 1, "another-want"),
    heard(want(state="stop", why=Why.MOVED), "stop", 2, 2, "e2"),
    heard(want(), "w", 10, 12, "e2"),
    heard(process(ProcessRole.ENGINE, 15), "engine", 16, 16, "w"),
    heard(process(ProcessRole.CACHE, 20), "p", 21, 22, "w"),
    heard(process(ProcessRole.CACHE, 20), "ready", 60, 61, "w"),
]
BOUND = heard(pod("new"), "e2", 0, 3)


def test_the_stages_of_a_move_are_told_by_its_causes_and_make_up_the_whole():
    took = stages(CHAIN, BOUND, at(50))
    assert took == pytest.approx({"bus": 0.003, "plan": 0.007, "want": 0.002, "runner": 0.008, "daemon": 0.030})
    assert took.keys() == STAGES.keys()
    assert sum(took.values()) == pytest.approx(0.050)


@pytest.mark.parametrize("missing", ["w", "p"])
def test_nothing_is_told_while_a_message_of_the_chain_is_missing(missing):
    part = [one for one in CHAIN if one.envelope.id not in (missing, "ready")]
    assert stages(part, BOUND, at(50)) is None


def test_the_binding_is_that_of_an_engine_never_seen_before():
    old = heard(pod("old"), "e1", 0, 0)
    ending = heard(pod("ending", deleting=True), "e0", 0, 0)
    assert binding([old, ending, BOUND], {"old"}) == BOUND
    assert binding([old, ending], {"old"}) is None


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (0.5, 1)])
def test_a_percentile_is_a_value_that_was_measured(percent, value):
    assert percentile(range(100, 0, -1), percent) == value


def test_the_shares_of_all_stages_make_up_the_whole():
    moves = [dict.fromkeys(STAGES, 0.01) | {"daemon": 0.06}, dict.fromkeys(STAGES, 0.01) | {"daemon": 0.04}]
    told = summary(moves)
    assert told["daemon"] == {"p50_ms": 50.0, "p99_ms": 60.0, "share": 0.556}
    assert sum(stage["share"] for stage in told.values()) == pytest.approx(1, abs=0.01)
