"""Records on the disk and the lock that lives with the process, tried with real processes."""

import subprocess
import sys

import pytest

from kvberth.bare.runner import processes, procfs
from kvberth.bare.runner.processes import Command, StartError
from kvberth.bare.runner.records import Key, RecordError, RecordStore, State
from kvberth_schemas.events import ProcessRole
from unit.bare.runner.samples import CACHE, ENGINE, record


@pytest.fixture
def store(tmp_path):
    return RecordStore(tmp_path / "records")


@pytest.fixture
def ended():
    """Processes to end after the test."""
    handles = []
    yield handles
    for handle in handles:
        handle.child.kill()
        handle.child.wait()


def sleeper(tmp_path, *argv):
    return Command(argv or ("/bin/sleep", "1000"), {"PATH": "/usr/bin:/bin"}, tmp_path / "log")


def test_a_record_comes_back_as_it_was_written(store):
    written = [record(CACHE), record(ENGINE)]
    for each in written:
        store.write(each)
    assert store.load() == ({each.key: each for each in written}, [])


def test_a_file_that_is_no_record_is_named_and_hides_no_other(store):
    store.write(record(CACHE))
    (store.directory / "broken.json").write_text("{")
    records, faults = store.load()
    assert list(records) == [CACHE]
    assert "broken.json is no record of a process and is left alone" in faults[0]


def test_a_namespace_cannot_lead_out_of_the_directory(store):
    key = Key(ProcessRole.CACHE, "../../x", "a/b")
    store.write(record(key))
    assert list(store.load()[0]) == [key]


def test_the_lock_is_held_by_the_process_and_is_free_as_soon_as_it_is_a_zombie(store, tmp_path, ended):
    handle, running = processes.spawn(store, record(state=State.STARTING, pid=None), sleeper(tmp_path), 5.0)
    ended.append(handle)
    assert running.pid == handle.pid
    assert running.start_ticks == procfs.start_ticks(handle.pid)
    assert store.load()[0][CACHE] == running
    assert store.alive(running)
    handle.child.kill()
    pid = handle.pid
    subprocess.run(
        ["/bin/sh", "-c", f"until grep -q '^State:.*Z' /proc/{pid}/status; do :; done"], timeout=10, check=True
    )
    assert procfs.start_ticks(handle.pid) is not None, "it must not be reaped yet"
    assert not store.alive(running)


def test_a_living_process_is_not_started_a_second_time(store, tmp_path, ended):
    handle, running = processes.spawn(store, record(state=State.STARTING), sleeper(tmp_path), 5.0)
    ended.append(handle)
    with pytest.raises(StartError, match="is held: the process before has not ended"):
        processes.spawn(store, running, sleeper(tmp_path), 6.0)


def test_a_process_is_found_by_the_life_in_its_environment_and_its_child_is_not_taken_for_it(store, tmp_path, ended):
    command = sleeper(tmp_path, "/bin/sh", "-c", "sleep 1000 & exec sleep 1000")
    begun = record(state=State.STARTING, pid=None, life="engine-test-life")
    handle, _ = processes.spawn(store, begun, command, 5.0)
    ended.append(handle)
    assert processes.find(begun).pid == handle.pid
    processes.kill_remains(begun.life)
    handle.child.wait()


def test_a_program_that_is_missing_is_a_sentence_and_leaves_the_lock_free(store, tmp_path):
    begun = record(state=State.STARTING)
    with pytest.raises(StartError, match="/nonexistent can't be started: No such file or directory"):
        processes.spawn(store, begun, sleeper(tmp_path, "/nonexistent"), 5.0)
    assert not store.alive(begun)


def test_an_environment_that_no_process_can_have_is_a_sentence(store, tmp_path):
    begun = record(state=State.STARTING)
    program = sleeper(tmp_path)
    broken = Command(program.argv, {**program.env, "A": "nul\0byte"}, program.log)
    with pytest.raises(StartError, match="can't be started with its environment"):
        processes.spawn(store, begun, broken, 5.0)
    assert not store.alive(begun)


def test_a_record_that_cannot_be_written_is_a_sentence_and_starts_nothing(tmp_path):
    (tmp_path / "records").write_text("a file where the directory should be")
    store = RecordStore(tmp_path / "records")
    with pytest.raises(StartError, match="can't be written"):
        processes.spawn(store, record(state=State.STARTING), sleeper(tmp_path), 5.0)


def test_a_long_log_is_set_aside_before_the_next_life(store, tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(processes.MAX_LOG_BYTES + 1)
    handle, _ = processes.spawn(
        store, record(state=State.STARTING), sleeper(tmp_path, sys.executable, "-c", "print('new')"), 5.0
    )
    handle.child.wait()
    assert log.read_text() == "new\n"
    assert log.with_suffix(".old").stat().st_size == processes.MAX_LOG_BYTES + 1


def test_a_lock_that_is_held_is_an_error(store):
    store.write(record())
    with store.locked(CACHE), pytest.raises(RecordError, match="is held"), store.locked(CACHE):
        pass
