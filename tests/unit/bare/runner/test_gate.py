"""The gate before an engine: when it runs, what follows from its end, and what is said meanwhile."""

import json

import pytest

from kvberth.bare.runner import restarts
from kvberth.bare.runner.decide import Step, Verb, decide
from kvberth.bare.runner.gate import comes_first, gate_command, gate_ending, what_it_waits_for
from kvberth.bare.runner.readiness import HEALTH_EVERY_S, Answer, Looks
from kvberth.bare.runner.record import State
from kvberth.bare.runner.wantbook import WantBook
from kvberth_schemas.events import GateResult
from kvberth_schemas.wants import RestartPolicy, Why
from unit.bare.runner.samples import CACHE, ENGINE, NOW, cache_want, engine_want, record, snapshot

OPEN = GateResult(outcome="open", reason="SocketAnswered", waited_s=1.5)
CLOSED = GateResult(outcome="closed", reason="SocketMissing", waited_s=30.0)


def gated(**changes):
    return engine_want(gate=True, **changes)


def at_gate(state=State.RUNNING, **changes):
    return record(ENGINE, state, **{"want": gated(), "at_gate": True, **changes})


def decided(found, want=None, **changes):
    return decide(snapshot([(ENGINE, want or gated())], [found], **changes))[ENGINE]


def test_a_gate_comes_first_where_it_is_wanted_and_once_for_a_pod():
    assert comes_first(gated(), None)
    assert comes_first(gated(), at_gate(State.ENDED, gate=CLOSED))
    assert not comes_first(gated(), at_gate(State.ENDED, gate=OPEN))
    assert not comes_first(gated(), record(ENGINE, State.ENDED, gate=OPEN))
    assert not comes_first(engine_want(), None)
    assert not comes_first(gated(host_path="/data"), None)
    assert not comes_first(cache_want(), None)


def test_a_waiting_gate_is_reported_with_what_it_waits_for():
    said = decided(at_gate(unready="SocketMissing: /s: there is no socket")).report.event
    assert (said.at_gate, said.ready, said.gate) == (True, False, None)
    assert said.message == "waits at its gate: SocketMissing: /s: there is no socket"
    assert "has just begun" in decided(at_gate()).report.event.message


def test_an_opened_gate_starts_the_engine_at_once_and_nothing_is_said_to_have_ended():
    decision = decided(at_gate(State.ENDED, gate=OPEN, exit_code=0))
    assert (decision.steps, decision.report) == ((Step(Verb.START, ENGINE),), None)


def test_an_engine_says_how_its_gate_ended():
    assert decided(record(ENGINE, want=gated(), gate=OPEN)).report.event.gate == OPEN


@pytest.mark.parametrize("policy", list(RestartPolicy))
def test_an_opened_gate_starts_the_engine_whatever_the_restart_policy(policy):
    found = at_gate(State.ENDED, want=gated(policy=policy), gate=OPEN, exit_code=0)
    assert [step.verb for step in decided(found, found.want).steps] == [Verb.START]
    assert not restarts.is_final(found)


@pytest.mark.parametrize(("policy", "again"), [("Always", True), ("OnFailure", True), ("Never", False)])
def test_a_closed_gate_is_restarted_as_an_init_container_is(policy, again):
    found = at_gate(State.ENDED, want=gated(policy=RestartPolicy(policy)), gate=CLOSED, exit_code=1, crashes=1)
    decision = decided(found, found.want)
    assert [step.verb for step in decision.steps] == ([Verb.START] if again else [])
    said = decision.report.event
    assert (said.restarting, said.at_gate, said.gate) == (again, True, None)


def test_a_gate_that_fails_again_and_again_waits_longer_each_time():
    found = at_gate(State.ENDED, gate=CLOSED, exit_code=1, crashes=2, ended_at=NOW - 1)
    decision = decided(found)
    assert (decision.steps, decision.wake_at) == ((), NOW + 9)


def test_an_opened_gate_is_no_crash_and_a_closed_one_is():
    assert restarts.crashes_after(at_gate(gate=OPEN, crashes=3, started_at=NOW), NOW) == 0
    assert restarts.crashes_after(at_gate(gate=CLOSED, crashes=3, started_at=NOW), NOW) == 4


def test_a_gate_is_ended_by_a_stop_as_its_engine_would_be():
    stop = gated(state="stop", why=Why.USER)
    assert decided(at_gate(), stop).steps == (Step(Verb.TERMINATE, ENGINE, for_good=True),)
    assert decided(at_gate(State.ENDED, gate=OPEN), stop).steps == (Step(Verb.SETTLE, ENGINE),)


def test_a_cache_is_not_stopped_under_an_engine_at_its_gate_but_is_started_anew_where_only_gates_use_it():
    stop = [(CACHE, cache_want("stop", Why.MOVED)), (ENGINE, gated())]
    assert decide(snapshot(stop, [record(), at_gate()]))[CACHE].steps == ()
    run = [(CACHE, cache_want()), (ENGINE, gated())]
    lost = record(ready=False, unready="its socket file was removed", socket_lost_at=NOW - 6)
    assert decide(snapshot(run, [lost, at_gate()]))[CACHE].steps == (Step(Verb.TERMINATE, CACHE),)
    assert decide(snapshot(run, [lost, record(ENGINE)]))[CACHE].steps == ()


def test_a_pod_whose_gate_opened_while_no_runner_watched_counts_as_wanted_until_the_bus_can_be_read():
    book = WantBook()
    book.adopt([at_gate(State.ENDED, gate=OPEN)])
    assert ENGINE in book.wants
    book = WantBook()
    book.adopt([at_gate(State.ENDED, gate=CLOSED)])
    assert ENGINE not in book.wants


def test_what_a_gate_waits_for_is_looked_at_each_second_and_is_never_ready():
    looks = Looks()
    assert looks.take(at_gate(), Answer(False, "SocketStale: x"), NOW) == {"unready": "SocketStale: x"}
    assert looks.take(at_gate(unready="SocketStale: x"), Answer(False, "SocketStale: x"), NOW) == {}
    assert looks.take(at_gate(unready="SocketStale: x"), Answer(False, ""), NOW) == {}
    assert looks.pause_s(at_gate(unready="SocketStale: x")) == HEALTH_EVERY_S


def test_the_program_runs_isolated_for_the_mounted_directory_with_the_engines_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("KVBERTH_STATE", "/ours")
    env = {
        "AIBRIX_LLM_KV_CACHE_SOCKET": "/var/run/vineyard.sock",
        "AIBRIX_LLM_KV_CACHE_RPC_ENDPOINT": "kv-rpc:9600",
        "PYTHONPATH": "/evil",
    }
    command = gate_command(tmp_path, record(ENGINE, want=gated(env=env)), tmp_path / "logs" / "e.log")
    _, flags, program, socket, ending = command.argv
    assert (flags, socket) == ("-IS", str(tmp_path / "default" / "kv" / "vineyard.sock"))
    assert program.endswith("kvberth/gate/program.py")
    assert (tmp_path / "logs" / "e.gate.json").read_bytes() == b""
    assert ending == str(tmp_path / "logs" / "e.gate.json")
    assert command.env["AIBRIX_LLM_KV_CACHE_SOCKET"] == socket
    assert not {"KVBERTH_STATE", "AIBRIX_LLM_KV_CACHE_RPC_ENDPOINT"} & command.env.keys()
    assert command.env.get("PYTHONPATH") != "/evil"


def test_the_last_line_that_waits_is_its_word_however_long_the_log_is(tmp_path):
    log = tmp_path / "e.log"
    assert what_it_waits_for(log) == ""
    log.write_text("engine: an older life\n" * 1000)
    assert what_it_waits_for(log) == ""
    with log.open("a") as file:
        file.write("kvberth-gate: waiting, 0 s of 30 s: SocketMissing: /s: there is no socket\n")
        file.write("kvberth-gate: waiting, 5 s without end: SocketStale: /s: its vineyardd is dead\n")
        file.write("kvberth-gate: /s/gate.json can't be used\n")
    assert what_it_waits_for(log) == "SocketStale: /s: its vineyardd is dead"


@pytest.mark.parametrize(
    ("message", "code", "outcome"),
    [
        ("open", 0, "open"),
        ("timeout", None, "timeout"),
        ("closed", 1, "closed"),
        ("stopped", 143, "stopped"),
        ("open", 137, "failed"),
        ("closed", 0, "unreadable"),
        (None, 0, "unreadable"),
        (None, None, "failed"),
        (None, 139, "failed"),
    ],
)
def test_the_exit_code_has_the_last_word_and_where_nobody_knows_it_the_message_has(tmp_path, message, code, outcome):
    log = tmp_path / "e.log"
    if message is not None:
        log.with_suffix(".gate.json").write_text(json.dumps({"kvberth": "gate", "outcome": message}))
    assert gate_ending(log, code).outcome == outcome
