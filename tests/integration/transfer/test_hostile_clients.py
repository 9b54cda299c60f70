"""Whatever a client says on its socket or writes into its page: it alone is cut off, and everybody else is served."""

import random
import secrets
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvberth.client.link import Identity, Link, LinkError
from kvberth.client.mapping import Mapping
from kvberth.store import control
from kvberth.store.layout import pages
from kvberth.store.layout.geometry import PAGE
from kvberth.store.vineyard_memory import attach
from support.transfer_worker import BLOCK, running_engine, running_worker
from support.vineyardd import RunningVineyardd
from support.waiting import until

pytestmark = pytest.mark.integration

MESSAGES = [
    control.Hello(b"c" * 16, bytes(16)),
    control.Register(b"f" * 32, (4096,), 0, 1),
    control.Register(b"f" * 32, (1 << 40,), 0, 2),
    control.Done((1, 2, 3)),
    control.Layout(1, 4096, 1),
    control.Bye(),
    control.Wake(),
]
packets = st.lists(
    st.binary(max_size=60)
    | st.sampled_from([control.encode(message) for message in MESSAGES])
    | st.just(b"[" * (control.MAX_BYTES + 50)),
    max_size=6,
)


async def test_nonsense_on_the_socket_ends_that_connection_alone(daemon: RunningVineyardd, directory: Path) -> None:
    async with running_worker(directory) as worker, running_engine(directory) as engine:
        await engine.tell("connect")

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(said=packets)
        def say(said: list[bytes]) -> None:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.settimeout(5)
                sock.connect(str(directory / control.SOCKET_NAME))
                try:
                    for packet in said:
                        sock.send(packet)
                except (BrokenPipeError, ConnectionResetError):
                    return  # cut off: as it should be

        say()
        assert await engine.tell("put", 0, 16) == {"STORED": 16}
        await until(lambda: has_refused(worker))  # a scrape may be 200 ms old
        await until(lambda: one_client(worker))


async def test_nonsense_in_a_page_cuts_its_client_off_and_nobody_else(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_worker(directory) as worker, running_engine(directory) as engine:
        await engine.tell("connect")
        chance = random.Random(5)
        for _ in range(25):
            scribble(directory, chance)
        await until(lambda: one_client(worker))
        await until(lambda: obeyed_quota(directory) >= 48 * BLOCK)  # those that are gone left it their shares
        assert await engine.tell("put", 0, 48) == {"STORED": 48}
        assert await engine.tell("run", 0, 48) == {"found": 48, "loaded": 48, "wrong": 0}
        now = await worker.metrics()
        assert now["kvberth_store_faults"] == now["kvberth_transfer_over_budget"] == 0
        assert now["kvberth_transfer_refused.malformed"] > 0


def obeyed_quota(directory: Path) -> int:
    """Bytes that the clients, by their own words, know that they may let wait."""
    held = attach(directory / "vineyard.sock", directory / "store.json")
    try:
        memory, told = held.memory, 0
        for place in range(memory.geometry.clients):
            page, mirror = memory.client_page(place)[:PAGE].cast("Q"), memory.mirror(place)[:PAGE].cast("Q")
            if memory.directory_words(place)[pages.CLIENT_KNOWN] and page[pages.QUOTA_SEEN] == mirror[pages.QUOTA]:
                told += mirror[pages.QUEUE_BYTES]
        return told
    finally:
        held.close()


def scribble(directory: Path, chance: random.Random) -> None:
    """A client that registers as it should, and then writes noise into its own page until it is cut off."""
    mapped: list[Mapping] = []

    def take(mapping: Mapping) -> None:
        mapping.rings.begin()
        mapped.append(mapping)

    link = Link.open(Identity(directory, secrets.token_bytes(16), bytes(32), (65536,)), None, take)
    page = mapped[0].rings.page
    ring = mapped[0].memory.client_page(mapped[0].place).cast("Q")
    try:
        for _ in range(200):
            words = (chance.randrange(6), chance.randrange(pages.OUTCOMES), chance.randrange(len(ring)))
            ring[chance.choice(words)] = chance.choice((0, 1, 2**63, 2**64 - 1, chance.getrandbits(64)))
        page[pages.COMMIT_TAIL] = chance.choice((2**40, 1000, 5))
        link.say(control.Wake())
    finally:
        link.close()
        del page, ring
        mapped[0].close()


async def has_refused(worker) -> bool:
    return (await worker.metrics()).get("kvberth_transfer_refused.malformed", 0) > 0


async def one_client(worker) -> bool:
    return await worker.metric("kvberth_transfer_clients") == 1


async def test_what_is_cancelled_is_the_engines_own_again_at_once(daemon: RunningVineyardd, directory: Path) -> None:
    async with running_worker(directory) as worker, running_engine(directory) as engine:
        await engine.tell("connect")
        told = await engine.tell("cancel", 0, 64)
        assert told["released"]
        assert told["CANCELLED"] > 0
        await until(lambda: nothing_flies(worker))
        assert (await engine.tell("get", 0, 64))["wrong"] == 0


async def nothing_flies(worker) -> bool:
    now = await worker.metrics()
    return now["kvberth_transfer_admitted"] == 64 and now["kvberth_transfer_in_flight"] == 0


async def test_a_client_that_does_not_fit_is_refused_with_a_reason_and_others_are_served(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_worker(directory) as worker, running_engine(directory) as engine:
        await engine.tell("connect")
        mapped: list[Mapping] = []
        for size, take, why in (
            (8 << 20, mapped.append, r"1 to \d+ bytes.*layout"),
            (3 << 20, mapped.append, "budget"),
            (65536, Mapping.close, "holds the lock.*denied"),
        ):
            with pytest.raises(LinkError, match=why) as refused:
                Link.open(Identity(directory, secrets.token_bytes(16), bytes(32), (size,)), None, take)
            assert refused.value.retry_s > 1
        for each in mapped:
            each.close()
        assert await engine.tell("put", 0, 16) == {"STORED": 16}
        await until(lambda: refused_once_each(worker), what="each refusal, counted")
        await until(lambda: one_client(worker))


async def refused_once_each(worker) -> bool:
    """A scrape may be of a moment before the last refusal."""
    now = await worker.metrics()
    return all(now.get(f"kvberth_transfer_refused.{reason}") == 1 for reason in ("layout", "budget", "denied"))


async def test_a_client_that_registers_twice_or_lets_its_lock_go_is_cut_off_and_others_are_served(
    daemon: RunningVineyardd, directory: Path
) -> None:
    async with running_worker(directory) as worker, running_engine(directory) as engine:
        await engine.tell("connect")
        for wrong in ("registers twice", "lets its lock go"):
            mapped: list[Mapping] = []
            link = Link.open(Identity(directory, secrets.token_bytes(16), bytes(32), (65536,)), None, mapped.append)
            if wrong == "registers twice":
                link.say(control.Register(bytes(32), (4096,), 0, 1))
            else:
                mapped[0].close()
            link.say(control.Done((1,)))
            await until(link.lost, what=f"the end of a client that {wrong}")
            link.close()
            if wrong == "registers twice":
                mapped[0].close()
            assert await engine.tell("put", 0, 16) in ({"STORED": 16}, {"PRESENT": 16})
        await until(lambda: one_client(worker))
