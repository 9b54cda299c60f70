"""The standing connection to the daemon: whatever comes on it, or does not come, it is heard, dropped and made anew."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kvberth.transfer_worker.listener import Listener
from kvberth.transfer_worker.prover import ASKED_NS, LONGEST_NS, Prover
from kvberth.vineyard import DaemonHung, StandingQuestion, wire
from kvberth.vineyard.stream import BlockingStream
from support.waiting import until

REPLY: wire.Json = {
    "type": "instance_status_reply",
    "meta": {
        "instance_id": 0, "deployment": "this life", "memory_usage": 0, "memory_limit": 1, "ipc_connections": 1
    },
}  # fmt: skip
LONG_S = 60.0
"""How long a wait would last that nothing ends."""


class Daemon:
    """The other end of each standing connection that was made."""

    def __init__(self) -> None:
        self.ends: list[socket.socket] = []
        self.now = 1_000_000_000
        self.hangs = self.silent = False
        self.checks = 0

    def check(self) -> None:
        self.checks += 1
        if self.silent:
            raise DaemonHung("/a/socket", "no answer")

    def connect(self) -> StandingQuestion:
        if self.hangs:
            raise DaemonHung("/a/socket", "no answer")
        here, there = socket.socketpair()
        there.settimeout(LONG_S)
        self.ends.append(there)
        return StandingQuestion(BlockingStream("/a/socket", here), "this life")

    def clock(self) -> int:
        return self.now


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    daemon = Daemon()
    yield daemon
    for end in daemon.ends:
        end.close()


@pytest.fixture
def prover(daemon: Daemon) -> Iterator[Prover]:
    prover = Prover(daemon.check, daemon.connect, daemon.clock)
    yield prover
    prover.close()


async def made_anew(prover: Prover, old: StandingQuestion) -> None:
    await until(lambda: prover.standing not in (None, old))


async def stands(prover: Prover) -> StandingQuestion:
    found = await until(lambda: prover.standing)
    assert isinstance(found, StandingQuestion)
    return found


async def test_an_answer_proves_what_was_before_its_question(prover: Prover, daemon: Daemon) -> None:
    standing = await stands(prover)
    daemon.silent = True  # what the prover's own thread asks proves nothing from now on
    await until(lambda: prover.complaint is not None)
    daemon.now += 7
    asked = daemon.now
    prover.ask()
    daemon.now += 7
    daemon.ends[-1].sendall(wire.encode(REPLY))
    prover.hear()
    assert (prover.proved_ns, prover.standing) == (asked, standing)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("how", ["end", "garbage", "reset"])
async def test_a_connection_that_breaks_is_made_anew(prover: Prover, daemon: Daemon, how: str, asked: bool) -> None:
    standing = await stands(prover)
    if asked:
        prover.ask()
        if how != "reset":
            daemon.ends[-1].recv(1 << 16)  # else its end comes as a reset
    match how:
        case "garbage":
            daemon.ends[-1].sendall(b"\xff" * 8)
        case _:
            daemon.ends[-1].close()
    prover.hear()
    assert prover.standing is not standing
    await made_anew(prover, standing)


async def test_bytes_that_nobody_asked_for_end_the_connection_also_behind_an_answer(
    prover: Prover, daemon: Daemon
) -> None:
    standing = await stands(prover)
    prover.ask()
    daemon.ends[-1].sendall(wire.encode(REPLY) + b"\x01")
    prover.hear()
    assert prover.standing is not standing


async def test_an_answer_without_a_meaning_ends_the_connection_and_nothing_else(prover: Prover, daemon: Daemon) -> None:
    standing = await stands(prover)
    proved = prover.proved_ns
    prover.ask()
    daemon.ends[-1].sendall(wire.encode({"type": "instance_status_reply"}))
    prover.hear()
    assert prover.standing is not standing
    assert prover.proved_ns == proved
    await made_anew(prover, standing)


async def test_a_question_that_gets_no_answer_is_given_up(prover: Prover, daemon: Daemon) -> None:
    standing = await stands(prover)
    prover.ask()
    daemon.now += ASKED_NS
    prover.hear()
    assert prover.standing is standing
    daemon.now += 1
    prover.hear()
    assert prover.standing is not standing
    await made_anew(prover, standing)


async def test_a_wait_that_the_end_of_the_idle_connection_ended_does_not_end_at_once_again(
    prover: Prover, daemon: Daemon, tmp_path: Path
) -> None:
    standing = await stands(prover)
    daemon.hangs = True
    listener = Listener(tmp_path / "socket")
    try:
        listener.watch(standing)
        daemon.ends[-1].close()
        began = time.monotonic()
        await asyncio.to_thread(listener.wait, LONG_S)
        assert time.monotonic() - began < LONG_S / 2
        prover.hear()
        listener.watch(prover.standing)
        began = time.monotonic()
        listener.wait(0.2)
        assert time.monotonic() - began >= 0.2
    finally:
        listener.close()


async def test_a_connection_that_can_not_be_made_is_no_complaint_about_the_daemon(daemon: Daemon) -> None:
    daemon.hangs = True
    prover = Prover(lambda: None, daemon.connect, daemon.clock)
    try:
        daemon.now += 1
        prover.ask()
        await until(lambda: prover.proved_ns == daemon.now)
        assert prover.complaint is None
        daemon.hangs = False
        assert await stands(prover)
        assert prover.complaint is None
    finally:
        prover.close()
        with suppress(OSError):
            daemon.ends[-1].close()


async def test_a_daemon_that_breaks_each_connection_at_once_is_connected_to_ever_more_seldom(
    prover: Prover, daemon: Daemon
) -> None:
    await made_anew_after_a_break(prover, daemon)  # at once
    for wait_ms in (200, 400, 800, 1600, 3200, 5000, 5000):
        daemon.ends[-1].close()
        prover.hear()
        daemon.now += wait_ms * 1_000_000 - 1
        await asked(prover, daemon)
        assert prover.standing is None
        daemon.now += 1
        await asked(prover, daemon)
        assert prover.standing is not None
    daemon.now += LONGEST_NS
    await made_anew_after_a_break(prover, daemon)  # it stood long enough


async def made_anew_after_a_break(prover: Prover, daemon: Daemon) -> None:
    standing = await stands(prover)
    daemon.ends[-1].close()
    prover.hear()
    await made_anew(prover, standing)


async def asked(prover: Prover, daemon: Daemon) -> None:
    """The thread has asked, and has made the connection if one was due: it is in its second round since."""
    for _ in range(2):
        seen = daemon.checks
        prover.ask()
        await until(lambda seen=seen: daemon.checks > seen or prover.standing is not None)
