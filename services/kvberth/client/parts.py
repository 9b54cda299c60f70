"""What one process has found, in a form that travels to those that load it: slots and generations, nothing else. Pure.

An engine's scheduler looks up and leases, its ranks load: each leases its own shard by these numbers before the
scheduler lets go. A number that is stale leads to nothing, since a slot's generation never comes again in an epoch.
"""

import struct
from dataclasses import dataclass
from typing import Self

_HEAD = struct.Struct("=16sII")
_PLACE = struct.Struct("=QQ")
_EPOCH_BYTES = 16


@dataclass(frozen=True, slots=True)
class Parts:
    """A run of blocks by their places; it can be pickled, and `bytes` of it can be read by `from_bytes`."""

    epoch: bytes = bytes(_EPOCH_BYTES)
    shards: int = 1
    places: tuple[tuple[int, int], ...] = ()
    """(slot, generation) of each shard of each block, block by block."""

    def __len__(self) -> int:
        return len(self.places) // self.shards

    def of(self, shard: int) -> tuple[tuple[int, int], ...]:
        """The places of one shard, block by block."""
        return self.places[shard :: self.shards]

    def __bytes__(self) -> bytes:
        head = _HEAD.pack(self.epoch, self.shards, len(self.places))
        return head + b"".join(_PLACE.pack(*place) for place in self.places)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Reads what `bytes` gave; raises ValueError where it can't have."""
        if len(data) < _HEAD.size:
            raise ValueError(f"parts have {_HEAD.size} bytes at least, these {len(data)}")
        epoch, shards, count = _HEAD.unpack_from(data)
        if not shards or count % shards or len(data) != _HEAD.size + count * _PLACE.size:
            raise ValueError(f"{len(data)} bytes are not {count} places of blocks of {shards} shards")
        return cls(epoch, shards, tuple(_PLACE.iter_unpack(data[_HEAD.size :])))
