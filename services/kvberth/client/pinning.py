"""Pins the arenas that are mapped, piece by piece, so that a GPU copies to and from them directly. Knows no GPU itself.

Copies into memory that is not pinned yet are slower and right all the same, where none spans two pieces. What was
pinned is let go before it is unmapped, whatever else fails.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence

from kvberth.client.copies import parts
from kvberth.store.errors import StoreError

PIECE_BYTES = 64 << 20
"""In one call, for which the client's thread does nothing else: some ten milliseconds. Pieces end at addresses that are
multiples of it, and so must copies: the driver refuses one that spans memory that is pinned and memory that is not."""
PAGE = 4096

_log = logging.getLogger(__name__)  # an engine has no other


class Pinning:
    """What is pinned of one mapping. `complaint` says why no more of it is, or None."""

    def __init__(self, register: Callable[[int, int], None], unregister: Callable[[int], None]) -> None:
        """`register` takes an address and bytes, `unregister` the same address; both raise StoreError."""
        self._register = register
        self._unregister = unregister
        self._waiting: deque[tuple[int, int]] = deque()
        self._pinned: list[int] = []
        self.complaint: str | None = None

    def begin(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Let these (address, bytes) be pinned, a piece with each `step`."""
        self.complaint = None
        for first, size in whole_pages(ranges):
            self._waiting.extend((first + start, length) for start, length in parts(first, size, PIECE_BYTES))

    def step(self) -> bool:
        """Pins the next piece; False: there is none. Where the driver refuses, it is said, and the rest stays so."""
        if not self._waiting:
            return False
        address, size = self._waiting.popleft()
        try:
            self._register(address, size)
        except StoreError as error:
            self.complaint = f"{sum(size for _, size in self._waiting) + size >> 20} MiB stay unpinned: {error}"
            _log.warning("copies to and from the GPU are slower: %s", self.complaint)
            self._waiting.clear()
            return False
        self._pinned.append(address)
        return True

    def end(self) -> None:
        """Lets go of all that is pinned, the last first. What can't be let go is said: the driver has lost it."""
        self._waiting.clear()
        while self._pinned:
            try:
                self._unregister(self._pinned.pop())
            except StoreError as error:
                _log.warning("pinned memory can't be let go: %s", error)


def whole_pages(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pages that hold these ranges, each page once: two of them may share one."""
    found: list[tuple[int, int]] = []
    for address, size in sorted(ranges):
        first, last = address // PAGE * PAGE, -(-(address + size) // PAGE) * PAGE
        if found and first <= found[-1][0] + found[-1][1]:
            begin = found[-1][0]
            found[-1] = (begin, max(last, begin + found[-1][1]) - begin)
        else:
            found.append((first, last - first))
    return found
