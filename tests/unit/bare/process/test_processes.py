"""Records on the disk and the lock that lives with the process, tried with real processes."""

import fcntl
import signal
import subprocess
import sys
import time
import uuid

import pytest

from kvberth.bare.process import endings, locks, procfs
from kvberth.bare.process.handle import kill_remains, search
from kvberth.bare.process.record import ProcessRecord
from kvberth.bare.process.start import MAX_LOG_BYTES, Command, StartError, spawn
from kvberth.bare.process.store import RecordError, RecordStore


@pytest.fixture
def store(tmp_path):
    return RecordStore(tmp_path / "records", ProcessRecord)


@pytest.fixture
def ended():
    """Processes to end after the test."""
    handles = []
    yield handles
    for handle in handles:
        handle.child.kill()
        handle.child.wait()


def new():
    return ProcessRecord(life=f"test-{uuid.uuid4()}", boot_id=procfs.boot_id())


def sleeper(tmp_path, *argv):
    return Command(argv or ("/bin/sleep", "1000"), {"PATH": "/usr/bin:/bin"}, tmp_path / "log")


def sees(life, pid):
    """Whether a life is found with this pid (None: not at all) within some seconds: exec and exit take a moment."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        handle = search(life)
        if (handle and handle.pid) == pid:
            return True
        time.sleep(0.01)
    return False


def test_records_come_back_as_they_were_written(store):
    written = {"a": new(), "b": new()}
    for stem, record in written.items():
        store.write(stem, record)
    assert store.load() == (written, [])


def test_a_file_that_is_no_record_is_named_and_hides_no_other(store):
    store.write("a", new())
    (store.directory / "broken.json").write_text("{")
    records, faults = store.load()
    assert list(records) == ["a"]
    assert "broken.json is no record of a process and is left alone" in faults[0]


def test_the_lock_is_held_by_the_process_and_is_free_as_soon_as_it_is_a_zombie(store, tmp_path, ended):
    handle, running = spawn(store, "a", new(), sleeper(tmp_path))
    ended.append(handle)
    assert running.pid == handle.pid
    assert running.start_ticks == procfs.start_ticks(handle.pid)
    assert store.load()[0]["a"] == running
    assert store.alive("a")
    handle.child.kill()
    pid = handle.pid
    subprocess.run(
        ["/bin/sh", "-c", f"until grep -q '^State:.*Z' /proc/{pid}/status; do :; done"], timeout=10, check=True
    )
    assert procfs.start_ticks(handle.pid) is not None, "it must not be reaped yet"
    assert not store.alive("a")


def test_a_living_process_is_not_started_a_second_time_and_the_sentence_names_it(store, tmp_path, ended):
    handle, _ = spawn(store, "a", new(), sleeper(tmp_path))
    ended.append(handle)
    with pytest.raises(StartError, match=f"a.lock is held by pid {handle.pid}: the process before has not ended"):
        spawn(store, "a", new(), sleeper(tmp_path))


def test_a_process_is_found_by_the_life_in_its_environment_and_its_child_is_not_taken_for_it(store, tmp_path, ended):
    begun = new()
    handle, _ = spawn(store, "a", begun, sleeper(tmp_path, "/bin/sh", "-c", "sleep 1000 & exec sleep 1000"))
    ended.append(handle)
    assert sees(begun.life, handle.pid)
    kill_remains(begun.life)
    handle.child.wait()
    assert sees(begun.life, None)


def test_a_program_that_is_missing_is_a_sentence_and_leaves_the_lock_free(store, tmp_path):
    with pytest.raises(StartError, match="/nonexistent can't be started: No such file or directory"):
        spawn(store, "a", new(), sleeper(tmp_path, "/nonexistent"))
    assert not store.alive("a")


def test_an_environment_that_no_process_can_have_is_a_sentence(store, tmp_path):
    program = sleeper(tmp_path)
    broken = Command(program.argv, {**program.env, "A": "nul\0byte"}, program.log)
    with pytest.raises(StartError, match="can't be started with its arguments and environment"):
        spawn(store, "a", new(), broken)
    assert not store.alive("a")


def test_a_record_that_cannot_be_written_is_a_sentence_and_starts_nothing(tmp_path):
    (tmp_path / "records").write_text("a file where the directory should be")
    with pytest.raises(StartError, match="can't be written"):
        spawn(RecordStore(tmp_path / "records", ProcessRecord), "a", new(), sleeper(tmp_path))


def test_a_pid_that_cannot_be_recorded_is_said_with_its_cause_and_the_process_is_found_by_its_life(
    store, tmp_path, ended, capsys
):
    class FullAfterTheFirst(RecordStore[ProcessRecord]):
        def write(self, stem, record):
            if record.pid is not None:
                raise RecordError("the record can't be written: No space left on device")
            super().write(stem, record)

    begun = new()
    handle, running = spawn(FullAfterTheFirst(store.directory, ProcessRecord), "a", begun, sleeper(tmp_path))
    ended.append(handle)
    said = "".join(capsys.readouterr())
    assert "recorded without its pid" in said
    assert "No space left on device" in said
    assert running.pid == handle.pid
    assert store.load()[0]["a"].pid is None
    assert sees(begun.life, handle.pid)


def test_a_long_log_is_set_aside_before_the_next_life(store, tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(MAX_LOG_BYTES + 1)
    handle, _ = spawn(store, "a", new(), sleeper(tmp_path, sys.executable, "-c", "print('new')"))
    handle.child.wait()
    assert log.read_text() == "new\n"
    assert log.with_suffix(".old").stat().st_size == MAX_LOG_BYTES + 1


async def test_the_end_of_a_process_is_awaited_and_its_signal_told(store, tmp_path):
    handle, _ = spawn(store, "a", new(), sleeper(tmp_path))
    handle.send(signal.SIGTERM)
    assert await handle.ended() == 128 + signal.SIGTERM


def test_processes_end_by_their_records_even_when_their_pid_was_not_written(store, tmp_path, ended):
    begun = new()
    for stem, record in (("known", new()), ("unknown", begun)):
        handle, _ = spawn(store, stem, record, sleeper(tmp_path))
        ended.append(handle)
    store.write("unknown", begun)  # as if its starter had been killed after the fork
    (store.directory / "known.json.new").touch()  # as if it had been killed while it wrote
    found = endings.recorded(store.directory)
    assert [one.stem for one in found] == ["known", "unknown"]
    assert endings.end(found, 5.0) == []
    assert endings.forget(found) == []
    assert list(store.directory.iterdir()) == []


def test_a_pid_of_another_boot_is_nobodys(store, tmp_path, ended):
    handle, _ = spawn(store, "a", new(), sleeper(tmp_path))
    ended.append(handle)
    other = ProcessRecord(life="none", boot_id="another", pid=handle.pid, start_ticks=handle.start_ticks)
    store.write("b", other)
    (store.directory / "b.lock").touch()
    with (store.directory / "b.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        next(one for one in endings.recorded(store.directory) if one.stem == "b").send(signal.SIGKILL)
    assert store.alive("a")


def test_a_held_lock_without_a_record_is_told_with_its_holder_and_a_free_one_is_not(store, tmp_path, ended):
    handle, _ = spawn(store, "held", new(), sleeper(tmp_path))
    ended.append(handle)
    (store.directory / "held.json").unlink()
    (store.directory / "free.lock").touch()
    (fault,) = endings.unrecorded(store.directory)
    assert f"held.lock is held by pid {handle.pid}, of which there is no record; end it yourself" in fault


def test_a_directory_that_does_not_exist_has_no_processes(tmp_path):
    assert endings.recorded(tmp_path / "none") == []
    assert endings.unrecorded(tmp_path / "none") == []


def test_a_lock_that_is_held_is_an_error(tmp_path):
    lock = tmp_path / "x.lock"
    with locks.held(lock), pytest.raises(locks.LockError, match="is held"), locks.held(lock):
        pass
