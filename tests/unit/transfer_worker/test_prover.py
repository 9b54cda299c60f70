"""The thread that asks the daemon: what it heard, when it asked, and that it ends."""

import threading
import time

import pytest

from kvberth.store.errors import EpochEnded
from kvberth.transfer_worker.prover import APART_S, Prover
from kvberth.vineyard import DaemonHung
from support.waiting import until


class Daemon:
    """Answers, or fails with what it is told."""

    def __init__(self) -> None:
        self.fails: Exception | None = None
        self.asked = threading.Semaphore(0)

    def check(self) -> None:
        self.asked.release()
        if self.fails is not None:
            raise self.fails


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


async def test_a_question_that_is_answered_proves_what_was_before_it(daemon: Daemon) -> None:
    prover = Prover(daemon.check)
    try:
        before = time.monotonic_ns()
        prover.ask()
        await until(lambda: prover.proved_ns > before)
        assert prover.complaint is None
    finally:
        prover.close()


async def test_a_silent_daemon_proves_nothing_and_is_named_until_it_answers(daemon: Daemon) -> None:
    daemon.fails = DaemonHung("/a/vineyard.sock", "no answer within 1 s")
    prover = Prover(daemon.check)
    try:
        await until(lambda: prover.complaint is not None)
        assert "no answer within 1 s" in str(prover.complaint)
        assert prover.proved_ns == 0
        daemon.fails = None
        await until(lambda: prover.proved_ns > 0)
        assert prover.complaint is None
    finally:
        prover.close()


async def test_what_nobody_expects_is_kept_for_the_one_who_looks(daemon: Daemon) -> None:
    daemon.fails = ZeroDivisionError("a fault")
    prover = Prover(daemon.check)
    await until(lambda: prover.failed is not None)
    prover.close()
    assert prover.failed is daemon.fails


async def test_the_end_of_the_epoch_ends_the_questions(daemon: Daemon) -> None:
    daemon.fails = EpochEnded("the daemon is gone")
    prover = Prover(daemon.check)
    await until(lambda: prover.ended is not None)
    prover.close()
    assert prover.ended == "the daemon is gone"
    assert daemon.asked.acquire(blocking=False)
    assert not daemon.asked.acquire(blocking=False)


async def test_a_thread_that_is_told_to_ask_without_a_pause_makes_pauses(daemon: Daemon) -> None:
    began, asked = time.monotonic(), 0
    prover = Prover(daemon.check)
    try:
        while asked < 20:
            prover.ask()
            asked += daemon.asked.acquire(blocking=False)
        assert time.monotonic() - began >= 19 * APART_S
    finally:
        prover.close()
