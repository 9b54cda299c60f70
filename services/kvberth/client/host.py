"""Copies blocks between an engine's arrays in host memory and slots: one call for each run of blocks and region.

A block is one piece of each region, in their order; in a slot the pieces lie one behind the other. numpy lets go of the
interpreter's lock while it copies. Where neither blocks nor slots follow each other at one distance, each piece is one
call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

Array = np.ndarray[Any, Any]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Place(NamedTuple):
    """A slot: the bytes of its arena, and where it begins there."""

    arena: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Run:
    """Blocks whose numbers and whose slots each go on by one step."""

    block: int
    block_step: int
    place: Place
    slot_step: int
    count: int

    def is_one_piece(self, region: Bytes) -> bool:
        """Whether all of it lies in a row, in the region and in the slots: one plain copy."""
        return self.block_step == 1 and region.shape[1] == region.strides[0] == self.slot_step

    @property
    def bytes(self) -> int:
        return self.count * self.slot_step


class HostRegions:
    """An engine's arrays: the first axis counts blocks, and each block's piece lies in a row."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        """Raises ValueError, with what would be right, where blocks do not lie so."""
        if not arrays:
            raise ValueError("a layout has at least one region")
        self.blocks = min(len(array) for array in arrays)
        self._regions = [_rows(number, array) for number, array in enumerate(arrays)]
        self.regions = tuple(region.shape[1] for region in self._regions)
        self.block_bytes = sum(self.regions)

    lingers = False
    """No copy outlives its process."""

    def adopt(self, mapping: object) -> None:
        """Host memory is copied to and from as it is mapped."""

    def prepare(self) -> bool:
        """There is nothing to prepare."""
        return False

    def mark(self) -> None:
        """What an engine wrote into host memory is there."""

    def wait_marked(self) -> None:
        """There is nothing to wait for."""

    def wait_begun(self) -> None:
        """There is nothing to wait for."""

    def check(self, block_ids: Sequence[int]) -> None:
        """Raises IndexError where there is no such block."""
        for block in block_ids:
            if not 0 <= block < self.blocks:
                raise IndexError(f"there is no block {block}, the regions have {self.blocks}")

    def store(self, block_ids: Sequence[int], arenas: Sequence[Bytes], places: Sequence[Place]) -> None:
        """Copies blocks into slots."""
        for engine, slot in self._pairs(block_ids, arenas, places):
            np.copyto(slot, engine)

    def load(self, block_ids: Sequence[int], arenas: Sequence[Bytes], places: Sequence[Place]) -> None:
        """Copies slots into blocks."""
        for engine, slot in self._pairs(block_ids, arenas, places):
            np.copyto(engine, slot)

    def _pairs(
        self, block_ids: Sequence[int], arenas: Sequence[Bytes], places: Sequence[Place]
    ) -> Iterator[tuple[Bytes, Bytes]]:
        """The pieces in the engine and in the slots, of equal shape."""
        for run in _runs(block_ids, places):
            arena, inside, count = arenas[run.place.arena], run.place.offset, run.count
            if count > 1 and len(self._regions) == 1 and run.is_one_piece(self._regions[0]):
                yield self._regions[0][run.block : run.block + count].reshape(-1), arena[inside:][: run.bytes]
                continue
            for region in self._regions:
                size = region.shape[1]
                slot = arena[inside : inside + size]
                engine = region[run.block]
                if count > 1:
                    slot = as_strided(slot, (count, size), (run.slot_step, 1))
                    engine = as_strided(engine, (count, size), (run.block_step * region.strides[0], 1))
                yield engine, slot
                inside += size


class NoRegions(HostRegions):
    """Of a client that copies nothing: there is no block."""

    def __init__(self) -> None:
        self.blocks = self.block_bytes = 0
        self.regions = ()
        self._regions = []


def _rows(number: int, array: Array) -> Bytes:
    if array.ndim < 2 or not array.size or not array[0].flags.c_contiguous:
        raise ValueError(
            f"region {number} of shape {array.shape} and strides {array.strides} should count blocks by its first axis "
            f"and hold each block's bytes in a row"
        )
    items = array[0].size
    flat = as_strided(array, (len(array), items), (array.strides[0], array.itemsize))
    return flat.view(np.uint8)


def _runs(block_ids: Sequence[int], places: Sequence[Place]) -> Iterator[_Run]:
    """Cuts blocks and slots into runs, in order."""
    at, total = 0, len(block_ids)
    while at < total:
        arena, offset = places[at]
        end, block_step, slot_step = at + 1, 0, 0
        if end < total and places[end].arena == arena:
            block_step, slot_step = block_ids[end] - block_ids[at], places[end].offset - offset
        while end < total and block_step and block_ids[end] - block_ids[end - 1] == block_step:
            if places[end].arena != arena or places[end].offset - places[end - 1].offset != slot_step:
                break
            end += 1
        yield _Run(block_ids[at], block_step, places[at], slot_step, end - at)
        at = end
