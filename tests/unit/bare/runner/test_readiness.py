"""What looks at a process make of its record, and what follows from a cache that lost its socket."""

import pytest

from kvberth.bare.runner.decide import SOCKET_LOST_S, Step, Verb, decide
from kvberth.bare.runner.readiness import UNREADY_AFTER, Answer, Looks
from kvberth.bare.runner.record import State
from unit.bare.runner.samples import CACHE, ENGINE, NOW, cache_want, engine_want, record, snapshot

LOST = Answer(False, "its socket file was removed", socket_lost=True)
SLOW = Answer(False, "no answer")


def test_a_first_answer_makes_ready():
    assert Looks().take(record(), Answer(True), NOW) == {"ready": True}


@pytest.mark.parametrize("answer", [LOST, SLOW])
def test_what_was_never_ready_is_only_not_ready_yet(answer):
    assert Looks().take(record(), answer, NOW) == {}


def test_a_look_that_was_not_possible_changes_nothing():
    assert Looks().take(record(ready=True), Answer(None), NOW) == {}


def test_some_missing_answers_are_forgiven():
    looks = Looks()
    for _ in range(UNREADY_AFTER - 1):
        assert looks.take(record(ready=True), SLOW, NOW) == {}
    assert looks.take(record(ready=True), SLOW, NOW) == {"ready": False, "unready": "no answer"}


def test_a_lost_socket_is_none_of_them_and_its_first_moment_is_kept():
    looks = Looks()
    changes = looks.take(record(ready=True), LOST, NOW)
    assert changes == {"ready": False, "unready": LOST.why, "socket_lost_at": NOW}
    assert looks.take(record(**changes), LOST, NOW + 1) == {}
    back = {"ready": True, "unready": "", "socket_lost_at": None}
    assert looks.take(record(**changes), Answer(True), NOW + 2) == back


def lost(since=NOW - SOCKET_LOST_S):
    return record(CACHE, unready=LOST.why, socket_lost_at=since)


def test_a_cache_without_its_socket_is_started_anew_after_a_while():
    soon = decide(snapshot([(CACHE, cache_want())], [lost(NOW - 1)]))[CACHE]
    assert (soon.steps, soon.wake_at) == ((), NOW - 1 + SOCKET_LOST_S)
    assert soon.report is not None
    assert soon.report.event.message == LOST.why
    due = decide(snapshot([(CACHE, cache_want())], [lost()]))[CACHE]
    assert due.steps == (Step(Verb.TERMINATE, CACHE, for_good=False),)


def test_but_not_under_a_living_engine_which_may_be_connected():
    wants = [(CACHE, cache_want()), (ENGINE, engine_want())]
    held = decide(snapshot(wants, [lost(), record(ENGINE)]))[CACHE]
    assert held.steps == ()
    assert held.report is not None
    assert "engine llama-0 goes on where it is connected, a new one can't connect" in held.report.event.message


def test_an_engine_between_two_lives_is_connected_to_nothing():
    wants = [(CACHE, cache_want()), (ENGINE, engine_want())]
    due = decide(snapshot(wants, [lost(), record(ENGINE, State.ENDED)]))[CACHE]
    assert due.steps == (Step(Verb.TERMINATE, CACHE, for_good=False),)


def test_a_cache_that_no_want_asks_for_is_left_alone_without_its_socket_too():
    assert decide(snapshot([], [lost()]))[CACHE].steps == ()
