"""The store on a real vineyardd: made, seen by others, found again, and ended with the daemon."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from kvberth.service.lock import HeldError
from kvberth.store.blockstore import BlockStore
from kvberth.store.control import CLIENTS_NAME
from kvberth.store.errors import EpochEnded, StoreError, StoreInUse
from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.superblock import Checksum
from kvberth.store.locks import ClientLock, lock_path
from kvberth.store.reader import Reader
from kvberth.store.vineyard_memory import VineyardMemory, attach
from kvberth.vineyard import BlockingClient, ConnectionGone, DaemonHung
from support.descriptors import open_descriptors
from support.store_memory import LAYOUTS, SIZES, content, key_of
from support.vineyardd import RunningVineyardd, running_vineyardd
from support.waiting import until

HERE = Path(__file__).parent
LAYOUT = 31
SIZE = LAYOUTS[LAYOUT]
LIMIT_S = 60.0


def blocks(*numbers: int) -> list[tuple[bytes, bytes]]:
    return [(key_of(number), content(key_of(number), SIZE)) for number in numbers]


def store_on(held: VineyardMemory) -> BlockStore:
    store = BlockStore(held.memory)
    store.register(LAYOUT, SIZE)
    return store


def put_all(store: BlockStore, offered: list[tuple[bytes, bytes]]) -> list[Outcome]:
    return [store.put(LAYOUT, key, data) for key, data in offered]


async def test_a_stranger_with_the_official_client_finds_what_the_books_say(
    daemon: RunningVineyardd, journal: Path
) -> None:
    with VineyardMemory.open(daemon.path, journal, SIZES) as held:
        store = store_on(held)
        assert put_all(store, blocks(*range(20))) == [Outcome.STORED] * 20
        store.remove([key_of(3)])
        names = [str(blob) for blob in json.loads(journal.read_text())["blobs"]]
        found = json.loads(await run(HERE / "stranger.py", daemon.path, *names))
        books = store.books()
        assert found["complaints"] == []
        assert found["states"] == {state.name: [amount.blocks, amount.bytes] for state, amount in books.states.items()}
        assert found["unlent_bytes"] == books.unlent_bytes
        assert found["keys"] == sorted(key_of(number).hex() for number in range(20) if number != 3)
        assert found["memory_usage"] == held.blob_bytes


async def test_the_next_worker_finds_the_store_and_another_process_reads_it(
    daemon: RunningVineyardd, journal: Path
) -> None:
    with VineyardMemory.open(daemon.path, journal, SIZES) as held:
        put_all(store_on(held), blocks(1, 2))
    with VineyardMemory.open(daemon.path, journal, SIZES) as held:
        assert not held.made
        assert store_on(held).books().attached.blocks == 2
        other = attach(daemon.path, journal)
        assert other.memory.index.readonly
        assert Reader(other.memory).read([key_of(1), key_of(2), key_of(3)]) == [data for _, data in blocks(1, 2)]
        other.close()


async def test_a_store_of_other_sizes_or_half_made_is_deleted_and_made_anew(
    daemon: RunningVineyardd, journal: Path
) -> None:
    VineyardMemory.open(daemon.path, journal, SIZES).close()
    said = json.loads(journal.read_text())
    journal.write_text(json.dumps(said | {"ready": False}))
    for checksum in (Checksum.XXH3_64, Checksum.NONE):
        with VineyardMemory.open(daemon.path, journal, SIZES, checksum) as held:
            assert held.made
            with BlockingClient.connect(daemon.path) as client:
                assert client.status().memory_usage == held.blob_bytes


async def test_a_daemon_that_does_not_answer_proves_nothing_and_ends_nothing(
    daemon: RunningVineyardd, journal: Path
) -> None:
    with VineyardMemory.open(daemon.path, journal, SIZES) as held:
        store = store_on(held)
        put_all(store, blocks(1))
        question = held.question()
        await daemon.freeze()
        question.ask()
        with pytest.raises(DaemonHung):
            await asyncio.to_thread(held.check, timeout_s=0.3)
        assert not question.answered()
        daemon.thaw()
        await until(question.answered)
        held.check()
        question.close()
        assert put_all(store, blocks(1, 2)) == [Outcome.PRESENT, Outcome.STORED]


async def test_a_daemon_that_died_while_it_did_not_answer_has_ended_the_epoch(directory: Path, journal: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_vineyardd(path) as daemon:
        held = VineyardMemory.open(path, journal, SIZES)
        await daemon.freeze()
        with pytest.raises(DaemonHung):
            await asyncio.to_thread(held.check, timeout_s=0.1)
    with pytest.raises(EpochEnded, match="gone"):
        held.check()
    assert held.memory.ended
    held.close()


async def test_another_daemon_after_one_that_did_not_answer_has_ended_the_epoch(directory: Path, journal: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_vineyardd(path) as daemon:
        held = VineyardMemory.open(path, journal, SIZES)
        await daemon.freeze()
        with pytest.raises(DaemonHung):
            await asyncio.to_thread(held.check, timeout_s=0.1)
    async with running_vineyardd(path):
        with pytest.raises(EpochEnded, match="another daemon"):
            held.check()
    held.close()


async def test_another_daemon_that_is_asked_on_a_standing_connection_ends_the_epoch_for_all(
    directory: Path, journal: Path
) -> None:
    path = directory / "vineyard.sock"
    async with running_vineyardd(path):
        held = VineyardMemory.open(path, journal, SIZES)
    async with running_vineyardd(path):
        before = open_descriptors()
        with pytest.raises(EpochEnded, match="another daemon"):
            held.question()
        assert open_descriptors() == before
    assert held.memory.ended
    held.close()


async def test_our_own_leaving_ends_no_epoch(daemon: RunningVineyardd, journal: Path) -> None:
    with VineyardMemory.open(daemon.path, journal, SIZES) as held:
        await daemon.freeze()
        asking = asyncio.create_task(asyncio.to_thread(held.check, timeout_s=5.0))
        await asyncio.to_thread(held.close)
        with pytest.raises(ConnectionGone):
            await asking
        with pytest.raises(ConnectionGone):
            held.check()
        daemon.thaw()
        assert not held.memory.ended


async def test_the_death_of_the_daemon_ends_the_epoch_and_no_copy_crashes(
    daemon: RunningVineyardd, journal: Path
) -> None:
    with VineyardMemory.open(daemon.path, journal, SIZES) as held:
        store = store_on(held)
        put_all(store, blocks(1))
        other, question = attach(daemon.path, journal), held.question()
        reader = Reader(other.memory)
        hit = reader.find(key_of(1))
        assert hit is not None
        await daemon.kill()
        with pytest.raises(ConnectionGone):
            question.ask()
        question.close()
        with pytest.raises(EpochEnded):
            held.check()
        assert not reader.copy(hit, memoryview(bytearray(SIZE)))  # the memory is there still, and means nothing
        for call in (
            lambda: reader.find(key_of(1)),
            lambda: store.grant(LAYOUT, bytes(16), 1),
            lambda: put_all(store, blocks(2)),
        ):
            with pytest.raises(EpochEnded):
                call()
        other.close()


async def test_a_daemon_that_came_after_has_an_empty_store(directory: Path, journal: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_vineyardd(path):
        with VineyardMemory.open(path, journal, SIZES) as held:
            put_all(store_on(held), blocks(1))
    async with running_vineyardd(path):
        with pytest.raises(StoreError, match="no store that is ready"):
            attach(path, journal)
        with VineyardMemory.open(path, journal, SIZES) as held:
            assert held.made
            assert not store_on(held).contains(key_of(1))


async def test_a_store_that_has_ended_under_a_living_daemon_is_made_anew_when_nobody_maps_it(
    daemon: RunningVineyardd, journal: Path
) -> None:
    (journal.parent / CLIENTS_NAME).mkdir()
    with VineyardMemory.open(daemon.path, journal, SIZES) as held:
        held.memory.end_epoch()
        path = lock_path(journal.parent, held.memory.superblock.epoch, b"c" * 16)
    lock = ClientLock(path)
    with pytest.raises(StoreInUse, match="Waiting for 1 client that maps") as refused:
        VineyardMemory.open(daemon.path, journal, SIZES)
    assert refused.value.clients == (path.name,)
    lock.close()
    with VineyardMemory.open(daemon.path, journal, SIZES) as held:
        assert held.made
        assert put_all(store_on(held), blocks(1)) == [Outcome.STORED]


async def test_a_connection_that_ends_while_its_daemon_lives_ends_no_epoch(
    daemon: RunningVineyardd, journal: Path
) -> None:
    with VineyardMemory.open(daemon.path, journal, SIZES) as held:
        held._client._stream.shut()
        held.check()
        assert not held.memory.ended
        assert put_all(store_on(held), blocks(1)) == [Outcome.STORED]


async def test_a_daemon_without_an_id_is_another_one(directory: Path, journal: Path) -> None:
    path = directory / "vineyard.sock"
    async with running_vineyardd(path):
        held = VineyardMemory.open(path, journal, SIZES)
    async with running_vineyardd(path, incarnation="local"):
        with pytest.raises(EpochEnded, match="another daemon"):
            held.check()
    held.close()


async def test_a_store_has_one_writer(daemon: RunningVineyardd, journal: Path) -> None:
    with VineyardMemory.open(daemon.path, journal, SIZES):
        with pytest.raises(HeldError, match="writer of the block store"):
            VineyardMemory.open(daemon.path, journal, SIZES)
    VineyardMemory.open(daemon.path, journal, SIZES).close()


async def test_a_daemon_without_an_id_of_its_life_is_refused(directory: Path, journal: Path) -> None:
    async with running_vineyardd(directory / "vineyard.sock", incarnation="local") as daemon:
        with pytest.raises(StoreError, match="without an id"):
            VineyardMemory.open(daemon.path, journal, SIZES)


async def test_readers_get_no_wrong_byte_while_workers_evict_and_are_killed(
    daemon: RunningVineyardd, journal: Path
) -> None:
    """Two readers (one with leases, one without) against workers that are killed in the middle, again and again."""
    keys, lives = "80", 6
    worker = await start("worker.py", daemon.path, journal, 0, keys)
    readers = [await start("client.py", daemon.path, journal, who, 3.0, keys) for who in ("0", "-")]
    try:
        for life in range(1, lives + 1):
            await asyncio.sleep(0.3)  # how long a worker lives: any moment is as good as any other
            worker.kill()
            await worker.wait()
            worker = await start("worker.py", daemon.path, journal, life, keys)
        told = [await ended(reader) for reader in readers]
    finally:
        for process in (worker, *readers):
            if process.returncode is None:
                process.kill()
            await process.wait()
    assert all(each["right"] > 0 for each in told), told
    assert not any(each["ended"] for each in told)


async def ended(process: asyncio.subprocess.Process) -> dict[str, int]:
    """What a reader says at its end; it ends with 1 at the first wrong byte."""
    assert process.stdout is not None
    async with asyncio.timeout(LIMIT_S):
        output, status = await process.stdout.read(), await process.wait()
    assert status == 0, "a reader got a wrong byte"
    told: dict[str, int] = json.loads(output)
    return told


async def start(program: str, *arguments: object) -> asyncio.subprocess.Process:
    """Starts a program of this folder and waits for its first line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / program), *map(str, arguments), stdout=asyncio.subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None
    async with asyncio.timeout(LIMIT_S):
        line = await process.stdout.readline()
    assert line.startswith(b"ready"), f"{program} ended with {await process.wait()}"
    return process


async def run(program: Path, *arguments: object) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), *map(str, arguments), stdout=asyncio.subprocess.PIPE, env=environment()
    )
    async with asyncio.timeout(LIMIT_S):
        output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
