"""Tensors of torch as an engine's arrays: in host memory by a view; the GPU's back-end as far as it needs no GPU."""

import importlib
import importlib.util
from contextlib import contextmanager

import numpy as np
import pytest

from kvberth.client import captures
from kvberth.client.backends import regions_of
from kvberth.client.captures import RELAXED
from kvberth.client.host import HostRegions, Place
from kvberth.store.errors import CopyFailed

BLOCKS, SLOT = 6, 4096
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture(scope="module")
def torch():
    return importlib.import_module("torch")


def filled(torch, shape, dtype):
    """A tensor of random bytes, whatever its dtype."""
    count = int(np.prod(shape)) * torch.empty(0, dtype=dtype).element_size()
    return torch.from_numpy(np.random.default_rng(5).integers(0, 255, count, np.uint8)).view(dtype).reshape(shape)


def bytes_of(torch, tensor, block):
    return tensor[block].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def paged(torch, dtype):
    """(keys and values, blocks, tokens, heads, size), as paged attention has them."""
    layers = [filled(torch, (2, BLOCKS, 4, 2, 16), dtype) for _ in range(2)]
    return [layer[part] for layer in layers for part in (0, 1)]


def interleaved(torch, dtype):
    """(blocks, keys and values, …): the pieces of two blocks lie apart."""
    whole = filled(torch, (BLOCKS, 2, 4, 32), dtype)
    return [whole[:, 0], whole[:, 1]]


def whole(torch, dtype):
    return [filled(torch, (BLOCKS, 512), dtype)]


@needs_torch
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn", "int8", "uint8", "bool"])
@pytest.mark.parametrize("layout", [whole, paged, interleaved])
def test_every_dtype_is_stored_and_loaded_without_a_copy(torch, layout, dtype):
    kind = getattr(torch, dtype)
    arrays = layout(torch, kind if dtype != "bool" else torch.uint8)
    arrays = [array.view(kind) for array in arrays]
    regions = regions_of(arrays)
    assert isinstance(regions, HostRegions)
    arena = np.zeros(BLOCKS * SLOT, np.uint8)
    places = [Place(0, slot * SLOT) for slot in (4, 0, 2)]
    before = [b"".join(bytes_of(torch, array, block) for array in arrays) for block in (1, 2, 5)]
    regions.store([1, 2, 5], [arena], places)
    assert [arena[at.offset :][: regions.block_bytes].tobytes() for at in places] == before
    regions.load([0, 3, 4], [arena], places)
    assert [b"".join(bytes_of(torch, array, block) for array in arrays) for block in (0, 3, 4)] == before


@needs_torch
def test_a_tensor_and_an_array_may_stand_side_by_side_and_a_gradient_is_passed_over(torch):
    tensor = torch.zeros((BLOCKS, 8), requires_grad=True)
    assert regions_of([tensor, np.zeros((BLOCKS, 3), np.int16)]).regions == (32, 6)


@needs_torch
def test_what_is_no_row_of_blocks_is_refused_with_what_would_be_right(torch):
    for bad in (
        torch.zeros((BLOCKS, 4, 8)).transpose(1, 2),
        torch.zeros(BLOCKS),
        torch.zeros((0, 4)),
        torch.zeros((1, 8)).expand(BLOCKS, 8),
    ):
        with pytest.raises(ValueError, match=r"region 0 of shape .* should count blocks by its first axis"):
            regions_of([bad])


@needs_torch
def test_regions_on_several_devices_or_on_a_strange_one_are_refused(torch):
    on_meta = torch.empty((BLOCKS, 8), device="meta")
    with pytest.raises(ValueError, match="lie on one device, these on cpu, meta"):
        regions_of([on_meta, np.zeros((BLOCKS, 8))])
    with pytest.raises(ValueError, match="in host memory or on a CUDA device, these on meta"):
        regions_of([on_meta])


def test_what_is_neither_an_array_nor_a_tensor_is_refused():
    with pytest.raises(ValueError, match="region 0 is a list, it should be"):
        regions_of([[1, 2]])


class Recorded:
    """Lanes that run at once, and say what was asked of them."""

    def __init__(self, fails=""):
        self.said = []
        self.fails = fails

    def mark(self):
        self.said.append("mark")
        self._fail("mark")

    def wait_marked(self):
        self.said.append("wait_marked")
        self._fail("wait_marked")

    def wait_begun(self):
        self.said.append("wait_begun")
        self._fail("wait_begun")

    @contextmanager
    def out(self):
        self.said.append("out")
        yield
        self._fail("out")
        self.said.append("done")

    @contextmanager
    def into(self):
        self.said.append("into")
        yield
        self._fail("into")
        self.said.append("done")

    def _fail(self, where):
        if where == self.fails:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore lines")


class Mapped:
    """A mapping, as far as a back-end sees it."""

    def __init__(self):
        self.arenas = [np.zeros(BLOCKS * SLOT, np.uint8) for _ in range(2)]
        self.before_unmapping = []


class Pins:
    def __init__(self):
        self.said = []

    def begin(self, ranges):
        self.said.append(("begin", ranges))

    def step(self):
        self.said.append("step")
        return False

    def end(self):
        self.said.append("end")


@pytest.fixture
def on_gpu(torch):
    """The GPU's back-end over host memory: the same plan and the same copies, on lanes of ours."""
    cuda = importlib.import_module("kvberth.client.cuda")

    def make(arrays, lanes=None, pins=None):
        return cuda.CudaRegions(arrays, lanes or Recorded(), pins or Pins())

    return make


@needs_torch
@pytest.mark.parametrize("layout", [whole, paged, interleaved])
def test_the_back_end_of_gpus_moves_the_same_bytes(torch, on_gpu, layout):
    arrays = layout(torch, torch.bfloat16)
    lanes, mapped, other = Recorded(), Mapped(), Mapped()
    regions, host = on_gpu(arrays, lanes), regions_of(arrays)
    assert (regions.blocks, regions.regions, regions.block_bytes) == (host.blocks, host.regions, host.block_bytes)
    places = [Place(1, 3 * SLOT), Place(0, SLOT), Place(0, 2 * SLOT)]
    regions.mark()
    regions.store([4, 1, 2], mapped.arenas, places)
    host.store([4, 1, 2], other.arenas, places)
    assert all((one == two).all() for one, two in zip(mapped.arenas, other.arenas, strict=True))
    before = [bytes_of(torch, array, block) for array in arrays for block in (4, 1, 2)]
    regions.load([0, 3, 5], mapped.arenas, places)
    assert [bytes_of(torch, array, block) for array in arrays for block in (0, 3, 5)] == before
    assert lanes.said == ["mark", "out", "done", "into", "done"]


@needs_torch
def test_no_copy_spans_two_pieces_of_memory_that_are_pinned_apart(torch, on_gpu, monkeypatch):
    cuda = importlib.import_module("kvberth.client.cuda")
    monkeypatch.setattr(cuda, "PIECE_BYTES", 4096)
    arrays, mapped, other = whole(torch, torch.bfloat16), Mapped(), Mapped()
    regions, places = on_gpu(arrays), [Place(1, 1000 + 1024 * at) for at in range(5)]
    spans = [(slot.data_ptr(), len(slot)) for _, slot in regions._pairs(range(5), mapped.arenas, places)]
    assert len(spans) in (2, 3), "blocks that follow each other are one copy for each piece"
    assert all(at // 4096 == (at + size - 1) // 4096 for at, size in spans)
    regions.store(range(5), mapped.arenas, places)
    regions_of(arrays).store(range(5), other.arenas, places)
    assert (mapped.arenas[1] == other.arenas[1]).all()


@needs_torch
def test_tensors_that_were_made_in_inference_mode_are_stored_and_loaded(torch, on_gpu):
    with torch.inference_mode():
        arrays = whole(torch, torch.bfloat16)
        arrays = [array.clone() for array in arrays]
    for regions in (regions_of(arrays), on_gpu(arrays)):
        mapped = Mapped()
        regions.store([1], mapped.arenas, [Place(0, 0)])
        regions.load([2], mapped.arenas, [Place(0, 0)])
        assert bytes_of(torch, arrays[0], 2) == bytes_of(torch, arrays[0], 1)
        regions.store([0], mapped.arenas, [Place(0, 0)])
        regions.load([2], mapped.arenas, [Place(0, 0)])


@needs_torch
def test_arenas_are_pinned_while_idle_and_let_go_before_they_are_unmapped(torch, on_gpu):
    pins, mapped = Pins(), Mapped()
    regions = on_gpu(whole(torch, torch.float16), pins=pins)
    regions.adopt(mapped)
    assert pins.said == [("begin", [(arena.ctypes.data, arena.nbytes) for arena in mapped.arenas])]
    assert not regions.prepare()
    for let_go in mapped.before_unmapping:
        let_go()
    assert pins.said[1:] == ["step", "end"]


@needs_torch
@pytest.mark.parametrize("where", ["mark", "wait_marked", "wait_begun", "out", "into"])
def test_a_device_that_fails_is_one_word_in_one_line(torch, on_gpu, where):
    regions, mapped = on_gpu(whole(torch, torch.float16), Recorded(where)), Mapped()
    steps = {"mark": regions.mark, "out": lambda: regions.store([0], mapped.arenas, [Place(0, 0)])}
    steps |= {"wait_marked": regions.wait_marked, "wait_begun": regions.wait_begun}
    steps["into"] = lambda: regions.load([0], mapped.arenas, [Place(0, 0)])
    with pytest.raises(
        CopyFailed, match=r"copies have failed \(CUDA error: an illegal memory access was encountered\)$"
    ):
        steps[where]()


@needs_torch
def test_a_block_that_is_not_there_is_refused_on_a_gpu_too(torch, on_gpu):
    regions = on_gpu(whole(torch, torch.float16))
    with pytest.raises(IndexError, match="there is no block 6, the regions have 6"):
        regions.check([5, 6])


class Runtime:
    """The CUDA runtime, as far as it is called by its own names; says on which device, and that all went well."""

    def __init__(self, torch, monkeypatch):
        self.device, self.capture_mode, self.said = 0, 0, []
        monkeypatch.setattr(captures, "_exchange", lambda: self._exchange)
        for name, stand_in in {"device": self._on, "cudart": lambda: self, "check_error": self._check}.items():
            monkeypatch.setattr(torch.cuda, name, stand_in)

    def cudaHostRegister(self, address, size, flags):  # noqa: N802 -- the runtime's name
        self.said.append(("register", self.device, self.capture_mode, address, size, flags))
        return 0

    def cudaHostUnregister(self, address):  # noqa: N802 -- the runtime's name
        self.said.append(("unregister", self.device, self.capture_mode, address))
        return 0

    @contextmanager
    def _on(self, device):
        before, self.device = self.device, device.index
        yield
        self.device = before

    def _exchange(self, pointer):
        self.capture_mode, pointer._obj.value = pointer._obj.value, self.capture_mode
        return 0

    def _check(self, code):
        assert code == 0


@needs_torch
def test_memory_is_pinned_on_the_device_of_the_regions_beside_what_the_engine_captures(torch, monkeypatch):
    runtime = Runtime(torch, monkeypatch)
    cuda = importlib.import_module("kvberth.client.cuda")
    pinning = cuda.pinning_on("cuda:3")
    pinning.begin([(0, 4096)])
    assert pinning.step()
    pinning.end()
    assert runtime.said == [("register", 3, RELAXED, 0, 4096, 1), ("unregister", 3, RELAXED, 0)]
    assert (runtime.device, runtime.capture_mode) == (0, 0)
