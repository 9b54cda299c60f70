"""A thread that asks the daemon whether it is still the one whose memory this is: often, and at once when told to.

It alone waits for the daemon, so that a daemon that hangs stops no client. What it finds is read as plain attributes.
"""

import threading
import time
from collections.abc import Callable

from kvberth.store.errors import EpochEnded
from kvberth.vineyard import VineyardError

_EVERY_S = 0.2


class Prover:
    """`proved_ns`: when the last question was asked that got its answer. `ended`: why the epoch is over, or None."""

    def __init__(self, check: Callable[[], None]) -> None:
        """`check` is VineyardMemory.check."""
        self._check = check
        self._wanted = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="kvberth prover")
        self.proved_ns = 0
        self.ended: str | None = None
        self.failed: Exception | None = None
        """Why the thread ended by itself, which it never should; whoever looks at the others raises it."""
        self.complaint: str | None = None
        """Why the daemon's last answer is missing; None: it came."""
        self._thread.start()

    def ask(self) -> None:
        """Has the daemon asked now."""
        self._wanted.set()

    def close(self) -> None:
        """Ends the thread; a question under way is waited for, which has a deadline of its own."""
        self._closing = True
        self._wanted.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing and self.ended is None and self.failed is None:
            asked = time.monotonic_ns()
            try:
                self._check()
            except EpochEnded as error:
                self.ended = str(error)
            except VineyardError as error:
                self.complaint = str(error)
            except Exception as error:  # noqa: BLE001 -- a thread's last word
                self.failed = error
            else:
                self.complaint, self.proved_ns = None, asked
            self._wanted.wait(_EVERY_S)
            self._wanted.clear()
