"""What the runner decides by wants and records, with nothing running."""

import pytest

from kvberth.bare.runner.decide import CACHE_GRACE_S, FORGET_AFTER_S, UNWATCHED_WAIT_S, Step, Verb, decide
from kvberth.bare.runner.record import State
from kvberth_schemas.events import ProcessEndedV1, ProcessStartedV1
from kvberth_schemas.wants import RestartPolicy, Why
from unit.bare.runner.samples import CACHE, ENGINE, NOW, cache_want, engine_want, record, snapshot


def verbs(decision):
    return [step.verb for step in decision.steps]


def test_what_is_wanted_and_not_there_is_started():
    decisions = decide(snapshot([(CACHE, cache_want()), (ENGINE, engine_want())]))
    assert decisions[CACHE].steps == (Step(Verb.START, CACHE),)
    assert decisions[ENGINE].steps == (Step(Verb.START, ENGINE),)


def test_what_is_being_started_is_waited_for():
    decision = decide(snapshot([(CACHE, cache_want())], [record(state=State.STARTING)]))[CACHE]
    assert (decision.steps, decision.report) == ((), None)


def test_what_runs_and_is_wanted_is_reported_with_the_want_as_cause():
    decision = decide(snapshot([(CACHE, cache_want())], [record(ready=True)]))[CACHE]
    assert decision.steps == ()
    assert isinstance(decision.report.event, ProcessStartedV1)
    assert (decision.report.event.ready, decision.report.event.wanted, decision.report.cause) == (True, True, "w1")
    assert decision.report.event.directories == ("/var/run/vineyard-kubernetes/default/kv",)


@pytest.mark.parametrize("known", [True, False])
def test_absence_of_a_want_never_stops_anything(known):
    decision = decide(snapshot([], [record(), record(ENGINE)], wants_known=known))
    assert all(not found.steps for found in decision.values())
    assert [found.report.event.wanted for found in decision.values()] == [False, False]


def test_an_ended_process_without_a_want_is_forgotten_after_a_while_but_not_while_wants_are_unknown():
    fresh = record(state=State.ENDED)
    old = record(state=State.ENDED, ended_at=NOW - FORGET_AFTER_S)
    assert decide(snapshot([], [fresh]))[CACHE].steps == ()
    assert decide(snapshot([], [fresh]))[CACHE].wake_at == NOW - 1 + FORGET_AFTER_S
    assert verbs(decide(snapshot([], [old]))[CACHE]) == [Verb.FORGET]
    assert decide(snapshot([], [old], wants_known=False))[CACHE].steps == ()


def test_a_process_that_was_stopped_is_forgotten_as_soon_as_its_want_is_purged():
    assert verbs(decide(snapshot([], [record(state=State.ENDED, stopped=True)]))[CACHE]) == [Verb.FORGET]


def test_a_stop_terminates_then_kills_after_the_grace():
    stop = [(CACHE, cache_want("stop", Why.MOVED))]
    first = decide(snapshot(stop, [record()]))[CACHE]
    assert first.steps == (Step(Verb.TERMINATE, CACHE, for_good=True),)
    waiting = decide(snapshot(stop, [record(terminated_at=NOW)]))[CACHE]
    assert (waiting.steps, waiting.wake_at) == ((), NOW + CACHE_GRACE_S)
    late = decide(snapshot(stop, [record(terminated_at=NOW - CACHE_GRACE_S)]))[CACHE]
    assert verbs(late) == [Verb.KILL]


def test_an_engine_has_the_grace_of_its_want():
    stop = [(ENGINE, engine_want("stop"))]
    assert decide(snapshot(stop, [record(ENGINE, terminated_at=NOW - 29)]))[ENGINE].steps == ()
    assert verbs(decide(snapshot(stop, [record(ENGINE, terminated_at=NOW - 30)]))[ENGINE]) == [Verb.KILL]


@pytest.mark.parametrize("why", [Why.MOVED, Why.IDLE, Why.HUNG, Why.UPGRADE, Why.WANTED])
def test_a_stop_of_a_cache_is_refused_while_a_living_engine_uses_its_directory(why):
    decision = decide(snapshot([(CACHE, cache_want("stop", why))], [record(), record(ENGINE)]))[CACHE]
    assert decision.steps == ()
    assert "engine llama-0 of this node uses /var/run/vineyard-kubernetes/default/kv" in decision.report.event.message


@pytest.mark.parametrize("why", [Why.USER, Why.SCALED])
def test_the_users_stop_of_a_cache_is_carried_out_under_a_living_engine(why):
    decision = decide(snapshot([(CACHE, cache_want("stop", why))], [record(), record(ENGINE)]))[CACHE]
    assert verbs(decision) == [Verb.TERMINATE]


STOP = (CACHE, cache_want("stop", Why.MOVED))


@pytest.mark.parametrize(
    ("wants", "records"),
    [
        pytest.param([STOP, (ENGINE, engine_want("stop"))], [record(ENGINE, State.STARTING)], id="being started"),
        pytest.param([STOP], [record(ENGINE)], id="without a want"),
        pytest.param([STOP, (ENGINE, engine_want("stop"))], [record(ENGINE, terminated_at=NOW)], id="ending"),
        pytest.param([STOP, (ENGINE, engine_want())], [record(ENGINE, State.ENDED)], id="about to be restarted"),
        pytest.param([STOP, (ENGINE, engine_want())], [], id="about to be started"),
    ],
)
def test_engines_that_hold_a_cache(wants, records):
    assert decide(snapshot(wants, [record(), *records]))[CACHE].steps == ()


@pytest.mark.parametrize(
    ("wants", "records"),
    [
        pytest.param([STOP], [], id="none"),
        pytest.param([STOP, (ENGINE, engine_want("stop"))], [record(ENGINE, State.ENDED)], id="stopped"),
        pytest.param([STOP], [record(ENGINE, State.ENDED)], id="ended without a want"),
        pytest.param(
            [STOP, (ENGINE, engine_want(policy=RestartPolicy.NEVER))], [record(ENGINE, State.ENDED)], id="over"
        ),
        pytest.param(
            [STOP], [record(ENGINE, want=engine_want(host_path="/var/run/vineyard-kubernetes/default/kv2"))], id="other"
        ),
    ],
)
def test_engines_that_hold_no_cache(wants, records):
    assert verbs(decide(snapshot(wants, [record(), *records]))[CACHE]) == [Verb.TERMINATE]


def test_a_daemon_of_the_refused_incarnation_is_ended_to_be_started_anew_even_under_an_engine():
    refused = [(CACHE, cache_want(why=Why.HUNG, not_incarnation="i1"))]
    assert decide(snapshot(refused, [record(), record(ENGINE)]))[CACHE].steps == (Step(Verb.TERMINATE, CACHE),)
    assert decide(snapshot(refused, [record(incarnation="i2")]))[CACHE].steps == ()
    ended = record(state=State.ENDED, terminated_at=NOW)
    assert verbs(decide(snapshot(refused, [ended]))[CACHE]) == [Verb.START]


def test_a_stop_of_what_never_ran_is_reported_ended():
    event = decide(snapshot([(CACHE, cache_want("stop"))]))[CACHE].report.event
    assert isinstance(event, ProcessEndedV1)
    assert (event.exit_code, event.restarting) == (None, False)


def test_a_stop_taken_back_after_it_was_sent_ends_the_process_and_starts_it_anew():
    run = [(CACHE, cache_want())]
    assert decide(snapshot(run, [record(terminated_at=NOW, stopped=True)]))[CACHE].steps == ()
    again = decide(snapshot(run, [record(state=State.ENDED, terminated_at=NOW, stopped=True)]))[CACHE]
    assert verbs(again) == [Verb.START]


def test_a_crashed_engine_waits_for_its_back_off_and_says_how_long():
    decision = decide(snapshot([(ENGINE, engine_want())], [record(ENGINE, State.ENDED, crashes=3)]))[ENGINE]
    assert decision.steps == ()
    assert decision.wake_at == NOW - 1 + 20
    assert decision.report.event.restarting
    assert "crash 3 in a row, the next start waits 20 s" in decision.report.event.message


def test_an_end_that_lies_in_the_future_of_a_clock_does_not_delay_a_start_for_ever():
    ended = record(ENGINE, State.ENDED, crashes=3, ended_at=NOW + 1e6)
    assert decide(snapshot([(ENGINE, engine_want())], [ended]))[ENGINE].wake_at == NOW + 20


@pytest.mark.parametrize(
    ("policy", "code", "over"),
    [
        (RestartPolicy.ALWAYS, 0, False),
        (RestartPolicy.ON_FAILURE, 0, True),
        (RestartPolicy.ON_FAILURE, 1, False),
        (RestartPolicy.ON_FAILURE, None, False),
        (RestartPolicy.NEVER, 1, True),
    ],
)
def test_the_restart_policy_of_an_engine(policy, code, over):
    ended = record(ENGINE, State.ENDED, exit_code=code, crashes=1)
    decision = decide(snapshot([(ENGINE, engine_want(policy=policy))], [ended]))[ENGINE]
    assert verbs(decision) == ([] if over else [Verb.START])
    assert decision.report.event.restarting is not over


def test_an_engine_that_could_not_be_started_is_tried_again_whatever_its_policy():
    ended = record(ENGINE, State.ENDED, started=None, crashes=1, message="no such program")
    assert verbs(decide(snapshot([(ENGINE, engine_want(policy=RestartPolicy.NEVER))], [ended]))[ENGINE]) == [Verb.START]


def test_an_engine_that_ended_for_good_is_not_revived_by_an_old_want_and_holds_no_cache():
    run = (ENGINE, engine_want())
    for decision in (
        decide(snapshot([run], [record(ENGINE, state=State.ENDED, stopped=True)]))[ENGINE],
        decide(snapshot([run], graves=[ENGINE]))[ENGINE],
    ):
        assert decision.steps == ()
        assert isinstance(decision.report.event, ProcessEndedV1)
        assert not decision.report.event.restarting
        assert "has ended for good" in decision.report.event.message
    stop = (CACHE, cache_want("stop", Why.MOVED))
    assert verbs(decide(snapshot([run, stop], [record()], graves=[ENGINE]))[CACHE]) == [Verb.TERMINATE]


def test_a_cache_that_was_stopped_comes_back_when_it_is_wanted_again():
    ended = record(state=State.ENDED, stopped=True)
    assert verbs(decide(snapshot([(CACHE, cache_want())], [ended]))[CACHE]) == [Verb.START]


def test_a_cache_that_ended_unwatched_waits_where_no_engine_uses_it():
    unused = record(state=State.ENDED, found_ended_at=NOW - 1)
    run = (CACHE, cache_want())
    decision = decide(snapshot([run, (ENGINE, engine_want("stop"))], [unused, record(ENGINE, State.ENDED)]))[CACHE]
    assert decision.steps == ()
    assert decision.wake_at == NOW - 1 + UNWATCHED_WAIT_S
    assert "no engine of this node uses it" in decision.report.event.message
    later = decide(snapshot([run], [unused], now=NOW + UNWATCHED_WAIT_S))[CACHE]
    assert verbs(later) == [Verb.START]


def test_a_cache_that_ended_unwatched_is_started_at_once_where_an_engine_uses_it():
    unwatched = record(state=State.ENDED, found_ended_at=NOW)
    run = (CACHE, cache_want())
    assert verbs(decide(snapshot([run, (ENGINE, engine_want())], [unwatched]))[CACHE]) == [Verb.START]
    assert verbs(decide(snapshot([run], [unwatched, record(ENGINE)]))[CACHE]) == [Verb.START]


def test_a_cache_that_ended_while_it_was_watched_is_started_at_once():
    assert verbs(decide(snapshot([(CACHE, cache_want())], [record(state=State.ENDED)]))[CACHE]) == [Verb.START]


def test_an_engine_that_died_before_it_was_told_to_stop_is_noted_as_stopped():
    stop = [(ENGINE, engine_want("stop"))]
    assert verbs(decide(snapshot(stop, [record(ENGINE, state=State.ENDED)]))[ENGINE]) == [Verb.SETTLE]
    assert verbs(decide(snapshot(stop, [record(ENGINE, state=State.ENDED, stopped=True)]))[ENGINE]) == []
