"""Chooses how blocks are copied by where an engine's arrays lie: in host memory, or on one GPU."""

from collections.abc import Sequence
from typing import Protocol

from kvberth.client.host import Bytes, HostRegions, Place
from kvberth.client.mapping import Mapping
from kvberth.client.tensors import Array, device_of, in_host, is_tensor


class Regions(Protocol):
    """`store` and `load` return when every byte is copied; they and the waits raise CopyFailed where a device fails."""

    @property
    def blocks(self) -> int:
        """How many blocks there are."""

    @property
    def regions(self) -> tuple[int, ...]:
        """Bytes of a block's piece in each region."""

    @property
    def block_bytes(self) -> int:
        """Their sum."""

    @property
    def lingers(self) -> bool:
        """Whether a copy may go on for a moment when its process is dead."""

    def check(self, block_ids: Sequence[int]) -> None:
        """Raises IndexError where there is no such block."""

    def adopt(self, mapping: Mapping) -> None:
        """Takes what is mapped anew."""

    def prepare(self) -> bool:
        """Makes a little more of it ready for fast copies, while nothing else is to do; False: all is."""

    def mark(self) -> None:
        """Blocks are about to be offered that the engine may still be computing; returns at once."""

    def wait_marked(self) -> None:
        """Returns when the engine has computed what it marked: before `store`, and no part of what storing takes."""

    def wait_begun(self) -> None:
        """Returns when what the calling thread has begun is done: no part of what the `load` that follows takes."""

    def store(self, block_ids: Sequence[int], arenas: Sequence[Bytes], places: Sequence[Place]) -> None:
        """Copies blocks into slots."""

    def load(self, block_ids: Sequence[int], arenas: Sequence[Bytes], places: Sequence[Place]) -> None:
        """Copies slots into blocks."""


def regions_of(arrays: Sequence[Array]) -> Regions:
    """What copies these arrays' blocks; raises ValueError, with what would be right, where nothing can."""
    device = device_of(arrays)
    if device == "cpu":
        return HostRegions([in_host(number, array) for number, array in enumerate(arrays)])
    if not device.startswith("cuda"):
        raise ValueError(f"the regions of a layout lie in host memory or on a CUDA device, these on {device}")
    from kvberth.client.cuda import CudaRegions  # torch is imported only where it is needed, and so is there

    return CudaRegions.of([array for array in arrays if is_tensor(array)], device)
