"""What `down` says and keeps when something of a stack can't be ended by record."""

import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from kvberth.bare.process import procfs
from kvberth.bare.process.record import ProcessRecord
from kvberth.bare.process.start import Command, spawn
from kvberth.bare.process.store import RecordStore
from kvberth.bare.stack import Address, Layout, StackError, stop_up, take_down
from kvberth.bare.stack.ownership import mark_state


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "state", tmp_path / "root")
    made.state.mkdir()
    mark_state(made)
    return made


def start(directory: Path, stem: str) -> "subprocess.Popen[bytes]":
    """Start a process that a runner or an `up` could have started."""
    store = RecordStore(directory, ProcessRecord)
    record = ProcessRecord(life=str(uuid.uuid4()), boot_id=procfs.boot_id())
    handle, _ = spawn(store, stem, record, Command(("/bin/sleep", "1000"), {}, directory / "log"))
    assert handle.child is not None
    return handle.child


def test_processes_and_services_are_ended_and_the_directories_removed(layout: Layout) -> None:
    children = [start(layout.records, "nats"), start(layout.state / "nodes" / "a" / "records", "cache.default.kv")]
    assert take_down(layout) == []
    assert [child.wait(5.0) for child in children] == [-15, -15]
    assert not layout.state.exists()


def test_a_lock_that_is_held_without_a_record_is_named_and_everything_is_kept(layout: Layout) -> None:
    records = layout.state / "nodes" / "a" / "records"
    child = start(records, "cache.default.kv")
    (records / "cache.default.kv.json").unlink()
    try:
        with pytest.raises(StackError, match=f"kv.lock is held by pid {child.pid}, of which there is no record"):
            take_down(layout)
        assert (records / "cache.default.kv.lock").exists()
    finally:
        child.kill()
        child.wait()
    assert take_down(layout) == []


UP_THAT_LEAVES_ALL = """
import fcntl, pathlib, signal, sys
lock = pathlib.Path(sys.argv[1]).open("a")
fcntl.flock(lock, fcntl.LOCK_EX)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
print("up", flush=True)
signal.pause()
"""


def test_down_ends_what_an_up_that_failed_to_end_it_left_behind(layout: Layout) -> None:
    child = start(layout.state / "nodes" / "a" / "records", "cache.default.kv")
    with subprocess.Popen([sys.executable, "-c", UP_THAT_LEAVES_ALL, str(layout.lock)], stdout=subprocess.PIPE) as up:
        assert up.stdout is not None
        assert up.stdout.readline() == b"up\n"
        Address("nats://127.0.0.1:1", up.pid, procfs.start_ticks(up.pid), ("a",)).write(layout)
        assert stop_up(layout)
    assert child.wait(5.0) == -15
    assert not layout.state.exists()
