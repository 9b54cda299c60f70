"""What all drivers share: the blocks, the ruler, and one line of JSON in and out for each step.

A driver runs in the Python that has its store installed, so nothing here needs more than numpy; torch is used where it
is there. Each answer is a ratio to the ruler, which copies the same blocks right before each batch: the faster of
numpy's and torch's plain copies by one thread, between private and warm shared memory. Beside other work ratios of time
say little, and those of this process's own CPU time more.
"""

import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import IO, Any, Protocol

import numpy as np

LAYERS, TOKENS, HEADS, SIZE = 32, 16, 8, 128
SHAPE = (LAYERS, 2, TOKENS, HEADS, SIZE)
BLOCK = LAYERS * 2 * TOKENS * HEADS * SIZE * 2
"""Bytes of a block, of bfloat16."""
BLOCKS = int(os.environ.get("PEER_BLOCKS", "64"))
BATCH = 16

Array = np.ndarray[Any, Any]


class Peer(Protocol):
    """A store. `first` and `last` bound the blocks; `tokens` are those of all blocks in this round, and no other's."""

    def put(self, tokens: Array, first: int, last: int) -> None: ...
    def get(self, tokens: Array, first: int, last: int) -> None: ...
    def forget(self, tokens: Array, /) -> None:
        """Not timed: the round is over."""

    def close(self) -> None: ...


class Memory:
    """What is stored from, and loaded into."""

    def __init__(self) -> None:
        self.both = np.zeros((2 * BLOCKS, BLOCK), np.uint8)
        self.source, self.target = self.both[:BLOCKS], self.both[BLOCKS:]
        self.source[:] = np.random.default_rng(1).integers(0, 255, self.source.shape, np.uint8)


def tokens_of(round_: int) -> Array:
    """Sixteen a block, other ones in each round."""
    return np.random.default_rng(1000 + round_).integers(0, 128_000, BLOCKS * TOKENS).astype(np.int64)


def serve(make: Callable[[Memory], Peer]) -> None:
    """Answers `put ROUND`, `get ROUND` and `forget ROUND` until stdin ends. What the store prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    memory = Memory()
    ruler = Ruler(memory)
    peer = make(memory)
    try:
        _say(answers, ready=True)
        for line in sys.stdin:
            what, number = line.split()
            _say(answers, **_step(peer, memory, ruler, what, tokens_of(int(number))))
    finally:
        peer.close()


def _step(peer: Peer, memory: Memory, ruler: "Ruler", what: str, tokens: Array) -> dict[str, object]:
    if what == "forget":
        peer.forget(tokens)
        return {}
    into = what == "put"
    if not into:
        memory.target[:] = 0
    step = peer.put if into else peer.get
    ruled, spent = np.zeros(2), np.zeros(2)
    for first in range(0, BLOCKS, BATCH):
        last = min(first + BATCH, BLOCKS)
        ruled += ruler.seconds(first, last, into=into)
        spent += timed(partial(step, tokens, first, last))
    right = into or bool((memory.target == memory.source).all())
    return {"ratio": ruled[0] / spent[0], "cpu_ratio": ruled[1] / max(spent[1], 1e-9), "right": right}


class Ruler:
    """Plain copies of all blocks by one thread."""

    def __init__(self, memory: Memory) -> None:
        fd = os.memfd_create("ruler")
        os.ftruncate(fd, BLOCKS * BLOCK)
        self._shared = np.frombuffer(mmap.mmap(fd, BLOCKS * BLOCK), np.uint8).reshape(BLOCKS, BLOCK)
        os.close(fd)
        self._shared[:] = memory.source
        self._private = memory.source.copy()
        self._ways: list[Callable[[Array, Array], object]] = [np.copyto]
        try:
            import torch
        except ImportError:
            return
        torch.set_num_threads(1)
        self._ways.append(lambda into, out_of: torch.from_numpy(into).copy_(torch.from_numpy(out_of)))

    def seconds(self, first: int, last: int, *, into: bool) -> Array:
        """Of these blocks, into shared memory or out of it, by the faster way: of time, and of CPU."""
        pair = (self._shared, self._private) if into else (self._private, self._shared)
        found = [timed(partial(_copied, way, *(half[first:last] for half in pair))) for way in self._ways]
        return np.min(found, axis=0)


def timed(step: Callable[[], object]) -> Array:
    """Seconds of time, and of this process's CPU."""
    begin = time.perf_counter(), time.process_time()
    step()
    return np.array([time.perf_counter() - begin[0], time.process_time() - begin[1]])


def _copied(way: Callable[[Array, Array], object], into: Array, out_of: Array) -> None:
    for one, other in zip(into, out_of, strict=True):
        way(one, other)


def _say(answers: IO[str], **words: object) -> None:
    answers.write(json.dumps(words) + "\n")
    answers.flush()
