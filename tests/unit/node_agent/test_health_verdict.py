"""What is said of a cache's health, look by look."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kvberth.node_agent.health.verdict import (
    Cache,
    Failed,
    Late,
    NoEvidence,
    Proven,
    Standing,
    ended,
    judge,
    recalled,
    unsaid_end,
)
from kvberth_schemas.events import HealthReason, Verdict

CACHE = Cache("l20-a", "default", "k", "/r/default/k/vineyard.sock")
START = datetime(2026, 1, 1, tzinfo=UTC)
GOOD = Proven("i1", 0.002, 0.0002, 64, 1 << 26)
OTHER = Proven("i2", 0.002, 0.0002, 64, 1 << 26)
SLOW = Proven("i1", 0.8, 0.1, 64, 1 << 26)
OUR_DELAY_MAY_BE_ALL = Proven("i1", 0.8, 0.02, 64, 1 << 26, 0.1)
ONE_LATE_CALL = Proven("i1", 0.39, 0.0002, 64, 1 << 26)
STALE = Failed(HealthReason.STALE, "nobody listens")
REFUSED = Failed(HealthReason.REFUSED, "not now")
FULL = Failed(HealthReason.FULL, "no room")
NOTHING, BUSY, BLIND = Late(False, 0.4), Late(True, 0.4), NoEvidence("no descriptor is left")


def said(*looks, every=1.0, standing=None):
    """The events of looks that come `every` second."""
    standing, events = standing or Standing(), []
    for number, seen in enumerate(looks):
        standing, event = judge(CACHE, standing, seen, START + timedelta(seconds=number * every))
        if event is not None:
            events.append(event)
    return events


def test_another_word_of_the_transfer_worker_is_said_at_once_though_bytes_came_back_before_and_after():
    standing, first = judge(CACHE, Standing(blocks=None), GOOD, START)
    standing, again = judge(CACHE, standing, GOOD, START + timedelta(seconds=1))
    standing, waits = judge(CACHE, replace(standing, blocks="Waiting."), GOOD, START + timedelta(seconds=2))
    _, still = judge(CACHE, standing, GOOD, START + timedelta(seconds=3))
    assert (first.blocks, again, waits.blocks, waits.verdict, still) == (None, None, "Waiting.", Verdict.HEALTHY, None)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([GOOD, GOOD, GOOD], ["healthy Proven"]),
        ([GOOD, STALE, STALE, GOOD], ["healthy Proven", "failed Stale", "healthy Proven"]),
        ([GOOD, NOTHING, GOOD, NOTHING, GOOD], ["healthy Proven"]),
        ([GOOD, NOTHING, NOTHING, NOTHING, GOOD], ["healthy Proven", "failed Hung", "healthy Proven"]),
        ([GOOD, BUSY, NOTHING, NOTHING], ["healthy Proven", "failed Hung"]),
        ([GOOD, BUSY, GOOD], ["healthy Proven"]),
        ([GOOD, *[BUSY] * 9, GOOD], ["healthy Proven", "degraded Slow", "healthy Proven"]),
        ([GOOD, BUSY, BUSY, NOTHING, BUSY], ["healthy Proven", "degraded Slow"]),
        ([GOOD, SLOW, SLOW, GOOD], ["healthy Proven", "degraded Slow", "healthy Proven"]),
        ([GOOD, OUR_DELAY_MAY_BE_ALL], ["healthy Proven"]),
        ([SLOW, OUR_DELAY_MAY_BE_ALL, OUR_DELAY_MAY_BE_ALL], ["degraded Slow"]),
        ([SLOW, OUR_DELAY_MAY_BE_ALL, GOOD], ["degraded Slow", "healthy Proven"]),
        ([STALE, OUR_DELAY_MAY_BE_ALL], ["failed Stale", "healthy Proven"]),
        ([GOOD, ONE_LATE_CALL], ["healthy Proven"]),
        ([GOOD, FULL, FULL, GOOD], ["healthy Proven", "degraded Full", "healthy Proven"]),
        ([NOTHING], []),
        ([NOTHING, NOTHING], ["failed Hung"]),
        ([STALE], ["failed Stale"]),
        ([GOOD, *[BLIND] * 4], ["healthy Proven"]),
        ([GOOD, *[BLIND] * 7, GOOD], ["healthy Proven", "unknown NotProbed", "healthy Proven"]),
        ([BLIND] * 7, ["unknown NotProbed"]),
        ([STALE, *[BLIND] * 7], ["failed Stale", "unknown NotProbed"]),
    ],
)
def test_each_change_is_said_once_and_a_missed_deadline_needs_a_second_one(looks, expected):
    assert [f"{event.verdict} {event.reason}" for event in said(*looks)] == expected


def test_another_daemon_in_the_place_of_one_that_was_proven_is_news():
    assert [event.incarnation for event in said(GOOD, OTHER)] == ["i1", "i2"]


@pytest.mark.parametrize(
    ("before", "seen", "closed", "told"),
    [
        ([GOOD], OTHER, False, True),
        ([GOOD], OTHER, True, True),
        ([GOOD], GOOD, True, True),  # of one that kvberth did not start every life has the same name
        ([SLOW], OTHER, False, True),
        ([FULL], OTHER, False, False),  # nobody knows who was full
        ([GOOD, FULL], OTHER, False, True),
        ([GOOD], NOTHING, True, True),
        ([GOOD], BUSY, True, True),
        ([GOOD], BLIND, True, True),
        ([GOOD], NOTHING, False, False),
        ([GOOD], GOOD, False, False),
        ([GOOD], STALE, True, False),  # which is said instead
        ([GOOD, STALE], OTHER, True, False),  # was said
        ([], OTHER, True, False),
    ],
)
def test_the_end_of_who_was_said_to_be_there_is_told_however_soon_another_answers(before, seen, closed, told):
    standing = Standing()
    for look in before:
        standing, _ = judge(CACHE, standing, look, START)
    end = unsaid_end(CACHE, standing, seen, closed=closed)
    assert (end is not None) == told
    if end is not None:
        standing, event = judge(CACHE, standing, end, START)
        assert event is not None
        assert (event.verdict, event.reason, standing.living) == ("failed", "Gone", None)
        assert unsaid_end(CACHE, standing, seen, closed=closed) is None


def test_a_failure_names_who_was_proven_last_and_when():
    failed = said(GOOD, GOOD, STALE)[-1]
    assert (failed.incarnation, failed.last_proof) == ("i1", START + timedelta(seconds=1))
    assert (failed.memory_limit, failed.round_trip_s, failed.message) == (1 << 26, None, "nobody listens")


def test_who_hangs_is_named_only_where_it_is_the_one_that_was_proven():
    assert said(GOOD, NOTHING, NOTHING)[-1].incarnation == "i1"
    assert said(GOOD, STALE, NOTHING, NOTHING)[-1].incarnation is None  # another one, which may be starting still
    assert said(GOOD, REFUSED, NOTHING, NOTHING)[-1].incarnation == "i1"  # who refuses is there
    assert said(NOTHING, NOTHING)[-1].incarnation is None


def test_a_deadline_that_one_daemon_missed_says_nothing_about_the_next():
    standing, _ = judge(CACHE, Standing(), GOOD, START)
    standing, _ = judge(CACHE, standing, NOTHING, START)
    (hung,) = said(NOTHING, NOTHING, standing=ended(standing))
    assert (hung.incarnation, hung.last_proof) == (None, START)
    assert said(NOTHING, standing=ended(standing)) == []


@pytest.mark.parametrize(("lives", "incarnation"), [(True, "i1"), (False, None)])
def test_what_an_earlier_life_proved_is_remembered_of_the_daemon_that_listens_still(lives, incarnation):
    (earlier,) = said(GOOD)
    standing = recalled(Standing(), earlier, lives=lives)
    (hung,) = said(NOTHING, NOTHING, standing=standing)
    assert (hung.reason, hung.incarnation, hung.last_proof) == ("Hung", incarnation, START)
    assert said(STALE, NOTHING, NOTHING, standing=standing)[-1].incarnation is None


def test_the_time_of_the_last_proof_is_renewed_every_half_minute():
    times = [event.last_proof for event in said(*[GOOD] * 65)]
    assert times == [START + timedelta(seconds=seconds) for seconds in (0, 30, 60)]


def test_an_event_says_of_whom_it_is_and_what_came_back():
    (event,) = said(GOOD)
    assert (event.node, event.namespace, event.cache) == ("l20-a", "default", "k")
    assert (event.round_trip_s, event.memory_usage, event.memory_limit) == (0.002, 64, 1 << 26)
    assert event.verdict is Verdict.HEALTHY


def test_only_where_one_more_look_decides_it_comes_at_once():
    def doubtful(*looks):
        standing = Standing()
        for number, seen in enumerate(looks):
            standing, _ = judge(CACHE, standing, seen, START + timedelta(seconds=number))
        return standing.doubtful

    assert not doubtful(GOOD)
    assert doubtful(GOOD, NOTHING)
    assert not doubtful(GOOD, NOTHING, NOTHING)
    assert not doubtful(GOOD, NOTHING, NOTHING, NOTHING)
    assert doubtful(GOOD, BUSY)
    assert not doubtful(GOOD, BUSY, BUSY)
    assert doubtful(GOOD, BUSY, NOTHING)
    assert not doubtful(GOOD, STALE)
    assert not doubtful(GOOD, NOTHING, BLIND)
    assert doubtful(GOOD, NOTHING, BLIND, BUSY, NOTHING)
