"""What the keeper says and does when a lock stays held, with a real process and a real lock."""

import asyncio
import os
import threading
from contextlib import contextmanager, suppress

import pytest

from kvberth.bare.process import procfs
from kvberth.bare.process.record import ProcessRecord
from kvberth.bare.process.start import Command, spawn
from kvberth.bare.process.store import RecordStore
from kvberth.bare.runner import keeper as keeper_module
from kvberth.bare.runner.caches import cache_answers
from kvberth.bare.runner.engines import engine_answers
from kvberth.bare.runner.graves import Graves
from kvberth.bare.runner.keeper import Keeper
from kvberth.bare.runner.readiness import Answer
from kvberth.bare.runner.record import Record, State
from kvberth.bare.runner.roles import NodeRoles
from support.shortage import no_descriptors
from unit.bare.runner.samples import CACHE, ENGINE, engine_want, record


@contextmanager
def hanging(path):
    """A file that whoever opens it waits for, until what is yielded is called: by then, or after 5 s for rescue."""
    path.parent.mkdir()
    os.mkfifo(path)
    answered = threading.Event()

    def answer():
        answered.wait(5.0)
        with suppress(BrokenPipeError):  # a reader that can't seek in it has gone already
            path.write_text('{"kvberth": "gate", "outcome": "open"}')

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield answered.set
    finally:
        thread.join()


async def test_a_held_lock_whose_process_cannot_be_found_is_told_once_and_ends_when_it_is_free(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(keeper_module, "LATE_AFTER_S", 0.1)
    monkeypatch.setattr(keeper_module, "LONGEST_PAUSE_S", 0.1)
    holder = ProcessRecord(life="another", boot_id=procfs.boot_id())
    command = Command(("/bin/sleep", "1000"), {}, tmp_path / "log")
    handle, _ = spawn(RecordStore(tmp_path, ProcessRecord), CACHE.stem, holder, command)
    store = RecordStore(tmp_path, Record)
    store.write(CACHE.stem, record(CACHE, state=State.STARTING, pid=None, life="nobody's", boot_id=procfs.boot_id()))
    said = ""
    try:
        async with (
            Keeper(store, Graves(tmp_path / "graves"), NodeRoles(tmp_path, tmp_path)) as keeper,
            asyncio.timeout(10.0),
        ):
            while "is held by" not in said:
                said += "".join(capsys.readouterr())
                await keeper.changed(0.05)
            assert f"{CACHE.stem}.lock is held by pid {handle.pid} although no process can be found" in said
            assert keeper.records[CACHE].state is State.STARTING
            handle.child.kill()
            while keeper.records[CACHE].state is not State.ENDED:
                await keeper.changed(0.05)
            assert keeper.records[CACHE].message == "ended while it was being started"
    finally:
        handle.child.kill()
        handle.child.wait()
    assert "".join(capsys.readouterr()).count("is held by") == 0
    assert store.load()[0][CACHE.stem].state is State.ENDED


@pytest.mark.parametrize("life", ["written", "not written"])
async def test_a_process_that_ended_unwatched_is_recorded_so(tmp_path, life):
    store = RecordStore(tmp_path, Record)
    pid = 1 if life == "written" else None
    store.write(CACHE.stem, record(CACHE, pid=pid, boot_id=procfs.boot_id()))
    async with Keeper(store, Graves(tmp_path / "graves"), NodeRoles(tmp_path, tmp_path)) as keeper:
        assert keeper.records[CACHE].state is State.ENDED
    found = store.load()[0][CACHE.stem]
    assert found.message == "ended while no runner watched"
    assert found.found_ended_at is not None
    assert found.last_end is not None
    assert found.last_end.message == found.message


async def test_a_disk_that_hangs_holds_up_no_other_process_while_the_end_of_a_gate_is_read(tmp_path):
    store = RecordStore(tmp_path, Record)
    waiting = record(ENGINE, pid=1, boot_id=procfs.boot_id(), want=engine_want(gate=True), at_gate=True)
    store.write(ENGINE.stem, waiting)
    with hanging(tmp_path / "logs" / f"{ENGINE.stem}.gate.json") as answer:
        async with (
            Keeper(store, Graves(tmp_path / "graves"), NodeRoles(tmp_path, tmp_path / "logs")) as keeper,
            asyncio.timeout(10.0),
        ):
            assert keeper.records[ENGINE].state is State.RUNNING, "its end is read still"
            answer()
            while keeper.records[ENGINE].state is not State.ENDED:
                await keeper.changed(0.05)
            assert keeper.records[ENGINE].gate_open
            assert keeper.records[ENGINE].found_ended_at is not None


async def test_a_disk_that_hangs_holds_up_no_other_process_while_it_is_looked_what_a_gate_waits_for(tmp_path):
    waiting = record(ENGINE, want=engine_want(gate=True), at_gate=True)
    with hanging(tmp_path / "logs" / f"{ENGINE.stem}.log") as answer:
        look = asyncio.ensure_future(NodeRoles(tmp_path, tmp_path / "logs").answers(waiting))
        await asyncio.sleep(0)
        assert not look.done()
        answer()
        assert await look == Answer(False, "")


async def test_a_shortage_of_our_own_says_nothing_about_an_engine():
    asked = record(ENGINE, port=1)
    assert await engine_answers(asked) is False
    with no_descriptors():
        assert await engine_answers(asked) is None


async def test_a_shortage_of_our_own_says_nothing_about_a_cache(tmp_path):
    asked = record(CACHE, incarnation="i")
    assert await cache_answers(tmp_path, asked) == Answer(False, "its socket file was removed", socket_lost=True)
    with no_descriptors():
        assert await cache_answers(tmp_path, asked) == Answer(None)
