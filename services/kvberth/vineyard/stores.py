"""The daemon's shared memory as this process maps it: once for each memory, however many blobs are looked at.

Owns the mappings and every descriptor given to it; speaks to nobody.
"""

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

from kvberth.service.shortage import is_own_shortage
from kvberth.vineyard.blob import SharedBlob
from kvberth.vineyard.errors import CannotAsk
from kvberth.vineyard.wire import Location, MalformedError

T = TypeVar("T")


class SharedStores:
    """The mapped memories of one connection, by the number that the daemon calls them."""

    def __init__(self, path: str) -> None:
        """`path` is the daemon's, for errors."""
        self._path = path
        self._maps: dict[int, mmap.mmap] = {}
        self._fds: dict[int, int] = {}

    @property
    def mapped(self) -> bool:
        """Whether any memory is."""
        return bool(self._maps)

    def add(self, location: Location, fd: int) -> None:
        """Maps the memory behind `fd`, which is kept to be shared, or closed where that fails.

        Raises MalformedError where it cannot be mapped, and CannotAsk where this process lacks something for it.
        """
        try:
            # The daemon sends each memory once. A second one by the same number replaces the first, whose views stay.
            self._maps[location.store_fd] = mmap.mmap(fd, location.map_bytes)
        except (OSError, ValueError) as error:  # no memory at all, or shorter than was said
            os.close(fd)
            if is_own_shortage(error):
                raise CannotAsk(self._path, f"the daemon's memory cannot be mapped here: {error}") from None
            raise MalformedError(
                f"sent a descriptor that {location.map_bytes} bytes cannot be mapped from: {error}"
            ) from None
        replaced = self._fds.pop(location.store_fd, None)
        self._fds[location.store_fd] = fd
        if replaced is not None:
            os.close(replaced)

    def view(self, location: Location) -> memoryview:
        """Returns the blob's bytes, writable; raises MalformedError where its memory never came."""
        if location.size == 0:  # an empty blob lies in no memory
            return memoryview(bytearray())
        mapped = self._maps.get(location.store_fd)
        if mapped is None:
            raise MalformedError(f"placed a blob in memory {location.store_fd}, which it never sent")
        if len(mapped) != location.map_bytes:
            raise MalformedError(f"sent {len(mapped)} bytes as memory {location.store_fd}, now of {location.map_bytes}")
        return memoryview(mapped)[location.offset : location.offset + location.size]

    def shared(self, location: Location) -> SharedBlob:
        """Returns where the blob lies, with a descriptor of the caller's own; raises as `view` does."""
        self.view(location)
        fd = self._fds.get(location.store_fd)
        if fd is None:
            raise MalformedError("placed an empty blob, which lies in no memory")
        return SharedBlob(os.dup(fd), location.map_bytes, location.offset, location.size)

    def close(self) -> None:
        """Unmaps every memory that nobody looks at any more. Two threads may: each takes what is left."""
        for fd in _taken_from(self._fds):
            os.close(fd)
        for mapped in _taken_from(self._maps):
            # Where somebody still holds a view, it must stay valid: Python unmaps when the last one is dropped.
            with suppress(BufferError):
                mapped.close()


def _taken_from(items: dict[int, T]) -> Iterator[T]:
    while True:
        try:
            _, item = items.popitem()
        except KeyError:
            return
        yield item
