"""The half of the stand-in that keeps blocks in its cache through kvberth.client, in a process of its own.

What each block holds follows from its key, so whoever reads it later, in whatever life, knows whether the bytes are
right. It says on standard output, line by line, what happened (`loaded`, `offloaded`, `lost <why>`), and ends when its
standard input does.
"""

import select
import signal
import sys
import time
from collections import Counter

import numpy as np

from kvberth.client import Client, Outcome, Ticket, chain

BLOCK_TOKENS = 16
PAGES = 16
HALF = 32 * 1024
"""Bytes of a block in each of its two regions."""
EVERY_S = 2.0
CONNECT_S = 1.0
STORED_S = 30.0


class BlockUser:
    """One engine's blocks: `count` of them, of a prompt that every life of it gets."""

    def __init__(self, directory: str, count: int) -> None:
        self.keys = chain(range(count * BLOCK_TOKENS), BLOCK_TOKENS)
        self.pages = np.zeros((2, PAGES, HALF), dtype=np.uint8)
        self.client = Client(directory, list(self.pages), {"model": "stand-in@1", "dtype": "uint8"})
        self.told: tuple[object, ...] = ()

    def run(self, scale: float) -> None:
        """Load what is there, offload what is not, and again, until standard input ends."""
        while True:
            self._round()
            if select.select([sys.stdin], [], [], EVERY_S * scale)[0]:
                self.client.close()
                return

    def _round(self) -> None:
        if not self.client.wait_connected(CONNECT_S):
            self._say("lost", self.client.why or "not connected yet")
            return
        found, wrong = self._load()
        self._say("loaded", f"{found} of {len(self.keys)} blocks, {wrong} with other bytes")
        if found < len(self.keys):
            began = time.monotonic()
            outcomes = self._offload(found)
            took = f"{(time.monotonic() - began) * 1000:.0f} ms" if outcomes else "no time"
            self._say("offloaded", ", ".join(f"{n} {name}" for name, n in sorted(outcomes.items())), f"in {took}")

    def _load(self) -> tuple[int, int]:
        """How many leading blocks are there, and how many of those came with other bytes."""
        found = wrong = 0
        while run := self.client.lookup(self.keys[found : found + PAGES]):
            loaded = self.client.load(run, range(len(run)))
            self.client.release(run)
            wrong += sum(not self._is_right(at, found + at) for at in range(loaded))
            found += loaded
            if loaded < len(run):
                break
        return found, wrong

    def _offload(self, first: int) -> Counter[str]:
        outcomes: Counter[str] = Counter()
        for start in range(first, len(self.keys), PAGES):
            keys = self.keys[start : start + PAGES]
            for at in range(len(keys)):
                self.pages[:, at] = _content(start + at)
            ticket = self.client.offload(keys, range(len(keys)), within_s=STORED_S)
            if not ticket.wait(STORED_S):
                self._take_back(ticket)
            outcomes.update(_name(outcome) for outcome in ticket.outcomes)
        return outcomes

    def _take_back(self, ticket: Ticket) -> None:
        """Waits until the pages may be written again: what is being copied can't be taken back, only waited for."""
        ticket.cancel()
        while not ticket.wait_released(STORED_S):
            self._say("lost", "blocks that are being copied still")

    def _is_right(self, at: int, number: int) -> bool:
        return bool(np.array_equal(self.pages[:, at], _content(number)))

    def _say(self, what: str, text: str, took: str = "") -> None:
        """Tell the parent, in one line, unless it is what was told last."""
        if (what, text) != self.told:
            self.told = what, text
            sys.stdout.write(f"{what} {' '.join(f'{text} {took}'.split())}\n")
            sys.stdout.flush()


def _content(number: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.random.default_rng(number).integers(0, 256, (2, HALF), dtype=np.uint8)


def _name(outcome: Outcome | None) -> str:
    return "unknown" if outcome is None else outcome.name.lower()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to the whole group; the parent says when to end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    BlockUser(sys.argv[1], int(sys.argv[2])).run(float(sys.argv[3]))
