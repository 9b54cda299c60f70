"""What the runner writes down off its loop, on a real disk that is slow or refuses when the test says so."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from kvberth.bare.process.store import RecordError, RecordStore
from kvberth.bare.runner import diary as diary_module
from kvberth.bare.runner.diary import Diary
from kvberth.bare.runner.patience import Patience
from kvberth.bare.runner.record import Key, Record, State
from kvberth.service.threads import in_thread
from kvberth_schemas.events import ProcessRole
from support.waiting import until
from unit.bare.runner.samples import CACHE, ENGINE, record


class Disk(RecordStore[Record]):
    """A record store whose writes wait for `go`, and fail while `full`."""

    def __init__(self, directory):
        super().__init__(directory, Record)
        self.go = threading.Event()
        self.go.set()
        self.full = False

    def write(self, stem, record):
        assert self.go.wait(10.0)
        if self.full:
            raise RecordError("the record can't be written: No space left on device")
        super().write(stem, record)


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path / "records")


@asynccontextmanager
async def running(diary: Diary) -> AsyncIterator[None]:
    task = asyncio.create_task(diary.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_what_is_noted_is_on_the_disk_after_a_flush_in_its_newest_content(disk):
    diary = Diary(disk)
    async with running(diary):
        for pid in range(5):
            diary.note(record(CACHE, pid=pid))
        diary.note(record(ENGINE))
        await diary.flush(5.0)
    assert disk.load()[0] == {CACHE.stem: record(CACHE, pid=4), ENGINE.stem: record(ENGINE)}


async def test_a_disk_that_hangs_holds_neither_the_loop_nor_a_flush(disk):
    diary = Diary(disk)
    disk.go.clear()
    async with running(diary):
        diary.note(record(CACHE))
        await diary.flush(0.05)
        assert disk.load() == ({}, [])
        disk.go.set()
        await diary.flush(5.0)
    assert list(disk.load()[0]) == [CACHE.stem]


async def test_a_full_disk_is_tried_again_until_it_has_room(disk, monkeypatch):
    monkeypatch.setattr(diary_module, "RETRY_S", 0.01)
    diary = Diary(disk)
    disk.full = True
    async with running(diary):
        diary.note(record(CACHE))
        diary.note(record(ENGINE))
        await diary.flush(0.1)
        assert disk.load() == ({}, [])
        disk.full = False
        await diary.flush(5.0)
    assert sorted(disk.load()[0]) == [CACHE.stem, ENGINE.stem]


async def test_files_that_are_handed_over_are_written_no_more(disk):
    diary = Diary(disk)
    disk.go.clear()
    async with running(diary):
        diary.note(record(CACHE, pid=1))
        await until(lambda: not diary._idle.is_set())
        diary.note(record(CACHE, pid=2))
        handing = asyncio.create_task(diary.hand_over(CACHE))
        await asyncio.sleep(0)
        assert not handing.done()
        disk.go.set()
        await handing
        RecordStore.write(disk, CACHE.stem, record(CACHE, pid=3))
        diary.note(record(ENGINE))
        await diary.flush(5.0)
    assert disk.load()[0][CACHE.stem].pid == 3


def test_a_namespace_cannot_lead_out_of_the_directory(disk):
    key = Key(ProcessRole.CACHE, "../../x", "a/b")
    disk.write(key.stem, record(key, state=State.ENDED))
    assert [one.key for one in disk.load()[0].values()] == [key]


@pytest.mark.parametrize(("late_after_s", "late"), [(0.0, [True, False, False]), (1000.0, [False, False, False])])
async def test_patience_is_late_once_and_not_before_its_time(late_after_s, late):
    patience = Patience(0.001, 0.002, late_after_s)
    assert [await patience.pause() for _ in range(3)] == late


async def test_work_in_a_thread_gives_its_result_and_says_once_when_it_is_late(capsys):
    go = threading.Event()
    work = asyncio.create_task(in_thread(lambda: go.wait(10.0) and 42, "writing the record of x", 0.02))
    await asyncio.sleep(0.06)
    go.set()
    assert await work == 42
    out = capsys.readouterr()
    assert (out.out + out.err).count("writing the record of x has taken 0.02 s and is waited for") == 1
