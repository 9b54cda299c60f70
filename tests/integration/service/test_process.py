"""A service as a process: it starts, is found, stops on a signal, and ends in time whatever its code does."""

import json
import os
import signal
import urllib.request

import pytest

pytestmark = pytest.mark.integration

HARD_LIMIT_S = 0.5 + 2 + 5 + 2  # shutdown timeout, cancel grace, teardown, and a slow machine


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_an_obedient_service_at_once_with_exit_0(start, number):
    sample = start("obedient")
    sample.started()
    code, seconds = sample.stop(number)
    assert code == 0
    assert seconds < 3
    assert "service is stopping" in sample.events()
    assert {line["level"] for line in sample.lines()} == {"info"}


def test_a_running_service_is_found_by_its_address_file_and_answers_there(start):
    sample = start("obedient")
    found = sample.started()
    assert found["pid"] == sample.process.pid
    with urllib.request.urlopen(found["http"] + "/readyz", timeout=5) as answer:
        assert json.load(answer) == {"ready": True, "checks": {"stopping": "ok"}}
    sample.stop()
    assert not sample.address_file.exists()
    assert list(sample.address_file.parent.iterdir()) == []


def test_the_address_file_of_a_successor_is_left_alone(start):
    first = start("obedient")
    first.started()
    second = start("obedient")
    second.wait_for_event("service started")
    first.stop()
    assert json.loads(first.address_file.read_text())["pid"] == second.process.pid


def test_a_state_directory_that_cannot_be_written_is_a_warning(start, tmp_path):
    (tmp_path / "file").write_text("")
    sample = start("obedient", KVBERTH_STATE=str(tmp_path / "file"))
    sample.wait_for_event("service started")
    assert [line["level"] for line in sample.lines()] == ["warning", "info"]
    assert sample.stop()[0] == 0


def test_a_main_that_does_not_listen_is_cancelled_after_its_time(start):
    sample = start("deaf")
    sample.started()
    code, seconds = sample.stop()
    assert code == 0
    assert 0.5 <= seconds < 3
    assert "service did not stop in time and is cancelled" in sample.events()


def test_a_second_ctrl_c_cancels_at_once(start):
    sample = start("deaf", KVBERTH_SHUTDOWN_TIMEOUT_S="60")
    sample.started()
    sample.process.send_signal(signal.SIGINT)
    sample.wait_for_event("service is stopping")
    code, seconds = sample.stop(signal.SIGINT)
    assert code == 0
    assert seconds < 3


def test_ctrl_c_to_the_group_and_a_supervisors_sigterm_leave_the_service_its_time(start):
    sample = start("slow")
    sample.started()
    sample.process.send_signal(signal.SIGINT)
    sample.wait_for_event("service is stopping")
    code, _ = sample.stop(signal.SIGTERM)
    assert code == 0
    assert "work is finished" in sample.events()


def test_a_main_that_swallows_its_cancellation_is_named_and_ended_with_exit_1(start):
    sample = start("stubborn")
    sample.started()
    code, seconds = sample.stop()
    assert code == 1
    assert seconds < HARD_LIMIT_S
    (line,) = [line for line in sample.lines() if line["level"] == "error"]
    assert line["event"] == "service ignores its cancellation and is ended by force"
    assert any(task.startswith("main of sample (stubborn at ") for task in line["tasks"])
    assert not sample.address_file.exists()


def test_a_task_left_behind_is_named_and_cannot_keep_the_process(start):
    sample = start("leftover")
    assert sample.process.wait(timeout=HARD_LIMIT_S + 10) == 1
    (line,) = [line for line in sample.lines() if line["level"] == "error"]
    assert line["event"] == "service did not end in time and is ended by force"
    assert any(task.startswith("left-behind (stubborn at ") for task in line["tasks"])


def test_a_call_that_blocks_the_loop_is_named_and_cannot_keep_the_process(start):
    sample = start("blocked", KVBERTH_SHUTDOWN_TIMEOUT_S="0.1")
    sample.started()
    found = json.loads(sample.address_file.read_text())["http"]
    sample.wait_until(lambda: not answers(found))
    code, seconds = sample.stop()
    assert code == 1
    assert seconds < HARD_LIMIT_S
    (line,) = [line for line in sample.lines() if line["level"] == "error"]
    assert line["main_thread_at"].startswith("blocked at ")


def answers(address):
    try:
        with urllib.request.urlopen(address + "/healthz", timeout=0.2):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("mode", ["failing", "failing_in_a_group"])
def test_a_known_fault_ends_the_service_with_its_sentence_and_exit_1(start, mode):
    sample = start(mode)
    assert sample.process.wait(timeout=15) == 1
    last = sample.lines()[-1]
    assert last["event"] == "The cluster has no name; set KVBERTH_CLUSTER."
    assert (last["level"], last["service"], last["node"]) == ("error", "sample", "l20-a")
    assert "Traceback" not in sample.stderr.read_text()
    assert not sample.address_file.exists()


def test_an_unknown_fault_ends_the_service_with_a_traceback_and_exit_1(start):
    sample = start("crashing")
    assert sample.process.wait(timeout=15) == 1
    last = sample.lines()[-1]
    assert last["event"] == "service failed"
    assert "LookupError: no such pod" in last["exception"]


def test_a_main_that_cancels_itself_has_failed(start):
    assert start("cancelled").process.wait(timeout=15) == 1


def test_a_main_that_finishes_ends_the_service_with_exit_0(start):
    sample = start("finishing")
    assert sample.process.wait(timeout=15) == 0
    assert sample.events()[-1] == "service ended"


def test_wrong_settings_end_with_a_sentence_and_exit_2_before_anything_starts(start):
    sample = start("obedient", KVBERTH_HTTP_PORT="eighty")
    assert sample.process.wait(timeout=15) == 2
    text = sample.stderr.read_text()
    assert text.startswith("sample: KVBERTH_HTTP_PORT is 'eighty', but it should be a valid integer")
    assert text.count("\n") == 1
    assert not sample.state.exists()


def test_a_taken_port_ends_the_service_with_a_sentence_that_names_it(start):
    port = start("obedient").started()["http"].rsplit(":", 1)[1]
    sample = start("obedient", KVBERTH_HTTP_PORT=port, KVBERTH_NODE="l20-b")
    assert sample.process.wait(timeout=15) == 1
    (line,) = sample.lines()
    assert line["event"].startswith(
        f"The HTTP address 127.0.0.1:{port} is taken by another process; set KVBERTH_HTTP_PORT"
    )


def test_a_dead_collector_does_not_hold_the_end(start):
    sample = start("obedient", KVBERTH_OTLP_ENDPOINT="http://127.0.0.1:9")
    sample.started()
    code, seconds = sample.stop()
    assert code == 0
    assert seconds < 6


def test_children_of_a_service_are_not_its_process_group(start):
    """The skeleton starts no session and sets no death signal: processes outlive their service by design."""
    sample = start("obedient")
    sample.started()
    assert os.getpgid(sample.process.pid) == os.getpgid(0)
