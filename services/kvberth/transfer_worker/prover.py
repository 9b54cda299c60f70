"""Asks the daemon whether it is still the one whose memory this is: every now and then, and at once when told to.

The worker's own thread asks on a standing connection and waits for nothing. Whatever fails there is left to a thread of
the prover, which alone may wait for the daemon, so that one that hangs stops no client: it asks every 200 ms, decides
that the daemon is gone, and makes the standing connection anew. What it finds is read as plain attributes.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from kvberth.store.errors import EpochEnded
from kvberth.vineyard import StandingQuestion, VineyardError

_EVERY_S = 0.2
APART_S = 0.005
"""Two questions of the thread are so far apart at least, however often it is told to ask."""
ASKED_NS = 1_000_000_000
"""A standing connection on which a question waits longer for its answer is given up."""
_AGAIN_NS, LONGEST_NS = 200_000_000, 5_000_000_000
"""Where standing connections break sooner than after the longest wait, the first is made anew at once, the second after
the shortest, and each later one after twice the wait before. The thread asks meanwhile."""


class Prover:
    """`ended`: why the epoch is over, or None."""

    def __init__(
        self,
        check: Callable[[], None],
        connect: Callable[[], StandingQuestion] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`check` is VineyardMemory.check, `connect` its `question`; without the latter the thread asks alone."""
        self._check = check
        self._clock = clock
        self._connect = connect
        self._question: StandingQuestion | None = None
        self._asked_ns = self._stood_ns = self._stand_ns = self._wait_ns = 0
        self._proved_ns = self._heard_ns = 0
        self._wanted = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="kvberth prover")
        self.ended: str | None = None
        self.failed: Exception | None = None
        """Why the thread ended by itself, which it never should; whoever looks at the others raises it."""
        self.complaint: str | None = None
        """Why the daemon's last answer is missing; None: it came."""
        self._thread.start()

    @property
    def proved_ns(self) -> int:
        """When the last question was asked that got its answer."""
        return max(self._proved_ns, self._heard_ns)

    @property
    def standing(self) -> StandingQuestion | None:
        """What to watch for an answer; None: the thread asks, look again soon."""
        return self._question

    def ask(self) -> None:
        """Has the daemon asked now, where no question waits for its answer."""
        question = self._question
        if question is None:
            self._wanted.set()
        elif not self._asked_ns:
            self._asked_ns = self._clock()
            try:
                question.ask()
            except VineyardError:
                self._drop(question)

    def hear(self) -> None:
        """Takes the answer, if it has come, and sees that the connection has ended, also where nothing was asked."""
        question = self._question
        if question is None:
            return
        try:
            if question.answered():
                self._heard_ns, self._asked_ns = self._asked_ns, 0
        except VineyardError:
            self._drop(question)
            return
        if self._asked_ns and self._clock() - self._asked_ns > ASKED_NS:
            self._drop(question)

    def close(self) -> None:
        """Ends the thread; a question under way is waited for, which has a deadline of its own."""
        self._closing = True
        self._wanted.set()
        self._thread.join()
        if self._question is not None:
            self._question.close()

    def _drop(self, question: StandingQuestion) -> None:
        now = self._clock()
        young = now - self._stood_ns < LONGEST_NS
        self._stand_ns = now + (self._wait_ns if young else 0)
        self._wait_ns = min(max(2 * self._wait_ns, _AGAIN_NS), LONGEST_NS) if young else _AGAIN_NS
        self._asked_ns, self._question = 0, None
        question.close()
        self._wanted.set()

    def _stand(self) -> None:
        """Makes the standing connection where one is due; until it is made this thread asks, which complains."""
        if self._question is None and self._connect is not None and self._clock() >= self._stand_ns:
            with suppress(VineyardError):
                question = self._connect()
                self._stood_ns, self._question = self._clock(), question

    def _run(self) -> None:
        while not self._closing and self.ended is None and self.failed is None:
            asked = self._clock()
            try:
                self._check()
                self.complaint, self._proved_ns = None, asked
                self._stand()
            except EpochEnded as error:
                self.ended = str(error)
            except VineyardError as error:
                self.complaint = str(error)
            except Exception as error:  # noqa: BLE001 -- a thread's last word
                self.failed = error
            if self._wanted.wait(_EVERY_S):
                time.sleep(APART_S)
            self._wanted.clear()
