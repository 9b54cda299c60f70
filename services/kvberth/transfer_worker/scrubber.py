"""Reads the store's blocks again and again, so slowly that nobody notices: what differs from its checksum is taken out.

A reader compares checksums anyhow; this finds damage before somebody waits for the block, and tells it.
"""

from collections.abc import Callable

import structlog

from kvberth.store.blockstore import Scrubbed

_SLOTS = 64
"""Slots looked at in one call, most of which may be empty."""
_MOST_S = 1.0
"""What was not read in a longer pause is not made up for."""

_log = structlog.get_logger(__name__)


class Scrubber:
    """Spends a rate in bytes a second. One block may cost more than there is: then the next ones wait for it."""

    def __init__(self, scrub: Callable[[int], Scrubbed], bytes_s: int, now_ns: int) -> None:
        """`scrub` is BlockStore.scrub."""
        self._scrub = scrub
        self._bytes_s = bytes_s
        self._at = now_ns
        self._credit = 0.0
        self.bytes = 0
        """Read so far."""

    def tend(self, now_ns: int) -> None:
        """Read as much as time has brought."""
        self._credit += self._bytes_s * min((now_ns - self._at) / 1e9, _MOST_S)
        self._credit = min(self._credit, self._bytes_s * _MOST_S)
        self._at = now_ns
        for _ in range(_SLOTS if self._credit > 0 else 0):
            found = self._scrub(1)
            self._credit -= found.bytes
            self.bytes += found.bytes
            if found.corrupt:
                _log.error("a block differed from its checksum, and is taken out")
            if self._credit <= 0:
                return
