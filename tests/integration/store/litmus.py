"""One side of the litmus test: `litmus.py FILE SIDE FENCE ROUNDS` stores its own word, fences, loads the other's.

Each side counts up: in round n it stores n and then notes what it loads. No rounds in step are needed: if side A's
load in round n missed side B's m, then B stored m after that load, so B's load of round m must see at least n.
"""

import mmap
import sys
import time
from array import array
from pathlib import Path

from kvberth.store import fences

WORD_BYTES = 8
SPACING = 4096
"""Far apart: no cache line is shared, so each store waits in the store buffer for a line that the other holds."""
BEGIN_S = 30.0


def main(path: str, side: int, kind: str, rounds: int) -> None:
    fence = {
        "none": lambda: fences.no_fence,
        "worker": lambda: fences.worker_fence(fences.choose_fence()),
        "client": lambda: fences.client_fence(fences.choose_fence()),
        "lock": fences.lock_fence,
    }[kind]()
    with Path(path).open("r+b") as file:
        words = memoryview(mmap.mmap(file.fileno(), 4 * SPACING)).cast("Q")
    own, other = side * SPACING // WORD_BYTES, (1 - side) * SPACING // WORD_BYTES
    ready = 2 * SPACING // WORD_BYTES
    words[ready + side] = 1
    until = time.monotonic() + BEGIN_S
    while not words[ready + 1 - side]:  # spins: both must really run at the same time
        if time.monotonic() > until:
            raise TimeoutError("the other side did not begin")
    seen = array("Q", bytes(WORD_BYTES * (rounds + 1)))
    if kind == "none":
        for number in range(1, rounds + 1):
            words[own] = number
            seen[number] = words[other]
    else:
        for number in range(1, rounds + 1):
            words[own] = number
            fence()
            seen[number] = words[other]
    sys.stdout.buffer.write(seen.tobytes())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
