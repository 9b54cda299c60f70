"""A store's memory on a real vineyardd: made once per incarnation of the daemon, found again by the next worker.

A journal beside the daemon's socket names every blob as soon as the daemon has told its number: what a killed worker
has not finished, its successor deletes. (One blob is lost for this life of the daemon where the kill came between that
answer and the journal: the daemon's memory usage shows it.) Blocks; for a worker's start and for threads, not for a
loop.
"""

import ctypes
import hashlib
import json
import os
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from kvberth.service.lock import DirectoryLock, take
from kvberth.store import locks
from kvberth.store.errors import EpochEnded, Malformed, StoreError, StoreInUse
from kvberth.store.fences import choose_fence
from kvberth.store.layout.geometry import PAGE, Geometry
from kvberth.store.layout.superblock import Checksum, Superblock, decode
from kvberth.store.memory import StoreMemory
from kvberth.vineyard import (
    BlockingClient,
    ConnectionGone,
    ObjectMissing,
    SharedBlob,
    SocketMissing,
    SocketStale,
    StandingQuestion,
)

_WORD = 8
_POPULATE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _Journal:
    """What the journal says: whose blobs these are, the index blob first, and whether the store became ready."""

    epoch: str
    blobs: tuple[int, ...] = ()
    ready: bool = False


class VineyardMemory:
    """The blobs of one store, mapped by this process; `memory` is what the store works on."""

    def __init__(
        self, client: BlockingClient, blobs: Sequence[int], memory: StoreMemory, *, made: bool,
        lock: BinaryIO | None = None,
    ) -> None:  # fmt: skip
        """For `open` and `attach`. `made`: the store is new, else an earlier worker's. `lock`: it may be written."""
        self._client = client
        self._lock = lock
        self._blobs = blobs
        self._epoch = memory.superblock.epoch
        self._left = False
        self.memory = memory
        self.made = made

    @classmethod
    def open(
        cls, socket: Path, journal: Path, geometry: Geometry, checksum: Checksum = Checksum.XXH3_64, *,
        timeout_s: float = 1.0,
    ) -> Self:  # fmt: skip
        """Finds the store of this daemon's life, or makes one of these sizes, for its one writer.

        A store of other sizes, one that has ended though its daemon lives, or one that was never finished is deleted
        first: its blocks are gone. Raises StoreError (StoreInUse where clients map what must be deleted), a
        VineyardError, HeldError where another writer lives.
        """
        geometry.check()
        with ExitStack() as held:
            lock = held.enter_context(take(_writer_lock(journal)))
            client = held.enter_context(BlockingClient.connect(socket, timeout_s=timeout_s))
            epoch = epoch_of(client.status(timeout_s=timeout_s).deployment)
            memory = _find(client, journal, epoch, geometry, checksum, timeout_s)
            made = memory is None
            if memory is None:
                memory = _make(client, journal, epoch, geometry, checksum, timeout_s)
            held.pop_all()
            return cls(client, _ready_blobs(journal, epoch), memory, made=made, lock=lock)

    @property
    def blob_bytes(self) -> int:
        """What the daemon's own memory usage must hold for this store."""
        geometry = self.memory.geometry
        return geometry.index_bytes + geometry.arenas * geometry.arena_bytes

    def share(self, *, timeout_s: float = 1.0) -> list[SharedBlob]:
        """Where the index blob and each arena lie, for a client to map; the descriptors are the caller's to close.

        Raises a VineyardError.
        """
        shared: list[SharedBlob] = []
        try:
            for blob in self._blobs:
                shared.append(self._client.share(blob, timeout_s=timeout_s))  # noqa: PERF401 -- to close what is open
        except BaseException:
            for each in shared:
                os.close(each.fd)
            raise
        return shared

    def check(self, *, timeout_s: float = 1.0) -> None:
        """Asks the daemon whether it is still the one whose memory this is: what every receipt must wait for.

        Raises EpochEnded where it is gone or another one answers, and says so in the memory; DaemonHung where it does
        not answer in time, ConnectionGone after `close`: then nobody knows, and nothing may be promised. That a
        connection has ended proves nothing yet: the daemon is asked once more, on a new one.
        """
        until = time.monotonic() + timeout_s
        try:
            same = self._same(until)
        except (ConnectionGone, SocketMissing, SocketStale):
            if self._left:
                raise
            same = self._same_on_a_new_connection(until)
        if not same:
            self.memory.end_epoch()
            raise EpochEnded("another daemon answers in the place of the one whose memory this is")

    def question(self, *, timeout_s: float = 1.0) -> StandingQuestion:
        """A connection on which the daemon of this memory can be asked without waiting; the caller's to close.

        Raises a VineyardError, EpochEnded where another daemon answers, and says that in the memory, as `check` does.
        """
        question = StandingQuestion.open(self._client.path, timeout_s=timeout_s)
        if not self._is_own(question.deployment):
            question.close()
            self.memory.end_epoch()
            raise EpochEnded("another daemon answers in the place of the one whose memory this is")
        return question

    def _same_on_a_new_connection(self, until: float) -> bool:
        try:
            return self._same(until)
        except (ConnectionGone, SocketMissing, SocketStale) as error:
            if self._left:
                raise
            self.memory.end_epoch()
            raise EpochEnded(f"the daemon of this store is gone: {error}") from None

    def _same(self, until: float) -> bool:
        """Whether the daemon that answers is this memory's."""
        client = self._connected(until - time.monotonic())
        return self._is_own(client.status(timeout_s=until - time.monotonic()).deployment)

    def _is_own(self, deployment: str) -> bool:
        """Whether this memory is of that life of a daemon; one without an id of its own life has no memory."""
        try:
            return epoch_of(deployment) == self._epoch
        except StoreError:
            return False

    def _connected(self, timeout_s: float) -> BlockingClient:
        """The connection; a new one after a question that was given up, for which this side ended the old one.

        The memory stays: what is mapped is so for as long as somebody looks at it.
        """
        if self._client.closed and not self._left:
            ended, self._client = self._client, BlockingClient.connect(self._client.path, timeout_s=timeout_s)
            ended.close()
            if self._left:  # meanwhile, by another thread
                self._client.close()
        return self._client

    def close(self) -> None:
        """Leaves the daemon. The mappings end when nobody looks at the memory any more; the store stays."""
        self._left = True
        self._client.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def attach(socket: Path, journal: Path, *, writable: bool = False, timeout_s: float = 1.0) -> VineyardMemory:
    """Maps the store of another process, by default read-only; raises StoreError, a VineyardError."""
    client = BlockingClient.connect(socket, timeout_s=timeout_s)
    try:
        epoch = epoch_of(client.status(timeout_s=timeout_s).deployment)
        blobs = _ready_blobs(journal, epoch)
        views = [client.get(blob, writable=writable, timeout_s=timeout_s) for blob in blobs]
        memory = StoreMemory.open(views[0], tuple(views[1:]))
        return VineyardMemory(client, blobs, memory, made=False)
    except BaseException:
        client.close()
        raise


def _ready_blobs(journal: Path, epoch: bytes) -> tuple[int, ...]:
    said = _read(journal)
    if said is None or said.epoch != epoch.hex() or not said.ready:
        raise StoreError(f"{journal}: the daemon that lives now has no store that is ready")
    return said.blobs


def _writer_lock(journal: Path) -> DirectoryLock:
    return DirectoryLock(
        journal.with_suffix(".lock"), "writer of the block store", "a store has one writer, end that one first"
    )


def epoch_at(socket: Path, *, timeout_s: float = 1.0) -> bytes:
    """The epoch of the daemon that answers there; raises StoreError, a VineyardError. Nothing is mapped."""
    with BlockingClient.connect(socket, timeout_s=timeout_s) as client:
        return epoch_of(client.status(timeout_s=timeout_s).deployment)


def epoch_of(incarnation: str) -> bytes:
    """The epoch of a daemon's life, by the id that it was started with; raises StoreError where it has none."""
    if incarnation in ("", "local"):
        raise StoreError("this vineyardd was started without an id of its own life: its store could not be told apart")
    with suppress(ValueError):
        return uuid.UUID(incarnation).bytes
    return hashlib.sha256(incarnation.encode()).digest()[:16]


def _find(
    client: BlockingClient, journal: Path, epoch: bytes, geometry: Geometry, checksum: Checksum, timeout_s: float
) -> StoreMemory | None:
    said = _read(journal)
    if said is None or said.epoch != epoch.hex():
        return None  # blobs of another life are gone with it
    if said.ready:
        with suppress(Malformed, ObjectMissing):
            views = [client.get(blob, writable=True, timeout_s=timeout_s) for blob in said.blobs]
            block = decode(views[0])
            if (block.epoch, block.geometry, block.checksum) == (epoch, geometry, checksum):
                memory = StoreMemory.open(views[0], tuple(views[1:]))
                if not memory.ended:
                    return memory
        in_use = locks.own_held(Path(client.path).parent, epoch)
        if in_use:
            raise StoreInUse(in_use)
    client.delete(said.blobs, timeout_s=timeout_s)
    return None


def _make(
    client: BlockingClient, journal: Path, epoch: bytes, geometry: Geometry, checksum: Checksum, timeout_s: float
) -> StoreMemory:
    blobs: list[int] = []
    views: list[memoryview] = []
    for size in (geometry.index_bytes, *[geometry.arena_bytes] * geometry.arenas):
        blob = client.create(size, timeout_s=timeout_s)
        blobs.append(blob.object_id)
        _write(journal, _Journal(epoch.hex(), tuple(blobs)))
        views.append(_aligned(blob.buffer))
        _populate(views[-1])
    block = Superblock(epoch, tuple(blobs[1:]), geometry, checksum, choose_fence())
    memory = StoreMemory.format(block, views[0], tuple(views[1:]))
    for each in blobs:
        client.seal(each, timeout_s=timeout_s)
    _write(journal, _Journal(epoch.hex(), tuple(blobs), ready=True))
    return memory


def _aligned(view: memoryview) -> memoryview:
    """Raises StoreError where words would not be aligned: nothing that this store relies upon would hold."""
    # The mapping itself begins at a page, so that the address says how the blob lies in it.
    address = ctypes.addressof(ctypes.c_char.from_buffer(view))
    if address % _WORD:
        raise StoreError(f"the daemon placed a blob at an address that is no multiple of {_WORD}")
    return view


def _populate(view: memoryview) -> None:
    """Writes to each page once, so that all of this memory is this process's, and no later copy pays for it."""
    for start in range(0, len(view), _POPULATE_BYTES):
        part = view[start : start + _POPULATE_BYTES : PAGE]
        part[:] = bytes(len(part))


def _read(journal: Path) -> _Journal | None:
    """Returns what the journal says; None: there is none, or it cannot be read."""
    try:
        said = json.loads(journal.read_text(encoding="utf-8"))
        blobs = said["blobs"]
        if all(isinstance(blob, int) and 0 <= blob < 1 << 64 for blob in blobs):
            return _Journal(str(said["epoch"]), tuple(blobs), said["ready"] is True and bool(blobs))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return None


def _write(journal: Path, said: _Journal) -> None:
    """Replaces the journal at once."""
    new = journal.with_suffix(".new")
    blobs: Sequence[int] = said.blobs
    with new.open("w", encoding="utf-8") as file:
        json.dump({"epoch": said.epoch, "blobs": list(blobs), "ready": said.ready}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(journal)
