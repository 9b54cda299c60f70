"""Who is refused at the worker's socket hears why, and is not kept for ever."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kvberth.store import control
from kvberth.store.control import Ask, Refuse
from kvberth.transfer_worker import listener as module
from kvberth.transfer_worker.listener import Listener

REFUSAL = Refuse("clients", "2 connections are open already.")
MANY = 64


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """A listener that has all the connections that it may have."""
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 2)
    listener = Listener(tmp_path / "kvberth.sock")
    with ExitStack() as stack:
        stack.callback(listener.close)
        for _ in range(2):
            connected(listener, stack)
        assert len(listener.connections) == 2
        yield listener


def connected(listener: Listener, stack: ExitStack, first: bytes | None = None) -> socket.socket:
    sock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    sock.settimeout(10)
    sock.connect(str(listener.path))
    if first is not None:
        sock.send(first)
    listener.wait(10)
    return sock


def heard(sock: socket.socket) -> control.Message:
    return control.decode(sock.recv(control.MAX_BYTES))


def test_who_has_spoken_already_hears_why_it_is_refused(full: Listener) -> None:
    with ExitStack() as stack:
        sock = connected(full, stack, control.encode(Ask()))
        assert full.wait(10) == []  # what it said is nobody's business
        assert heard(sock) == REFUSAL
        assert sock.recv(1) == b""


def test_who_speaks_after_it_was_refused_hears_why(full: Listener) -> None:
    with ExitStack() as stack:
        sock = connected(full, stack)
        sock.send(control.encode(Ask()))
        assert full.wait(10) == []
        assert heard(sock) == REFUSAL
        assert sock.recv(1) == b""


def test_those_that_were_refused_and_stay_are_closed_when_others_come(full: Listener) -> None:
    with ExitStack() as stack:
        socks = [connected(full, stack) for _ in range(MANY)]
        socks[-1].setblocking(False)
        assert [heard(sock) for sock in socks] == [REFUSAL] * MANY
        kept = 16
        assert [sock.recv(1) for sock in socks[:-kept]] == [b""] * (MANY - kept)
        with pytest.raises(BlockingIOError):
            socks[-1].recv(1)
    assert len(full.connections) == 2
