"""What is said of the health of real daemons, whatever becomes of them."""

import asyncio
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from integration.node_agent.proving import OwnLag, proving, proxied
from integration.vineyard.witnessed import witness
from kvberth.node_agent.health.leftovers import Leftovers
from kvberth.node_agent.health.prober import Prober
from kvberth.node_agent.health.verdict import SLOW_CALL_S, Failed, Late, NoEvidence, Proven
from kvberth.scenario.backend.fault_proxy import Fault
from kvberth.vineyard import Client, KeptClient, StoreFull
from support.descriptors import open_descriptors
from support.hostile_peer import hostile_peer
from support.shortage import no_descriptors
from support.vineyardd import running_vineyardd
from support.waiting import until

pytestmark = pytest.mark.integration

WITHIN_S = 2.0
MIB = 1 << 20


@pytest.fixture
async def daemon(root):
    async with running_vineyardd(root / "vineyard.sock") as running:
        yield running


async def usage(path):
    async with await Client.connect(path) as client:
        return (await client.status()).memory_usage


async def test_a_proof_puts_bytes_in_takes_them_out_and_leaves_nothing(daemon):
    prober = Prober(str(daemon.path), OwnLag())
    before = open_descriptors()
    for _ in range(20):
        seen = await prober.probe()
        assert isinstance(seen, Proven)
        assert (seen.incarnation, seen.memory_limit) == (daemon.incarnation, 64 * MIB)
        assert seen.memory_usage >= 64
        assert 0 < seen.call_s < seen.round_trip_s
    assert open_descriptors() - before <= 3  # the connection that is kept, its memory mapped, and to be shared
    await prober.aclose()
    assert await usage(daemon.path) == 0


async def test_the_memory_of_a_daemon_that_died_is_let_go_while_no_other_answers(daemon):
    async with proving(daemon.path) as proof:
        await proof.until("healthy Proven")
        assert mapped_memories()
        await daemon.kill()
        await proof.until("failed Stale")
        await until(lambda: not mapped_memories())


async def test_proofs_that_end_with_their_daemon_keep_no_descriptor(daemon):
    before = open_descriptors()
    for end in (
        lambda leftovers, client: leftovers.let_go(client),
        lambda leftovers, client: leftovers.undo(client, 1),
    ):
        leftovers = Leftovers()
        client = await Client.connect(daemon.path)
        await client.create(64)
        end(leftovers, client)
        await leftovers.aclose()  # before what was just begun has had its first turn
    assert open_descriptors() == before


async def test_a_lost_connection_is_not_handed_over_and_keeps_no_descriptor(daemon):
    before = open_descriptors()
    kept = KeptClient(daemon.path)
    client = await kept.client()
    await client.create(64)
    await daemon.kill()
    await client.wait_closed()
    assert kept.give_up() is None
    await kept.aclose()
    assert open_descriptors() == before


def mapped_memories():
    """The memories of daemons that this process has mapped."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:vineyard" in line]


async def test_a_cache_is_healthy_dead_and_healthy_again_under_its_next_incarnation(root):
    path = root / "vineyard.sock"
    async with proving(path) as proof:
        await proof.until("failed Missing")
        async with running_vineyardd(path) as first:
            event, _ = await proof.until("healthy Proven", WITHIN_S)
            assert event.incarnation == first.incarnation
            killed = time.monotonic()
            first.process.kill()
            failed, said = await proof.until("failed Stale", WITHIN_S)
            assert said - killed < WITHIN_S
            assert failed.last_proof is not None
            assert failed.incarnation == first.incarnation
        async with running_vineyardd(path) as second:
            event, _ = await proof.until("healthy Proven", WITHIN_S)
            assert event.incarnation == second.incarnation
    assert proof.words == ["failed Missing", "healthy Proven", "failed Stale", "healthy Proven"]


async def test_a_socket_that_is_news_is_proven_at_once(root):
    path = root / "vineyard.sock"
    async with proving(path, period_s=60.0) as proof:
        await proof.until("failed Missing")
        async with running_vineyardd(path):
            proof.follow()
            await proof.until("healthy Proven", 1.0)


async def test_a_successor_that_hangs_is_not_named_after_the_daemon_that_was_proven(daemon):
    async with proving(daemon.path, period_s=60.0) as proof:
        healthy, _ = await proof.until("healthy Proven")
        assert healthy.incarnation == daemon.incarnation
        await daemon.kill()
        daemon.path.unlink()
        with socket.socket(socket.AF_UNIX) as starting:  # it listens, and reserves its memory first
            starting.bind(str(daemon.path))
            starting.listen(16)
            proof.follow()
            hung, _ = await proof.until("failed Hung", WITHIN_S)
    assert (hung.incarnation, hung.last_proof) == (None, healthy.last_proof)


async def test_a_death_is_told_though_the_next_life_answers_before_anybody_looks(root):
    """As in a cache's container, whose script starts the next one within a tenth of a second."""
    path = root / "vineyard.sock"
    lives = []
    async with proving(path, period_s=60.0) as proof:  # who looks is only whom the sockets' word stirs
        for _ in range(5):
            async with running_vineyardd(path) as daemon:
                lives.append(daemon.incarnation)
                proof.follow()
                await until(lambda life=daemon.incarnation: life in [event.incarnation for event in proof.events])
    told = [(event.verdict, event.reason, event.incarnation) for event in proof.events if event.incarnation]
    expected = [(("healthy", "Proven", life), ("failed", "Gone", life)) for life in lives]
    assert told == [word for words in expected for word in words][:-1]


async def test_a_stopped_daemon_is_hung_and_healthy_again_and_nothing_is_left_in_it(daemon):
    async with proving(daemon.path) as proof:
        await proof.until("healthy Proven")
        for _ in range(3):
            await daemon.freeze()
            stopped = time.monotonic()
            _, said = await proof.until("failed Hung", WITHIN_S + 1)
            assert said - stopped < WITHIN_S
            daemon.thaw()
            goes_on = time.monotonic()
            _, said = await proof.until("healthy Proven", WITHIN_S + 1)
            assert said - goes_on < WITHIN_S
    await until(lambda: proof.words.count("healthy Proven") == 4)
    assert await usage(daemon.path) == 0


async def test_a_daemon_whose_every_call_is_slow_is_slow_and_not_hung(daemon):
    async with proxied(daemon.path) as proxy, proving(daemon.path) as proof:
        await proof.until("healthy Proven")
        proxy.set(Fault.SLOW, 0.1)
        slowed = time.monotonic()
        event, said = await proof.until("degraded Slow", WITHIN_S + 1)
        assert said - slowed < WITHIN_S
        assert event.last_proof is not None
        proxy.set(Fault.NONE)
        repaired = time.monotonic()
        _, said = await proof.until("healthy Proven", WITHIN_S + 1)
        assert said - repaired < WITHIN_S
        assert proof.words == ["healthy Proven", "degraded Slow", "healthy Proven"]


async def test_what_our_own_loop_was_late_is_not_taken_for_the_daemons_time(daemon):
    lag = OwnLag()
    prober = Prober(str(daemon.path), lag)
    async with proxied(daemon.path) as proxy:
        proxy.set(Fault.SLOW, 0.1)
        for lag.lag, slow in ((0.0, True), (0.05, False), (0.09, False), (0.2, False), (0.0, True)):
            seen = await prober.probe()
            assert isinstance(seen, Proven)
            assert (seen.call_s >= SLOW_CALL_S) == slow
        assert lag.discarded == 0  # no deadline was missed
        await prober.aclose()


async def test_behind_a_fault_proxy_the_official_client_gets_its_descriptors(daemon):
    data = os.urandom(5000)
    async with proxied(daemon.path):
        blob = await witness(daemon.path, "put", data.hex())
        assert await witness(daemon.path, "get", blob) == data.hex()


async def test_a_silent_socket_is_hung_and_one_that_resets_is_gone(daemon):
    async with proxied(daemon.path) as proxy, proving(daemon.path) as proof:
        await proof.until("healthy Proven")
        for fault, word in ((Fault.SILENCE, "failed Hung"), (Fault.RESET, "failed Gone")):
            proxy.set(fault)
            began = time.monotonic()
            _, said = await proof.until(word, WITHIN_S + 1)
            assert said - began < WITHIN_S
            proxy.set(Fault.NONE)
            await proof.until("healthy Proven", WITHIN_S)


async def test_a_half_open_connection_is_replaced_and_no_false_word_is_said(daemon):
    async with proxied(daemon.path) as proxy, proving(daemon.path) as proof:
        await proof.until("healthy Proven")
        proxy.set(Fault.HALF_OPEN)
        await until(lambda: proof.metric('kvberth_node_agent_probes_total{seen="late"}') >= 1)
        proofs = proof.metric('kvberth_node_agent_probes_total{seen="proven"}')
        await until(lambda: proof.metric('kvberth_node_agent_probes_total{seen="proven"}') >= proofs + 2)
        assert set(proof.words) == {"healthy Proven"}  # said again where a proof took much longer


async def test_a_full_store_is_full_until_there_is_room(daemon):
    async with proving(daemon.path) as proof, await Client.connect(daemon.path) as client:
        await proof.until("healthy Proven")
        ids = []
        for size in (MIB, 64 << 10, 4096, 64, 8):  # to the last byte
            with suppress(StoreFull):
                while True:
                    ids.append((await client.create(size)).object_id)
        filled = time.monotonic()
        _, said = await proof.until("degraded Full", WITHIN_S + 1)
        assert said - filled < WITHIN_S
        await client.delete(ids, timeout_s=10)
        emptied = time.monotonic()
        _, said = await proof.until("healthy Proven", WITHIN_S + 1)
        assert said - emptied < WITHIN_S


async def test_whatever_else_answers_is_told_apart(root):
    path = root / "vineyard.sock"

    async def garbage(peer):
        await peer.read_request()
        await peer.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    prober = Prober(str(path), OwnLag())
    async with hostile_peer(path, garbage):
        seen = await prober.probe()
        assert isinstance(seen, Failed)
        assert seen.reason == "Protocol"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(str(path))
    seen = await prober.probe()
    assert isinstance(seen, Failed)
    assert seen.reason == "Stale"
    await prober.aclose()


async def test_wrong_bytes_are_wrong_bytes(daemon):
    class Forgetful(bytes):
        def __ne__(self, _other):
            return True

    prober = Prober(str(daemon.path), OwnLag(), lambda count: Forgetful(b"c" * count))
    seen = await prober.probe()
    assert isinstance(seen, Failed)
    assert seen.reason == "WrongBytes"
    await prober.aclose()


async def test_a_shortage_of_descriptors_in_the_midst_of_a_proof_is_no_evidence(daemon):
    prober = Prober(str(daemon.path), OwnLag())
    assert isinstance(await prober.probe(), Proven)
    with no_descriptors(but_one=True):  # for a connection, and none for the memory
        assert isinstance(await prober.probe(), NoEvidence)
    assert isinstance(await prober.probe(), Proven)
    await until(lambda: prober.owed == 0)
    await prober.aclose()
    assert await usage(daemon.path) == 0


async def test_a_deadline_missed_by_our_own_lag_is_no_evidence(daemon):
    prober = Prober(str(daemon.path), OwnLag(0.2))
    assert isinstance(await prober.probe(), Proven)
    await daemon.freeze()
    try:
        assert isinstance(await prober.probe(), NoEvidence)
    finally:
        daemon.thaw()
    await prober.aclose()


async def test_a_create_that_comes_late_is_deleted_when_it_comes(daemon):
    async with proxied(daemon.path) as proxy:

        def canary(count):
            proxy.set(Fault.SILENCE)  # from the create on
            return b"c" * count

        prober = Prober(str(daemon.path), OwnLag(), canary)
        assert await prober.probe() == Late(True, 0.4)
        assert prober.owed == 1
        proxy.set(Fault.NONE)
        await until(lambda: prober.owed == 0)
        assert await usage(daemon.path) == 0
        await prober.aclose()


async def test_a_hung_daemon_costs_the_loop_nothing_and_an_end_in_the_midst_leaves_nothing_open(daemon):
    before = open_descriptors()
    worst = 0.0

    async def tick():
        nonlocal worst
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            worst = max(worst, time.monotonic() - began - 0.01)

    ticking = asyncio.create_task(tick())
    async with proving(daemon.path) as proof:
        await proof.until("healthy Proven")
        await daemon.freeze()
        await proof.until("failed Hung")
    ticking.cancel()
    daemon.thaw()
    assert worst < 0.25
    assert open_descriptors() == before
