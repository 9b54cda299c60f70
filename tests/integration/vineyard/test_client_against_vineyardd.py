"""Our client and a real vineyardd; what it stores is checked by the official client, in a process of its own."""

import asyncio
import mmap
import os
import time
from importlib import metadata
from pathlib import Path

import pytest

from integration.vineyard.witnessed import witness
from kvberth.vineyard import (
    Client,
    ConnectionGone,
    DaemonHung,
    ObjectMissing,
    ObjectNotSealed,
    SocketStale,
    StoreFull,
    probe,
)
from support.descriptors import open_descriptors
from support.vineyardd import RunningVineyardd, running_vineyardd
from support.waiting import until

pytestmark = pytest.mark.integration

MIB = 1 << 20


async def _alone(path: Path) -> bool:
    """Whether the daemon counts no connection but the one that asks."""
    _, status = await probe(path, timeout_s=1.0)
    return status.ipc_connections == 1


async def test_registration_and_status_tell_who_the_daemon_is(directory: Path) -> None:
    async with running_vineyardd(directory / "vineyard.sock", size="32Mi", incarnation="life-7") as daemon:
        await until(lambda: _alone(daemon.path))  # whoever waited for it to start has left
        registration, status = await probe(daemon.path, timeout_s=1.0)
        assert registration.ipc_socket == str(daemon.path)
        assert registration.version == metadata.version("vineyard-bdist")
        assert registration.instance_id == status.instance_id == 0
        assert status.deployment == "life-7"
        assert status.memory_limit == 32 * MIB
        assert status.memory_usage == 0
        assert status.ipc_connections == 1


async def test_the_official_client_reads_what_ours_wrote(daemon: RunningVineyardd) -> None:
    data = os.urandom(5000)
    async with await Client.connect(daemon.path) as client:
        blob = await client.create(len(data))
        blob.buffer[:] = data
        await client.seal(blob.object_id)
        assert await witness(daemon.path, "get", str(blob.object_id)) == data.hex()
        await client.delete([blob.object_id])
        assert await witness(daemon.path, "get", str(blob.object_id)) == "missing"


async def test_ours_reads_what_the_official_client_wrote(daemon: RunningVineyardd) -> None:
    data = os.urandom(5000)
    object_id = int(await witness(daemon.path, "put", data.hex()))
    async with await Client.connect(daemon.path) as client:
        view = await client.get(object_id)
        assert view.readonly
        assert bytes(view) == data


async def test_a_new_connection_reads_what_an_earlier_one_sealed(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as writer:
        blob = await writer.create(MIB)
        blob.buffer[:] = b"k" * MIB
        await writer.seal(blob.object_id)
    async with await Client.connect(daemon.path) as reader:
        assert bytes(await reader.get(blob.object_id)) == b"k" * MIB


async def test_an_empty_blob_can_be_made_sealed_read_and_deleted(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as client:
        blob = await client.create(0)
        assert not blob.buffer.readonly
        await client.seal(blob.object_id)
        assert bytes(await client.get(blob.object_id)) == b""
        await client.delete([blob.object_id])


async def test_many_blobs_share_one_mapping_and_one_descriptor(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as client:
        first = await client.create(100)
        after_first = open_descriptors()
        blobs = [first, *[await client.create(100) for _ in range(50)]]
        assert open_descriptors() == after_first
        assert len({id(blob.buffer.obj) for blob in blobs}) == 1
        assert isinstance(first.buffer.obj, mmap.mmap)
        for number, blob in enumerate(blobs):
            blob.buffer[:] = bytes([number]) * 100
            await client.seal(blob.object_id)
        assert [bytes(await client.get(b.object_id)) for b in blobs] == [bytes([n]) * 100 for n in range(51)]


async def test_a_fragmented_store_spreads_over_several_memories_and_all_are_mapped(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as client, await Client.connect(daemon.path) as reader:
        ids = [(await client.create(2 * MIB)).object_id for _ in range(32)]
        await client.delete(ids[::2])
        large = await client.create(16 * MIB)  # no hole has room for it: vineyardd opens another memory
        small = await client.create(2 * MIB)
        assert large.buffer.obj is not small.buffer.obj
        for blob, data in ((large, b"L"), (small, b"s")):
            blob.buffer[:] = data * blob.buffer.nbytes
            await client.seal(blob.object_id)
            assert await reader.get(blob.object_id) == data * blob.buffer.nbytes


async def test_a_full_store_refuses_and_the_connection_stays_usable(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as client:
        kept = await client.create(40 * MIB)
        for size in (40 * MIB, 1 << 40, 2**62, 2**63 - 1, 2**63, 2**80):
            with pytest.raises(StoreFull, match=r"vineyard\.sock: "):
                await client.create(size)
        await client.delete([kept.object_id])
        assert (await client.status()).memory_usage == 0
        assert (await client.create(40 * MIB)).buffer.nbytes == 40 * MIB


async def test_missing_and_unsealed_objects_are_told_apart(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as client:
        blob = await client.create(10)
        with pytest.raises(ObjectNotSealed):
            await client.get(blob.object_id)
        for call in (client.get, client.seal):
            with pytest.raises(ObjectMissing):
                await call(12345)
        await client.delete([blob.object_id, 12345])
        with pytest.raises(ObjectMissing):
            await client.get(blob.object_id)
        assert (await client.status()).memory_usage == 0


async def test_one_delete_takes_thousands_of_blobs_and_passes_over_missing_ones(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as client:
        ids = [(await client.create(64)).object_id for _ in range(1500)]
        assert (await client.status()).memory_usage >= 1500 * 64
        await client.delete([*ids, *range(2**63, 2**63 + 1000)], timeout_s=10.0)
        await client.delete([])
        assert (await client.status()).memory_usage == 0


async def test_concurrent_requests_on_one_connection_each_get_their_own_answer(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as client:

        async def put(number: int) -> int:
            blob = await client.create(1000 + number, timeout_s=10.0)
            blob.buffer[:] = bytes([number]) * (1000 + number)
            await client.seal(blob.object_id, timeout_s=10.0)
            return blob.object_id

        async with asyncio.TaskGroup() as group:
            puts = [group.create_task(put(number)) for number in range(100)]
        views = [await client.get(task.result()) for task in puts]
        assert [bytes(view) for view in views] == [bytes([n]) * (1000 + n) for n in range(100)]


async def test_a_killed_daemon_is_noticed_at_once_while_nothing_is_asked(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as client:
        view = (await client.create(100)).buffer
        view[:] = b"x" * 100
        waiting = asyncio.create_task(client.wait_closed())
        await client.status()  # the wait neither disturbs a request nor is ended by one
        assert not waiting.done()
        daemon.process.kill()
        async with asyncio.timeout(1.0):
            await waiting
        with pytest.raises(ConnectionGone, match="the daemon"):
            await client.status()
        await daemon.process.wait()
        with pytest.raises(SocketStale, match=r"vineyard\.sock: nobody listens"):
            await Client.connect(daemon.path)
        assert bytes(view) == b"x" * 100


async def test_a_restarted_daemon_on_the_same_path_is_another_incarnation_and_empty(directory: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_vineyardd(path) as first, await Client.connect(path) as client:
        blob = await client.create(10)
        await client.seal(blob.object_id)
        await first.kill()
    async with running_vineyardd(path) as second, await Client.connect(path) as client:
        assert (await client.status()).deployment == second.incarnation != first.incarnation
        with pytest.raises(ObjectMissing):
            await client.get(blob.object_id)


async def test_a_stopped_daemon_is_hung_at_the_deadline_while_the_loop_ticks(daemon: RunningVineyardd) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    client = await Client.connect(daemon.path)
    ticking = asyncio.create_task(tick())
    await daemon.freeze()
    try:
        for call in (client.status(timeout_s=0.5), Client.connect(daemon.path, timeout_s=0.5)):
            ticks, begun = 0, time.monotonic()
            with pytest.raises(DaemonHung, match=r"within 0\.5 s"):
                await call
            assert 0.45 <= time.monotonic() - begun < 0.9
            assert ticks > 20
        with pytest.raises(DaemonHung):
            await probe(daemon.path, timeout_s=0.1)
        with pytest.raises(ConnectionGone):
            await client.status()
    finally:
        daemon.thaw()
        ticking.cancel()
        await client.aclose()
    _, status = await probe(daemon.path, timeout_s=5.0)
    assert status.deployment == daemon.incarnation


async def test_a_deadline_runs_while_a_request_waits_for_its_turn(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as client:
        await daemon.freeze()
        try:
            first = asyncio.create_task(client.status(timeout_s=10.0))
            await asyncio.sleep(0)  # the first request takes its turn
            with pytest.raises(DaemonHung):
                await client.status(timeout_s=0.1)
            assert not first.done()
        finally:
            daemon.thaw()
        assert (await first).deployment == daemon.incarnation  # who only waited has spoilt nothing
        assert (await client.status()).deployment == daemon.incarnation


async def test_a_cancelled_request_closes_the_connection(daemon: RunningVineyardd) -> None:
    async with await Client.connect(daemon.path) as client:
        await daemon.freeze()
        try:
            request = asyncio.create_task(client.create(100, timeout_s=10.0))
            await asyncio.sleep(0)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
        finally:
            daemon.thaw()
        with pytest.raises(ConnectionGone, match="given up"):
            await client.status()


async def test_descriptors_stay_constant_over_a_thousand_clients(daemon: RunningVineyardd) -> None:
    async def use() -> None:
        async with await Client.connect(daemon.path) as client:
            blob = await client.create(8)
            await client.delete([blob.object_id])

    await use()
    before = open_descriptors()
    for _ in range(1000):
        await use()
    assert open_descriptors() == before


async def test_descriptors_stay_constant_over_cancelled_creates(daemon: RunningVineyardd) -> None:
    async def cancelled_after(steps: int) -> None:
        async with await Client.connect(daemon.path) as client:
            request = asyncio.create_task(client.create(8))
            for _ in range(steps):
                await asyncio.sleep(0)
            request.cancel()
            await asyncio.wait([request])

    await cancelled_after(1)
    before = open_descriptors()
    for steps in range(300):
        await cancelled_after(steps % 30)
    assert open_descriptors() == before


async def test_views_outlive_the_client_and_then_the_memory_goes(daemon: RunningVineyardd) -> None:
    before = open_descriptors()
    client = await Client.connect(daemon.path)
    blob = await client.create(100)
    blob.buffer[:] = b"v" * 100
    await client.aclose()
    await client.aclose()
    assert bytes(blob.buffer) == b"v" * 100
    with pytest.raises(ConnectionGone, match="closed by this side"):
        await client.status()
    del blob, client
    assert open_descriptors() == before
