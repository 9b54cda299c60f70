"""Copies blocks between an engine's tensors on a GPU and slots: asynchronous copies on streams of their own.

The one module here that imports torch, and only a client whose regions lie on a GPU imports it. A copy is done when the
event behind it has been reached, which the calling thread waits for, asleep. What the engine had begun on its streams
before it offered or asked for blocks comes first, and is waited for apart: it is no part of what a copy takes.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch

from kvberth.client.captures import beside_captures
from kvberth.client.copies import Shape, parts, pieces
from kvberth.client.host import Bytes, Place
from kvberth.client.mapping import Mapping
from kvberth.client.pinning import PIECE_BYTES, Pinning
from kvberth.client.tensors import Tensor, in_rows
from kvberth.store.errors import CopyFailed

_PORTABLE = 1
"""cudaHostRegisterPortable: pinned for every context of the process."""


class Lanes(Protocol):
    """In which order copies run, and when they are done."""

    def mark(self) -> None:
        """What the calling thread's stream has begun is what `wait_marked` waits for."""

    def wait_marked(self) -> None:
        """Returns when all that was marked is done."""

    def wait_begun(self) -> None:
        """Returns when what the calling thread's stream has begun is done."""

    def out(self) -> AbstractContextManager[None]:
        """A block of copies out of the regions; left when all are done."""

    def into(self) -> AbstractContextManager[None]:
        """A block of copies into them, after what the calling thread's stream has begun; left when all are done."""


class Streams:
    """A stream for each direction, of the least priority: the engine's own work goes before."""

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        with torch.cuda.device(self._device):
            self._out, self._into = torch.cuda.Stream(priority=0), torch.cuda.Stream(priority=0)
        self._marks: dict[int, torch.cuda.Event] = {}

    def mark(self) -> None:
        stream = torch.cuda.current_stream(self._device)
        self._marks[stream.stream_id] = stream.record_event(torch.cuda.Event(blocking=True))

    def wait_marked(self) -> None:
        with beside_captures():
            for mark in list(self._marks.values()):
                mark.synchronize()

    def wait_begun(self) -> None:
        begun = torch.cuda.Event(blocking=True)
        with beside_captures():
            begun.record(torch.cuda.current_stream(self._device))
            begun.synchronize()

    @contextmanager
    def out(self) -> Iterator[None]:
        with self._on(self._out):
            yield

    @contextmanager
    def into(self) -> Iterator[None]:
        self._into.wait_stream(torch.cuda.current_stream(self._device))
        with self._on(self._into):
            yield

    @contextmanager
    def _on(self, stream: torch.cuda.Stream) -> Iterator[None]:
        done = torch.cuda.Event(blocking=True)
        with beside_captures(), torch.cuda.device(self._device), torch.cuda.stream(stream):
            try:
                yield
            finally:  # also after a failure: what was begun must have ended before anything is unmapped
                done.record(stream)
                done.synchronize()


class CudaRegions:
    """An engine's tensors on one GPU: see `Regions`. The arenas are pinned piece by piece."""

    lingers = True
    """A copy may go on for a moment when its process is dead."""

    def __init__(self, arrays: Sequence[Tensor], lanes: Lanes, pinning: Pinning) -> None:
        """Raises ValueError, with what would be right, where blocks do not lie in a row."""
        tensors = [in_rows(number, array) for number, array in enumerate(arrays)]
        if not tensors:
            raise ValueError("a layout has at least one region")
        self.blocks = min(len(tensor) for tensor in tensors)
        self._shapes = [_shape(tensor) for tensor in tensors]
        self._bytes = [_flat(tensor) for tensor in tensors]
        self.regions = tuple(shape.bytes for shape in self._shapes)
        self.block_bytes = sum(self.regions)
        self._lanes = lanes
        self._pinning = pinning

    @classmethod
    def of(cls, arrays: Sequence[Tensor], device: str) -> "CudaRegions":
        """With the streams of a real device."""
        return cls(arrays, Streams(device), pinning_on(device))

    def check(self, block_ids: Sequence[int]) -> None:
        """Raises IndexError where there is no such block."""
        for block in block_ids:
            if not 0 <= block < self.blocks:
                raise IndexError(f"there is no block {block}, the regions have {self.blocks}")

    def adopt(self, mapping: Mapping) -> None:
        """Pins its arenas in the background, and lets go of them before they are unmapped."""
        self._pinning.begin([(arena.ctypes.data, arena.nbytes) for arena in mapping.arenas])
        mapping.before_unmapping.append(self._pinning.end)

    def prepare(self) -> bool:
        """Pins a piece more."""
        return self._pinning.step()

    def mark(self) -> None:
        """Blocks are being offered that the engine may still be computing. Raises CopyFailed."""
        with _failing():
            self._lanes.mark()

    def wait_marked(self) -> None:
        """Returns when the engine has computed what it marked; raises CopyFailed."""
        with _failing():
            self._lanes.wait_marked()

    def wait_begun(self) -> None:
        """Returns when what the calling thread's stream has begun is done; raises CopyFailed."""
        with _failing():
            self._lanes.wait_begun()

    def store(self, block_ids: Sequence[int], arenas: Sequence[Bytes], places: Sequence[Place]) -> None:
        """Copies blocks into slots, after `wait_marked`; raises CopyFailed."""
        with _failing(), self._lanes.out():
            for inside, slot in self._pairs(block_ids, arenas, places):
                slot.copy_(inside, non_blocking=True)

    def load(self, block_ids: Sequence[int], arenas: Sequence[Bytes], places: Sequence[Place]) -> None:
        """Copies slots into blocks; raises CopyFailed."""
        with _failing(), self._lanes.into():
            for inside, slot in self._pairs(block_ids, arenas, places):
                inside.copy_(slot, non_blocking=True)

    def _pairs(
        self, block_ids: Sequence[int], arenas: Sequence[Bytes], places: Sequence[Place]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The pieces in the regions and in the slots. No view of an arena outlives the call."""
        hosts = {place.arena: torch.from_numpy(arenas[place.arena]) for place in places}
        for piece in pieces(self._shapes, block_ids, places):
            region, host = self._bytes[piece.region], hosts[piece.arena]
            for start, size in parts(host.data_ptr() + piece.offset, piece.bytes, PIECE_BYTES):
                inside, slot = piece.start + start, piece.offset + start
                yield region[inside : inside + size], host[slot : slot + size]


def _shape(tensor: torch.Tensor) -> Shape:
    size = tensor.element_size()
    return Shape(tensor[0].numel() * size, tensor.stride(0) * size)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """All bytes from the first block's first one to the last block's last one."""
    items = (len(tensor) - 1) * tensor.stride(0) + tensor[0].numel()
    return tensor.as_strided((items,), (1,)).view(torch.uint8)


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise CopyFailed(f"the GPU's copies have failed ({str(error).splitlines()[0]})") from None


def pinning_on(device: str) -> Pinning:
    """By a real device, which is not the client's thread's own: else each rank would have a context on GPU 0."""
    on = torch.device(device)

    def register(address: int, size: int) -> None:
        with _failing(), beside_captures(), torch.cuda.device(on):
            torch.cuda.check_error(int(torch.cuda.cudart().cudaHostRegister(address, size, _PORTABLE)))

    def unregister(address: int) -> None:
        with _failing(), beside_captures(), torch.cuda.device(on):
            torch.cuda.check_error(int(torch.cuda.cudart().cudaHostUnregister(address)))

    return Pinning(register, unregister)
