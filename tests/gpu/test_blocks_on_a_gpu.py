"""Blocks of tensors on a GPU, through a real vineyardd and worker: every byte compared, and what the engine computes.

They need a CUDA device and torch: `make test-gpu`. Elsewhere all are skipped.
"""

import asyncio
import importlib
import importlib.util
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kvberth.client import Client, Outcome
from support.transfer_worker import TESTS, RunningWorker, running_worker
from support.vineyardd import RunningVineyardd, running_vineyardd, short_directory
from support.waiting import until


def has_device() -> bool:
    return importlib.util.find_spec("torch") is not None and importlib.import_module("torch").cuda.is_available()


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_device(), reason="there is no CUDA device")]
BLOCKS, PIECE = 48, 16 * 1024
LAYERS = 4


@pytest.fixture(scope="module")
def torch():
    return importlib.import_module("torch")


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as path:
        yield path


@pytest.fixture
async def daemon(directory: Path) -> AsyncIterator[RunningVineyardd]:
    async with running_vineyardd(directory / "vineyard.sock") as running:
        yield running


@pytest.fixture
async def worker(daemon: RunningVineyardd, directory: Path) -> AsyncIterator[RunningWorker]:
    async with running_worker(directory) as running:
        yield running


def paged(torch):
    """bfloat16, which numpy lacks: (keys and values, blocks, bytes of a piece) for each layer."""
    torch.manual_seed(3)
    return [torch.randn((2, BLOCKS, PIECE // 2), device="cuda").to(torch.bfloat16) for _ in range(LAYERS)]


def regions_of(layers):
    return [layer[part] for layer in layers for part in (0, 1)]


def keys(count, salt=0):
    return [bytes([salt, at]) + bytes(30) for at in range(count)]


def stored(client, blocks, salt=0):
    ticket = client.offload(keys(len(blocks), salt), blocks)
    assert ticket.wait(30)
    assert set(ticket.outcomes) == {Outcome.STORED}


def loaded(client, blocks, salt=0):
    """Asks again where a lookup ended with its time."""
    at, until_s = 0, time.monotonic() + 30
    while at < len(blocks) and time.monotonic() < until_s:
        found = client.lookup(keys(len(blocks), salt)[at:])
        at += client.load(found, blocks[at : at + len(found)])
        client.release(found)
    assert at == len(blocks)


@pytest.mark.parametrize("order", [list(range(24)), list(range(23, -1, -1)), [5, 3, 4, 20, 21, 22, 0, 11]])
async def test_blocks_are_stored_from_one_gpu_tensor_and_loaded_into_another(torch, worker, directory, order):
    layers = paged(torch)
    before = [layer.clone() for layer in layers]
    with Client(directory, regions_of(layers), {"model": "m"}) as client:
        assert client.wait_connected(20), client.why
        stored(client, order)
        targets = [(block + 24) % BLOCKS for block in order]
        loaded(client, targets)
    for layer, old in zip(layers, before, strict=True):
        assert torch.equal(layer[:, targets], old[:, order])


async def test_what_the_engine_was_still_computing_when_it_offered_is_what_is_stored(torch, worker, directory):
    tensor = torch.zeros((BLOCKS, 4 * PIECE), dtype=torch.uint8, device="cuda")
    with Client(directory, [tensor], {"model": "m"}) as client:
        assert client.wait_connected(20), client.why
        torch.cuda.synchronize()
        torch.cuda._sleep(200_000_000)  # some tenth of a second, before the bytes are there
        tensor[:8] = 7
        ticket = client.offload(keys(8), range(8))
        assert ticket.wait(30)
        assert set(ticket.outcomes) == {Outcome.STORED}
        loaded(client, list(range(8, 16)))
        assert bool((tensor[8:16] == 7).all())


async def test_a_load_waits_for_what_the_engine_still_reads_there(torch, worker, directory):
    tensor = torch.full((BLOCKS, 4 * PIECE), 1, dtype=torch.uint8, device="cuda")
    with Client(directory, [tensor], {"model": "m"}) as client:
        assert client.wait_connected(20), client.why
        tensor[0] = 9
        stored(client, [0])
        torch.cuda._sleep(200_000_000)
        read = tensor[1].clone()  # enqueued before the load
        loaded(client, [1])
        torch.cuda.synchronize()
        assert bool((read == 1).all())
        assert bool((tensor[1] == 9).all())


async def test_arenas_are_pinned_while_idle_and_a_new_epoch_is_mapped_after_they_were_let_go(torch, directory):
    tensor = torch.full((BLOCKS, 4 * PIECE), 5, dtype=torch.uint8, device="cuda")
    async with running_worker(directory):
        async with running_vineyardd(directory / "vineyard.sock") as first:
            client = Client(directory, [tensor], {"model": "m"})
            pinning = client._regions._pinning
            await until(lambda: pinning._pinned and not pinning._waiting)
            assert pinning.complaint is None
            stored(client, list(range(4)))
            await first.kill()
            await until(lambda: client.why is not None and not pinning._pinned)
        async with running_vineyardd(directory / "vineyard.sock"):
            await until(lambda: client.why is None)
            stored(client, list(range(4)), salt=1)
            client.close()
    assert not pinning._pinned


async def test_slots_of_an_engine_that_was_killed_come_back(torch, worker, directory):
    engine = await asyncio.create_subprocess_exec(
        sys.executable, str(TESTS / "gpu" / "engine.py"), str(directory), stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(60):
            assert await engine.stdout.readline() == b"ready\n"
        assert await worker.metric("kvberth_transfer_used_bytes.granted") > 0
    finally:
        engine.kill()
        await engine.wait()

    async def freed():
        return await worker.metric("kvberth_transfer_used_bytes.granted") == 0

    await until(freed)
