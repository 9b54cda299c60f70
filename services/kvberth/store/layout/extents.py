"""The record of an extent: to which layout it is lent and how it is cut; a word of layout 0 lends it to nobody."""

import struct
from dataclasses import dataclass

from kvberth.store.errors import Malformed
from kvberth.store.layout.geometry import PAGE, Geometry

# Offsets of the words, in words.
SLOT_BYTES, COUNT, SEQUENCE, LAYOUT = 0, 1, 2, 3

_RECORD = struct.Struct("=QQQQ")


@dataclass(frozen=True, slots=True)
class ExtentRecord:
    """How one extent is used; `sequence` counts how often it was lent."""

    slot_bytes: int
    count: int
    sequence: int
    layout: int


def encode(record: ExtentRecord) -> bytes:
    return _RECORD.pack(record.slot_bytes, record.count, record.sequence, record.layout)


def decode(data: bytes | memoryview, offset: int, geometry: Geometry) -> ExtentRecord:
    """Reads a record; raises Malformed where an extent of this store cannot be cut like that."""
    record = ExtentRecord(*_RECORD.unpack_from(data, offset))
    if record.layout == 0:
        return record
    cut = record.slot_bytes
    fits = PAGE <= cut <= geometry.extent_bytes and cut % PAGE == 0
    if not fits or record.count != len(geometry.slots_of(0, cut)):
        raise Malformed(f"an extent is cut into {record.count} slots of {cut} bytes, which this store never does")
    return record
