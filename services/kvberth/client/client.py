"""The public face of the engine half: registers an engine; offload, lookup, load, release, reset.

Whatever fails on the other side is no cache, never an error: `offload` drops with a reason, `lookup` finds nothing,
`load` loads nothing. Only wrong arguments raise. Any thread of the engine may call.
"""

import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Facts
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Self

from kvberth.client.backends import regions_of
from kvberth.client.desk import Desk
from kvberth.client.half import GROUP_BYTES, EngineHalf
from kvberth.client.host import NoRegions
from kvberth.client.keys import Namespace, fingerprint_of
from kvberth.client.link import Identity
from kvberth.client.mapping import Mapping
from kvberth.client.parts import Parts
from kvberth.client.tensors import Array
from kvberth.client.tickets import Ticket
from kvberth.store.checksums import checksum
from kvberth.store.control import layout_of
from kvberth.store.errors import CopyFailed, EpochEnded
from kvberth.store.layout.rings import Outcome
from kvberth.store.reader import Hit
from kvberth.store.shards import Part

_CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class Found:
    """A leading run of blocks that are there and leased: load them soon, then release them."""

    hits: tuple[Hit, ...] = ()
    """What is leased, block by block."""
    serial: int = 0
    shards: int = 1
    """How many of the hits are one block."""
    epoch: bytes = b""

    def __len__(self) -> int:
        return len(self.hits) // self.shards

    @property
    def parts(self) -> Parts:
        """What other processes of the engine need to `lease` these blocks, before they are released here."""
        if not self.hits:
            return Parts(shards=self.shards)
        return Parts(self.epoch, self.shards, tuple((hit.slot, hit.generation) for hit in self.hits))


class Client:
    """An engine's side of one cache. It connects in the background and for ever: start order does not matter."""

    def __init__(
        self,
        directory: str | Path,
        regions: Sequence[Array],
        fingerprint: Facts[str, str | int],
        *,
        shard: int = 0,
        shards: int = 1,
        governed: bool = True,
    ) -> None:
        """Registers an engine, in the background.

        `directory` is the cache's: what the engine has mounted, with `kvberth.sock` in it. `regions` are arrays of
        numpy or torch tensors, in host memory or on one GPU, that count blocks by their first axis; a block is its
        piece of each of them. `fingerprint` names all that its bytes depend on (weights, dtype, layout, …). Not
        `governed`: blocks are stored also where that takes longer than it saves. Raises ValueError where blocks do not
        lie so.

        Where an engine's blocks are spread over ranks (tensor or pipeline parallel) each rank has a client, which says
        which of how many shards its regions hold; regions may differ from rank to rank. A block is found when all ranks
        have stored theirs, so that none is shed by one rank alone. A client without regions is such an engine's
        scheduler: it looks up for the ranks.
        """
        if not 0 <= shard < shards:
            raise ValueError(f"of {shards} shards none has number {shard}")
        if not len(regions) and shards == 1:
            raise ValueError("a layout has at least one region; only the scheduler of several shards has none")
        self._part = Part(shard, shards)
        self._regions = regions_of(regions) if len(regions) else NoRegions()
        self._fingerprint = fingerprint_of(fingerprint)
        self._layout = layout_of(self._fingerprint, self._regions.regions)
        self._names = Namespace(self._fingerprint, self._regions.regions, shards=shards)
        self._desk = Desk(governed=governed and shards == 1)
        self._read_lock = threading.Lock()
        self._checksums = ThreadPoolExecutor(1, "kvberth checksums")
        who = Identity(
            Path(directory),
            secrets.token_bytes(16),
            self._fingerprint,
            self._regions.regions,
            self._part,
            self._regions.lingers,
        )
        self.id = who.client.hex()
        """By this name the worker and the lock's file know it."""
        self._half = EngineHalf(who, self._regions, self._desk)
        self._in_child = False
        _living.add(self)
        self._half.start()

    @property
    def why(self) -> str | None:
        """Why there is no cache at this moment; None: there is one."""
        return "a forked child has no cache" if self._in_child else self._half.why

    @property
    def why_shed(self) -> str | None:
        """Why blocks are not stored although there is a cache: it would take longer than it saves; None: they are."""
        with self._desk.changed:
            return self._desk.governor.why

    def computed(self, blocks: int, seconds: float) -> None:
        """Tells what it costs to compute blocks, again and again as it is measured: before, none is shed."""
        with self._desk.changed:
            self._desk.governor.computed(blocks, seconds)

    def wait_connected(self, timeout_s: float) -> bool:
        """Waits until there is a cache that lets blocks in, or a scheduler look up; False: not yet, see `why`."""
        until = time.monotonic() + timeout_s
        with self._desk.changed:
            while self.why is not None or not self._served():
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._desk.changed.wait(min(left, 0.05))
        return True

    def offload(
        self, keys: Sequence[bytes], blocks: Sequence[int], *, priority: int = 0, within_s: float = 30.0
    ) -> Ticket:
        """Has blocks stored under keys of 32 bytes; returns at once. Leave them alone until the ticket is released.

        What can't be taken in is dropped with a reason; what has not begun within `within_s` seconds, too. Raises
        ValueError and IndexError for what is no key or no block, or not one block for each key: then nothing is stored.
        """
        if len(keys) != len(blocks):
            raise ValueError(f"each key names one block; here are {len(keys)} keys and {len(blocks)} blocks")
        self._regions.check(blocks)
        stored = [self._names.stored(key) for key in keys]
        self._copying(self._regions.mark)
        return self._desk.offer(stored, blocks, priority, int(within_s * 1e9))

    def lookup(self, keys: Sequence[bytes]) -> Found:
        """Leases the leading run of these blocks that is there: up to the first miss, 2 ms, or the bound of leases."""
        stored = [self._names.stored(key) for key in keys]  # what raises, raises before anything of the store is in use
        with self._desk.using() as (mapping, serial):
            if mapping is None:
                return Found(shards=self._part.shards)
            with self._read_lock:
                mapping.reader.forget_ended()
                try:
                    if self._part.shards == 1:
                        hits = mapping.reader.lookup(stored)
                    else:
                        own = self._layout if self._regions.regions else 0
                        hits = mapping.reader.lookup_blocks(stored, self._part, own)
                except EpochEnded:
                    return Found(shards=self._part.shards)
                self._desk.write_leased(mapping)
                epoch = mapping.epoch
        return Found(tuple(hits), serial, self._part.shards, epoch)

    def lease(self, parts: Parts) -> Found:
        """Leases this rank's shard of what another process of its engine has found and leased: `Found.parts` of it.

        Of the leading run that is there still; `load` and `release` it. Raises ValueError where the other one's blocks
        have another number of shards.
        """
        if parts.shards != self._part.shards:
            raise ValueError(f"blocks of {parts.shards} shards were found, this client's have {self._part.shards}")
        with self._desk.using() as (mapping, serial):
            if mapping is None or mapping.epoch != parts.epoch:
                return Found()
            with self._read_lock:
                mapping.reader.forget_ended()
                try:
                    hits = mapping.reader.lease_shard(parts.of(self._part.shard), self._part, self._layout)
                except EpochEnded:
                    return Found()
                self._desk.write_leased(mapping)
        return Found(tuple(hits), serial)

    def load(self, found: Found, blocks: Sequence[int]) -> int:
        """Copies what was found into the engine's blocks; returns how many of the leading ones are right.

        What lies in the others means nothing. The leases stay: `release` them.
        """
        blocks = list(blocks)[: len(found)]
        self._regions.check(blocks)
        with self._desk.using() as (mapping, serial), self._desk.load_running():
            if mapping is None or serial != found.serial or not blocks:
                return 0
            if not self._copying(self._regions.wait_begun):
                return 0
            right = 0
            begin = time.perf_counter()
            own = found.hits if found.shards == 1 else found.hits[self._part.shard :: found.shards]
            size = max(1, GROUP_BYTES // max(1, self._regions.block_bytes))
            for start in range(0, len(blocks), size):
                hits = own[start : start + size]
                good = self._load(mapping, hits, blocks[start : start + size])
                right += good
                if good < len(hits):
                    break
            took = time.perf_counter() - begin
        with self._desk.changed:
            self._desk.governor.loaded(right, took)
        return right

    def release(self, found: Found) -> None:
        """Ends the leases; twice is no error."""
        with self._desk.using() as (mapping, serial):
            if mapping is not None and serial == found.serial:
                with self._read_lock:
                    for hit in found.hits:
                        mapping.reader.release(hit)
                    self._desk.write_leased(mapping)

    def reset(self, word: bytes | None = None) -> bytes:
        """Nothing that was stored before is found again by this client: for an engine whose weights have changed.

        Returns the word under which it stores from now on, which the engine's other clients are to be reset with.
        """
        word = secrets.token_bytes(16) if word is None else word
        self._names = Namespace(self._fingerprint, self._regions.regions, word, self._part.shards)
        return word

    def counts(self) -> tuple[int, dict[Outcome, int]]:
        """Blocks ever offered, and what became of them; the rest is under way."""
        with self._desk.changed:
            return self._desk.admitted, dict(self._desk.outcomes)

    def close(self) -> None:
        """Drops what waits, unmaps and leaves."""
        if self._in_child:
            return
        self._half.close(_CLOSE_S)
        self._checksums.shutdown()
        _living.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _served(self) -> bool:
        return self._desk.refusal() is None if self._regions.regions else self._desk.may_lease()

    def _load(self, mapping: Mapping, hits: Sequence[Hit], blocks: Sequence[int]) -> int:
        """One group: copied here, its checksums computed beside it, both before the last look at the generations."""
        hits = list(takewhile(lambda hit: hit.length == self._regions.block_bytes, hits))
        beside = self._checksums.submit(_intact, mapping, hits) if mapping.memory.superblock.checksum else None
        places = [mapping.place_of(hit.slot, hit.slot_bytes) for hit in hits]
        copied = self._copying(partial(self._regions.load, blocks[: len(hits)], mapping.arenas, places))
        right = len(hits) if beside is None else beside.result()
        return mapping.reader.still_leading(hits[: right if copied else 0])

    def _copying(self, step: Callable[[], None]) -> bool:
        """Whether it was done: where the device fails there is no cache any more, which is no error of the engine's."""
        if self._in_child:
            return False
        try:
            step()
        except CopyFailed as error:
            self._half.give_up(str(error))  # words only: the error's frames hold views of what is to be unmapped
            return False
        return True

    def _leave_in_child(self) -> None:
        """A forked child has no cache: its thread is not there, and the memory is not mapped."""
        mapping = self._desk.mapping
        self._desk.take_bell()
        self._desk, self._in_child = Desk(), True
        if mapping is not None:
            _left_in_child.append(mapping)  # never ended: its addresses may be somebody else's here


def _intact(mapping: Mapping, hits: Sequence[Hit]) -> int:
    """How many of the leading blocks have the bytes that their checksums tell."""
    kind = mapping.memory.superblock.checksum
    return sum(1 for _ in takewhile(lambda hit: checksum(kind, mapping.data(hit)) == hit.checksum, hits))


_living: "weakref.WeakSet[Client]" = weakref.WeakSet()
_left_in_child: list[Mapping] = []


def _after_fork() -> None:
    for client in list(_living):
        client._leave_in_child()  # noqa: SLF001 -- a part of this module


os.register_at_fork(after_in_child=_after_fork)
