"""A shortage of this process in the midst of a conversation: nothing is said of the daemon, and nothing left in it."""

import asyncio

import pytest

from kvberth.vineyard import BlockingClient, CannotAsk, Client
from support.shortage import no_descriptors
from support.vineyardd import RunningVineyardd

pytestmark = pytest.mark.integration


async def usage(daemon: RunningVineyardd) -> int:
    async with await Client.connect(daemon.path) as client:
        return (await client.status()).memory_usage


@pytest.mark.parametrize("but_one", [False, True])  # none for what the daemon sends; one, and none for its mapping
async def test_memory_that_cannot_be_taken_says_nothing_about_the_daemon(
    daemon: RunningVineyardd, but_one: bool
) -> None:
    async with await Client.connect(daemon.path) as reader, await Client.connect(daemon.path) as writer:
        with no_descriptors(but_one=but_one), pytest.raises(CannotAsk):
            await writer.create(64)
        assert writer.closed
        assert await usage(daemon) == 0
        async with await Client.connect(daemon.path) as other:
            blob = await other.create(64)
            await other.seal(blob.object_id)
            with no_descriptors(but_one=but_one), pytest.raises(CannotAsk):
                await reader.get(blob.object_id)
            await other.delete([blob.object_id])
    assert await usage(daemon) == 0


@pytest.mark.parametrize("but_one", [False, True])
async def test_a_thread_tells_its_own_shortage_too(daemon: RunningVineyardd, but_one: bool) -> None:
    def create() -> None:
        with BlockingClient.connect(daemon.path) as client:
            with no_descriptors(but_one=but_one), pytest.raises(CannotAsk):
                client.create(64)
            assert client.closed

    async with asyncio.timeout(30):
        await asyncio.to_thread(create)
    assert await usage(daemon) == 0
