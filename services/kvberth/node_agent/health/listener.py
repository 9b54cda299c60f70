"""Which socket is at a path, and since when. Reads one inode, and no more.

Every life of a daemon binds a socket of its own: whoever hangs at one that has not changed since a proof was proven.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket file; an inode's number may be used again, its time is another then."""

    device: int
    inode: int
    bound_ns: int

    @classmethod
    def at(cls, path: str) -> Self | None:
        """Look; None where nothing can be seen."""
        try:
            found = os.stat(path)  # noqa: PTH116 - the path is text for the socket calls, one look needs no Path
        except OSError:
            return None
        return cls(found.st_dev, found.st_ino, found.st_mtime_ns)

    def since_before(self, when: datetime) -> bool:
        """Whether it was there at a time of this machine's clock already."""
        return datetime.fromtimestamp(self.bound_ns / 1e9, UTC) <= when
