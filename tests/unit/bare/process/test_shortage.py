"""While this process has no descriptor left, no other process is called dead, and none is lost."""

import asyncio
import signal
import subprocess
import uuid

import pytest

from kvberth.bare.process import handle as handle_module
from kvberth.bare.process import procfs
from kvberth.bare.process.handle import Handle, search
from kvberth.bare.process.record import ProcessRecord
from kvberth.bare.process.start import Command, StartError, spawn
from kvberth.bare.process.store import RecordStore
from support.shortage import no_descriptors


async def test_an_end_is_awaited_and_no_signal_is_lost_silently(monkeypatch) -> None:
    monkeypatch.setattr(handle_module, "SHORTAGE_PAUSE_S", 0.01)
    child = subprocess.Popen(("/bin/sleep", "1000"), start_new_session=True)  # noqa: ASYNC220 - started, not awaited
    handle = Handle(child.pid, procfs.start_ticks(child.pid), child)
    try:
        async with asyncio.timeout(10.0), asyncio.TaskGroup() as group:
            with no_descriptors():
                ended = group.create_task(handle.ended())
                await asyncio.sleep(0.05)  # for some looks
                assert not ended.done()
                with pytest.raises(OSError, match="Too many open files"):
                    handle.send(signal.SIGTERM)
            handle.send(signal.SIGTERM)
            assert await ended == 128 + signal.SIGTERM
    finally:
        child.kill()
        child.wait()


def test_a_search_says_that_it_could_not_look() -> None:
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        search("somebody")


def test_a_process_that_can_t_be_looked_at_after_its_start_is_ended_and_the_start_refused(
    tmp_path, monkeypatch
) -> None:
    def short(pid: int) -> int:
        started.append(pid)
        raise OSError(24, "Too many open files")

    started: list[int] = []
    monkeypatch.setattr(procfs, "start_ticks", short)
    store = RecordStore(tmp_path, ProcessRecord)
    record = ProcessRecord(life=str(uuid.uuid4()), boot_id=procfs.boot_id())
    with pytest.raises(StartError, match="Too many open files"):
        spawn(store, "one", record, Command(("/bin/sleep", "1000"), {}, tmp_path / "log"))
    assert len(started) == 1
    assert not store.alive("one")
