"""The store's memory as an engine's process maps it, for one epoch: mapped under a lock, unmapped before it ends.

No view of it leaves this library: `close` can unmap only when none is left. Copies are counted by the client.
"""

import gc
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from kvberth.client.host import Bytes, Place
from kvberth.store.control import Welcome
from kvberth.store.errors import Malformed, StoreError
from kvberth.store.fences import Fence, FenceKind, client_fence
from kvberth.store.locks import ClientLock, lock_path
from kvberth.store.memory import StoreMemory
from kvberth.store.reader import Hit
from kvberth.store.rings import ClientRings
from kvberth.store.shard_reader import ShardReader

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, which Python does not name
_WARM_BYTES = 4 << 20
"""In one call, for which the interpreter's lock is held: a third of a millisecond."""


class Mapping:
    """One epoch's memory, the page of this client in it, and the lock that says that it is mapped."""

    def __init__(
        self, directory: Path, client: bytes, welcome: Welcome, fds: Sequence[int], *, lingers: bool = False
    ) -> None:
        """Locks, then maps; the descriptors stay the caller's. Raises StoreError where that can't be.

        `lingers`: a device may copy for a moment still when this process is dead.
        """
        self.before_unmapping: list[Callable[[], None]] = []
        """What lets go of the memory before it is unmapped; raises nothing."""
        self.epoch = welcome.epoch
        self.place = welcome.place
        self._welcome = welcome
        self._maps: list[mmap.mmap] = []
        path = lock_path(directory, welcome.epoch, client)
        self.name = path.name
        """By this name the worker knows who has mapped it."""
        self._lock = ClientLock(path, lingers=lingers)
        fault = None
        try:
            self._open(welcome, fds)
        except (StoreError, OSError, ValueError) as error:
            fault = str(error)
        if fault is not None:  # here the error is gone, whose frames hold views of what is to be unmapped
            self.close()
            raise StoreError(fault)

    def _open(self, welcome: Welcome, fds: Sequence[int]) -> None:
        if len(fds) != len(welcome.maps) or not welcome.blobs:
            raise Malformed(f"{len(fds)} descriptors came for {len(welcome.maps)} memories")
        views = self._map(welcome, fds)
        self.memory = StoreMemory.open(views[0], tuple(views[1:]))
        if self.memory.superblock.epoch != welcome.epoch or welcome.place >= self.memory.geometry.clients:
            raise Malformed("the memory is of another epoch than the worker said")
        self.fence: Fence = client_fence(FenceKind(self.memory.superblock.fence))
        self.reader = ShardReader(self.memory, client=welcome.place, lease_bytes=0, fence=self.fence)
        self.rings = ClientRings(self.memory, welcome.place)
        self.arenas: list[Bytes] = [np.frombuffer(view, dtype=np.uint8) for view in self.memory.arenas]
        self._cold = _pieces(welcome.blobs[1:])

    def is_of(self, welcome: Welcome) -> bool:
        """Whether this is the memory of a later welcome: another store of this epoch lies elsewhere or is cut anew."""
        return welcome == self._welcome

    def place_of(self, slot: int, slot_bytes: int) -> Place:
        return Place(*self.memory.geometry.slot_data(slot, slot_bytes))

    def data(self, hit: Hit) -> memoryview:
        return self.memory.data(hit.slot, hit.slot_bytes, hit.length)

    def warm(self) -> bool:
        """Has the next few MiB of the arenas in this process's page tables, of which a copy would pay for each page.

        False: all are, or the kernel (before 5.14) can't.
        """
        piece = next(self._cold, None)
        if piece is None:
            return False
        number, start, length = piece
        try:
            self._maps[number].madvise(_POPULATE_WRITE, start, length)
        except OSError:
            self._cold = iter(())
        return True

    def close(self) -> None:
        """Unmaps and then frees the lock; nobody may be copying. Where a view is left, the lock stays, as it must."""
        while self.before_unmapping:
            self.before_unmapping.pop()()
        for name in ("memory", "reader", "rings", "arenas", "fence"):
            self.__dict__.pop(name, None)
        for mapped in self._maps:
            try:
                mapped.close()
            except BufferError:
                gc.collect()  # a traceback of an error may hold a frame that holds a view
                try:
                    mapped.close()
                except BufferError:
                    raise StoreError("a view of the store's memory is left, so it stays mapped and locked") from None
        self._maps.clear()
        self._lock.close()

    def _map(self, welcome: Welcome, fds: Sequence[int]) -> list[memoryview]:
        for fd, length in zip(fds, welcome.maps, strict=True):
            if os.fstat(fd).st_size < length:
                raise Malformed(f"a memory of {os.fstat(fd).st_size} bytes came, {length} were announced")
            mapped = mmap.mmap(fd, length)
            self._maps.append(mapped)
            mapped.madvise(mmap.MADV_DONTFORK)
        views = []
        for number, offset, size in welcome.blobs:
            if number >= len(self._maps) or offset + size > welcome.maps[number]:
                raise Malformed("a blob is announced that does not lie in its memory")
            views.append(memoryview(self._maps[number])[offset : offset + size])
        return views


def _pieces(blobs: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """(memory, offset, bytes) of pieces that together cover the blobs, from page to page."""
    for number, offset, size in blobs:
        first = offset // mmap.PAGESIZE * mmap.PAGESIZE
        for start in range(first, offset + size, _WARM_BYTES):
            yield number, start, min(_WARM_BYTES, offset + size - start)
