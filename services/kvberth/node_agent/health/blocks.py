"""Asks the transfer worker beside a cache's daemon whether it serves. Says what it heard, judges nothing.

The worker of a cache has no key for the bus where it runs in the users' namespaces (Kubernetes): the agent of its node
carries its word there.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from pathlib import Path

from kvberth.node_agent.evidence import Evidence
from kvberth.node_agent.health.listener import Listener
from kvberth.service.shortage import is_own_shortage
from kvberth.store import control
from kvberth.store.control import Ask, Refuse, Told
from kvberth.store.errors import Malformed

ANSWER_S = 0.5
"""For an answer. One that is missed says nothing yet: a worker that makes its store ready hears nobody for a while."""
NOBODY = "no transfer worker listens in its directory"
_MISSED = frozenset({errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN, errno.EAGAIN})
"""How a worker that ends, or whose queue is full, gives no answer."""


class BlocksQuestion:
    """Asks one worker, again and again.

    A question that gets no answer in time keeps its connection, and the next one waits for its answer: a worker that is
    stopped has one of ours in its queue, however long it stands.
    """

    def __init__(self, daemon: str, evidence: Evidence) -> None:
        """``daemon`` is the path of vineyardd's socket, beside which the worker's lies."""
        self.word: str | None = None
        """Why the worker does not serve; empty: it does; None: nobody knows."""
        self._path = str(Path(daemon).with_name(control.SOCKET_NAME))
        self._evidence = evidence
        self._listener: Listener | None = None
        self._sock: socket.socket | None = None
        self._missed = 0
        self._knows_no_ask = False

    async def run(self, period_s: float, heard: Callable[[], None]) -> None:
        """Ask until cancelled, so long after each answer; ``heard`` is called when the word is another."""
        try:
            while True:
                before = self.word
                if await self.ask() != before:
                    heard()
                await asyncio.sleep(period_s)
        finally:
            self.hang_up()

    async def ask(self) -> str | None:
        """Ask once, and return the word. Never raises but by being cancelled.

        What was heard last stands until a second answer in a row is missed. A worker of a version that knows no such
        question is asked once in its life: it counts what it does not understand.
        """
        self._look()
        if self._knows_no_ask:
            return self.word
        try:
            async with asyncio.timeout(ANSWER_S):
                self._hear(await self._answer())
        except TimeoutError:
            self._miss(counts=not self._evidence.lagged(ANSWER_S))
            return self.word  # the question stands
        except (FileNotFoundError, ConnectionRefusedError):
            self._hear(NOBODY)
        except (OSError, Malformed) as error:
            self._fail(error)
        self.hang_up()
        return self.word

    def _look(self) -> None:
        """Begin anew where another life of the worker listens: it missed nothing, and may be of another version."""
        listener = Listener.at(self._path)
        if listener != self._listener:
            self.hang_up()
            self._listener, self._missed, self._knows_no_ask = listener, 0, False

    async def _answer(self) -> str | None:
        if self._sock is None:
            self._sock = await self._asked()
        packet = await asyncio.get_running_loop().sock_recv(self._sock, control.MAX_BYTES + 1)
        if not packet:
            raise ConnectionResetError(errno.ECONNRESET, "the connection was closed")
        match answer := control.decode(packet):
            case Refuse("malformed", _):
                self._knows_no_ask = True
                return None
            case Told(words) | Refuse(_, words):
                return words
            case _:
                raise Malformed(f"{type(answer).__name__} is no answer")

    async def _asked(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, self._path)
            await loop.sock_sendall(sock, control.encode(Ask()))
        except BaseException:
            sock.close()
            raise
        return sock

    def _hear(self, word: str | None) -> None:
        self.word, self._missed = word, 0

    def _miss(self, *, counts: bool = True) -> None:
        self._missed += counts
        if self._missed > 1:
            self.word = f"its transfer worker gave no answer within {ANSWER_S:g} s, twice in a row"

    def _fail(self, error: OSError | Malformed) -> None:
        if is_own_shortage(error):
            return  # no evidence
        if isinstance(error, OSError) and error.errno in _MISSED:
            self._miss()
        else:
            why = getattr(error, "strerror", None) or error
            self._hear(f"its transfer worker can't be asked ({why})")

    def hang_up(self) -> None:
        """Give up the question that stands, if one does."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
