"""Asks the transfer worker beside a cache's daemon whether it serves. Says what it heard, judges nothing.

The worker of a cache has no key for the bus where it runs in the users' namespaces (Kubernetes): the agent of its node
carries its word there.
"""

import asyncio
import socket
from pathlib import Path

from kvberth.node_agent.evidence import Evidence
from kvberth.store import control
from kvberth.store.control import Ask, Refuse, Told
from kvberth.store.errors import Malformed

ANSWER_S = 0.5
"""For an answer. One that is missed says nothing yet: a worker that makes its store ready hears nobody for a while."""


class BlocksQuestion:
    """Asks one worker, again and again."""

    def __init__(self, daemon: str, evidence: Evidence) -> None:
        """``daemon`` is the path of vineyardd's socket, beside which the worker's lies."""
        self._path = str(Path(daemon).with_name(control.SOCKET_NAME))
        self._evidence = evidence
        self._word: str | None = None
        self._missed = 0

    async def ask(self) -> str | None:
        """Why the worker does not serve; empty: it does; None: no worker listens. Never raises but by being cancelled.

        What was heard last stands until a second answer in a row is missed.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                self._word, self._missed = await self._heard(), 0
        except TimeoutError:
            self._missed += not self._evidence.lagged(ANSWER_S)
            if self._missed > 1:
                self._word = f"its transfer worker gave no answer within {ANSWER_S:g} s, twice in a row"
        except (FileNotFoundError, ConnectionRefusedError):
            self._word, self._missed = None, 0
        except (OSError, Malformed) as error:
            why = getattr(error, "strerror", None) or error
            self._word, self._missed = f"its transfer worker can't be asked ({why})", 0
        return self._word

    async def _heard(self) -> str:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, self._path)
            await loop.sock_sendall(sock, control.encode(Ask()))
            answer = control.decode(await loop.sock_recv(sock, control.MAX_BYTES + 1))
        match answer:
            case Told(words) | Refuse(_, words):
                return words
            case _:
                raise Malformed(f"{type(answer).__name__} is no answer")
