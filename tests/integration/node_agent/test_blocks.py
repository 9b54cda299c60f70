"""What the agent hears of transfer workers, and of what only looks like one."""

import contextlib
import json
import socket
import threading

import pytest

from integration.node_agent.proving import OwnLag, proving
from kvberth.node_agent.health.blocks import BlocksQuestion
from support.shortage import no_descriptors
from support.transfer_worker import running_worker
from support.vineyardd import running_vineyardd
from support.waiting import until

pytestmark = pytest.mark.integration


NOBODY = "no transfer worker listens in its directory"
NO_ANSWER = "its transfer worker gave no answer within 0.5 s, twice in a row"


class Worker:
    """A listener that gives everybody the same answer; None: it takes connections and says nothing; b"": it closes."""

    def __init__(self, path, answer, listener):
        self.path = path
        self.answer = answer
        self.asked = 0
        self._listener = listener
        self.kept = []

    def serve(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.asked += 1
            if self.answer is None:
                self.kept.append(sock)
                continue
            with sock:
                if self.answer:
                    sock.recv(65536)
                    sock.send(self.answer)


@contextlib.contextmanager
def answering(path, answer):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(16)
        worker = Worker(path, answer, listener)
        thread = threading.Thread(target=worker.serve)
        thread.start()
        try:
            yield worker
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for sock in worker.kept:
                sock.close()
            path.unlink()


@pytest.fixture
def ask(root):
    """A question at the cache in `root`."""
    asked = BlocksQuestion(str(root / "vineyard.sock"), OwnLag(0.0))
    yield asked
    asked.hang_up()


@pytest.fixture
def path(root):
    return root / "kvberth.sock"


def said(kind, **fields):
    return json.dumps({"v": 1, "type": kind, **fields}).encode()


async def asked_until(question, word):
    """Ask until that is the word: an answer may come late beside other work."""

    async def is_it():
        return await question.ask() == word

    await until(is_it)


async def test_nothing_is_there_where_nobody_listens(ask, path):
    assert await ask.ask() == NOBODY
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(path))
    assert await ask.ask() == NOBODY


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
async def test_the_word_is_what_the_worker_says(ask, path, answer, word):
    with answering(path, answer):
        await asked_until(ask, word)


async def test_a_worker_that_knows_no_such_question_is_unknown_and_asked_once_in_its_life(ask, path):
    words = "The connection ends: a message of unknown type 'ask' came."
    with answering(path, said("told", words="")):
        await asked_until(ask, "")
    with answering(path, said("refuse", reason="malformed", words=words)) as worker:
        await asked_until(ask, None)
        for _ in range(5):
            assert await ask.ask() is None
        assert worker.asked == 1
    assert await ask.ask() == NOBODY
    with answering(path, said("told", words="")):
        await asked_until(ask, "")


async def test_an_answer_that_is_missed_once_says_nothing_and_twice_does(ask, path):
    with answering(path, None):
        assert await ask.ask() is None
        assert await ask.ask() == NO_ANSWER
    assert await ask.ask() == NOBODY


async def test_a_worker_that_stands_has_one_question_in_its_queue_and_its_answer_is_heard(ask, path):
    with answering(path, None) as worker:
        for _ in range(4):
            await ask.ask()
        assert (ask.word, worker.asked) == (NO_ANSWER, 1)
        worker.kept[0].send(said("told", words=""))
        await asked_until(ask, "")
        assert worker.asked == 1


async def test_another_worker_is_asked_though_the_one_before_it_stands(ask, path):
    with answering(path, None):
        await ask.ask()
        assert await ask.ask() == NO_ANSWER
        path.rename(path.with_name("earlier"))
        with answering(path, said("told", words="")):
            await asked_until(ask, "")
        path.with_name("earlier").rename(path)


async def test_a_connection_that_ends_unanswered_is_a_miss_and_no_word_of_its_own(ask, path):
    with answering(path, b""):
        assert await ask.ask() is None
        assert [await ask.ask() for _ in range(3)] == [NO_ANSWER] * 3


async def test_a_worker_whose_queue_is_full_misses_and_says_no_other_word(ask, path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, contextlib.ExitStack() as waiting:
        listener.bind(str(path))
        listener.listen(1)
        for _ in range(2):
            waiting.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)).connect(str(path))
        assert await ask.ask() is None
        assert [await ask.ask() for _ in range(3)] == [NO_ANSWER] * 3


async def test_what_this_process_lacks_itself_is_no_word_of_the_worker(ask, path):
    with answering(path, said("told", words="")):
        await asked_until(ask, "")
    with no_descriptors():
        assert await ask.ask() == ""
    assert await ask.ask() == NOBODY


async def test_a_deadline_that_is_missed_by_our_own_delay_is_no_evidence(root, path):
    asked = BlocksQuestion(str(root / "vineyard.sock"), OwnLag(1.0))
    with answering(path, None):
        assert [await asked.ask() for _ in range(3)] == [None] * 3
        asked.hang_up()


async def test_what_a_real_worker_says_of_itself_goes_with_the_proofs_of_its_cache(root):
    async with running_vineyardd(root / "vineyard.sock", size="64Mi") as daemon, proving(daemon.path, 0.2) as proofs:
        await until(lambda: proofs.events and proofs.events[-1].blocks == NOBODY)
        async with running_worker(root) as worker:
            await until(lambda: proofs.events[-1].blocks == "", within_s=20)
            await daemon.kill()
            await until(lambda: (proofs.events[-1].blocks or "").startswith("There is no store"), within_s=20)
            await worker.freeze()
            await until(lambda: "gave no answer" in (proofs.events[-1].blocks or ""), within_s=20)
        await until(lambda: proofs.events[-1].blocks == NOBODY, within_s=20)
