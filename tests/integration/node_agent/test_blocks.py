"""What the agent hears of transfer workers, and of what only looks like one."""

import contextlib
import json
import socket
import threading

import pytest

from integration.node_agent.proving import OwnLag, proving
from kvberth.node_agent.health.blocks import BlocksQuestion
from support.transfer_worker import running_worker
from support.vineyardd import running_vineyardd
from support.waiting import until

pytestmark = pytest.mark.integration


@contextlib.contextmanager
def answering(path, answer):
    """A listener that gives everybody the same answer; None: it takes connections and says nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, contextlib.ExitStack() as kept:
        listener.bind(str(path))
        listener.listen(16)

        def serve():
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                kept.callback(sock.close)
                if answer is not None:
                    sock.recv(65536)
                    sock.send(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def question(root, lag=0.0):
    return BlocksQuestion(str(root / "vineyard.sock"), OwnLag(lag))


def said(kind, **fields):
    return json.dumps({"v": 1, "type": kind, **fields}).encode()


async def test_nothing_is_there_where_nobody_listens(root):
    asked = question(root)
    assert await asked.ask() is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(root / "kvberth.sock"))
    assert await asked.ask() is None


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (said("told", words=""), ""),
        (said("told", words="Waiting."), "Waiting."),
        (
            said("refuse", reason="clients", words="128 connections are open already."),
            "128 connections are open already.",
        ),
        (said("bye"), "its transfer worker can't be asked (Bye is no answer)"),
    ],
)
async def test_the_word_is_what_the_worker_says(root, answer, word):
    with answering(root / "kvberth.sock", answer):
        assert await question(root).ask() == word


async def test_an_answer_that_is_missed_once_says_nothing_and_twice_does(root):
    asked = question(root)
    with answering(root / "kvberth.sock", said("told", words="")):
        assert await asked.ask() == ""
    (root / "kvberth.sock").unlink()
    with answering(root / "kvberth.sock", None):
        assert await asked.ask() == ""
        assert await asked.ask() == "its transfer worker gave no answer within 0.5 s, twice in a row"
    (root / "kvberth.sock").unlink()
    assert await asked.ask() is None


async def test_a_deadline_that_is_missed_by_our_own_delay_is_no_evidence(root):
    asked = question(root, lag=1.0)
    with answering(root / "kvberth.sock", None):
        assert [await asked.ask() for _ in range(3)] == [None] * 3


async def test_what_a_real_worker_says_of_itself_goes_with_the_proofs_of_its_cache(root):
    async with running_vineyardd(root / "vineyard.sock", size="64Mi") as daemon, proving(daemon.path, 0.2) as proofs:
        await until(lambda: proofs.events and proofs.events[-1].blocks is None)
        async with running_worker(root) as worker:
            await until(lambda: proofs.events[-1].blocks == "", within_s=20)
            await daemon.kill()
            await until(lambda: (proofs.events[-1].blocks or "").startswith("There is no store"), within_s=20)
            await worker.freeze()
            await until(lambda: "gave no answer" in (proofs.events[-1].blocks or ""), within_s=20)
        await until(lambda: proofs.events[-1].blocks is None, within_s=20)
