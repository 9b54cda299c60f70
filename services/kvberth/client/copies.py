"""The plan of copies between blocks in regions and slots in arenas: which bytes go where, in as few pieces as can be.

Pure: knows no device. A block is one piece of each region, in their order; in a slot the pieces lie one behind the
other.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvberth.client.host import Place


class Piece(NamedTuple):
    """Bytes that lie in a row on both sides. `start` counts from the region's first byte, `offset` from the arena's."""

    region: int
    start: int
    arena: int
    offset: int
    bytes: int


class Shape(NamedTuple):
    """A region: bytes of a block's piece in it, and from one block's to the next one's."""

    bytes: int
    stride: int


def pieces(regions: Sequence[Shape], blocks: Sequence[int], places: Sequence[Place]) -> list[Piece]:
    """Every byte of the blocks once; pieces that go on where the one before ends, on both sides, are one."""
    found: list[Piece] = []
    for piece in _single(regions, blocks, places):
        if found and _goes_on(found[-1], piece):
            found[-1] = found[-1]._replace(bytes=found[-1].bytes + piece.bytes)
        else:
            found.append(piece)
    return found


def _single(regions: Sequence[Shape], blocks: Sequence[int], places: Sequence[Place]) -> Iterator[Piece]:
    for block, place in zip(blocks, places, strict=True):
        inside = place.offset
        for number, region in enumerate(regions):
            yield Piece(number, block * region.stride, place.arena, inside, region.bytes)
            inside += region.bytes


def _goes_on(last: Piece, piece: Piece) -> bool:
    return (last.region, last.arena, last.start + last.bytes, last.offset + last.bytes) == (
        piece.region, piece.arena, piece.start, piece.offset,
    )  # fmt: skip


def parts(address: int, total: int, unit: int) -> Iterator[tuple[int, int]]:
    """(start, length) of parts that together are the `total` bytes from there on; each ends at a multiple of `unit`."""
    start = 0
    while start < total:
        length = min(unit - (address + start) % unit, total - start)
        yield start, length
        start += length
