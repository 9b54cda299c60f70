"""The core of one epoch in one process: what a client is told must be so, and what is used is counted."""

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kvberth.store.control import Hello, Layout, Refuse, Register, Welcome
from kvberth.store.layout import pages
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.rings import Commit, Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.store.layout.superblock import Checksum, Superblock
from kvberth.store.memory import StoreMemory
from kvberth.store.rings import ClientRings
from kvberth.transfer_worker import serving as serving_module
from kvberth.transfer_worker.serving import Serving, ServingSettings, Totals
from kvberth.transfer_worker.snapshot import snapshot_of
from support.store_memory import EPOCH, SMALL, content, key_of, small_memory

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
REGISTER = Register(bytes(32), (PAGE,), 0, 1)
Serve = Callable[[int], Serving]


@pytest.fixture
def memory() -> StoreMemory:
    return small_memory(replace(SMALL, clients=4))


@pytest.fixture
def serve(memory: StoreMemory, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """A worker on this memory with a budget of so many pages; every client lives."""
    monkeypatch.setattr(serving_module, "is_held", lambda _path: True)
    return lambda budget: Serving(memory, ServingSettings(Path("/nowhere"), budget * PAGE, 10**9), Totals(), lambda: 1)


def came(serving: Serving, client: bytes, asked: Register = REGISTER) -> ClientRings:
    rings = greeted(serving, client)
    assert isinstance(serving.register(client, asked), Layout)
    return rings


def greeted(serving: Serving, client: bytes) -> ClientRings:
    welcome = serving.greet(Hello(client, bytes(16)))
    assert isinstance(welcome, Welcome)
    rings = ClientRings(serving.memory, welcome.place)
    rings.begin()
    return rings


def obey(serving: Serving, *clients: ClientRings) -> None:
    """Has all hear of their quotas until none changes."""
    for _ in range(3):
        for rings in clients:
            rings.page[pages.QUOTA_SEEN] = rings.mirror[pages.QUOTA]
        serving.divide()


def commit(serving: Serving, rings: ClientRings, key: bytes) -> None:
    grant = rings.grants()[0]
    serving.memory.data(grant.slot, PAGE, PAGE)[:] = content(key, PAGE)
    rings.commit([Commit(key, grant.grant, grant.generation, grant.slot, PAGE)])
    serving.turn()


def test_a_block_that_is_taken_out_is_not_called_present_to_another_client(serve: Serve) -> None:
    serving, key = serve(20), key_of(1)
    one, two = came(serving, A), came(serving, B)
    for rings in (one, two):
        rings.page[pages.QUOTA_SEEN] = rings.mirror[pages.QUOTA]
    serving.divide()
    serving.turn()
    commit(serving, one, key)
    commit(serving, two, key)
    serving.greet(Hello(A, bytes(16)))
    serving.answer(2)
    assert not serving.store.contains(key)
    assert [receipt.outcome for receipt in two.receipts()] == [Outcome.DEGRADED]


def test_what_is_kept_of_a_client_that_is_gone_keeps_no_memory_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    alive = True
    monkeypatch.setattr(serving_module, "is_held", lambda _path: alive)
    index, arenas = bytearray(SMALL.index_bytes), [bytearray(SMALL.arena_bytes) for _ in range(SMALL.arenas)]
    block = Superblock(EPOCH, tuple(range(SMALL.arenas)), SMALL, Checksum.XXH3_64, 1)
    memory = StoreMemory.format(block, memoryview(index), tuple(memoryview(arena) for arena in arenas))
    totals = Totals()
    serving = Serving(memory, ServingSettings(Path("/nowhere"), 20 * PAGE, 10**9), totals, lambda: 1)
    came(serving, A)
    alive = False
    assert serving.look_for_dead() == [A]
    del serving, memory
    gc.collect()
    assert [client for client, _ in totals.departed] == [A.hex()]
    for mapped in (index, *arenas):
        mapped.clear()  # raises BufferError where anybody still looks at it


def test_a_client_is_rung_for_what_it_waits_for_and_for_nothing_else(serve: Serve) -> None:
    serving = serve(20)
    rings = came(serving, A)
    rings.page[pages.QUOTA_SEEN] = rings.mirror[pages.QUOTA]
    for hears, after_commit, after_answer in (
        (0, [], []),
        (pages.HEARS_GRANTS, [A], []),
        (pages.HEARS_RECEIPTS, [], [A]),
        (pages.HEARS_GRANTS | pages.HEARS_RECEIPTS, [A], [A]),
    ):
        serving.sleepers()
        rings.page[pages.SLEEPS] = hears
        commit(serving, rings, key_of(hears))
        assert serving.sleepers() == after_commit
        serving.answer(2)
        assert serving.sleepers() == after_answer
        assert serving.sleepers() == []


def test_slots_that_an_earlier_worker_granted_are_in_use_until_their_holder_greets(serve: Serve) -> None:
    before = serve(20)
    came(before, A)
    granted = before.members[A].held_bytes
    assert granted >= 2 * PAGE
    serving = serve(40)
    assert snapshot_of(serving).granted == granted
    assert granted == serving.store.books().states[SlotState.QUARANTINED].bytes
    admitted = came(serving, B)
    told = admitted.mirror[pages.QUEUE_BYTES] + admitted.mirror[pages.GRANT_BYTES]
    assert told + granted + serving.members[A].may_wait(40 * PAGE) <= 40 * PAGE
    serving.greet(Hello(A, bytes(16)))
    assert snapshot_of(serving).granted == serving.members[B].held_bytes


def test_a_client_with_more_waiting_than_a_new_worker_lets_in_is_registered_and_waits(serve: Serve) -> None:
    before = came(serve(40), A)
    before.page[pages.QUEUED] = before.mirror[pages.QUEUE_BYTES]
    serving = serve(12)
    rings = came(serving, A)
    assert serving.divide() == []
    assert snapshot_of(serving).queued == 12 * PAGE
    rings.page[pages.QUEUED] = 0  # their time has ended
    serving.divide()
    assert rings.mirror[pages.QUEUE_BYTES] >= 2 * PAGE


def test_who_says_that_more_waits_than_it_was_ever_told_is_cut_off_and_holds_nothing_back(serve: Serve) -> None:
    serving, reader = serve(40), Register(bytes(32), (), 0, 2)
    greedy, idle = came(serving, A), greeted(serving, C)
    greedy.page[pages.QUEUED] = greedy.mirror[pages.QUEUE_BYTES]
    greedy.page[pages.QUOTA_SEEN] = greedy.mirror[pages.QUOTA]
    assert serving.divide() == []
    greedy.page[pages.QUEUED] += 1
    assert [client for client, _ in serving.divide()] == [A]
    greedy.page[pages.QUEUED] = 0
    only_reads = came(serving, B, reader)
    assert serving.divide() == []
    only_reads.page[pages.QUEUED] = idle.page[pages.QUEUED] = 40 * PAGE
    greedy.page[pages.QUOTA_SEEN] = greedy.mirror[pages.QUOTA]
    assert [client for client, _ in serving.divide()] == [B]
    assert greedy.mirror[pages.QUEUE_BYTES] + greedy.mirror[pages.GRANT_BYTES] == 40 * PAGE
    assert snapshot_of(serving).queued == serving.totals.over_budget == 0


def test_a_scheduler_leases_for_the_ranks_that_are_there_whatever_it_says_of_their_number(serve: Serve) -> None:
    serving, model = serve(60), b"m" * 32
    scheduler, other = came(serving, A, Register(model, (), 0, 2)), came(serving, B)
    obey(serving, scheduler, other)
    assert scheduler.mirror[pages.LEASE_BYTES] == other.mirror[pages.LEASE_BYTES] > 0
    ranks = [Register(model, (PAGE,), shard, 2) for shard in range(2)]
    first = greeted(serving, C)
    assert isinstance(serving.register(C, ranks[0]), Refuse)
    last = came(serving, b"d" * 16, ranks[1])
    assert isinstance(serving.register(C, ranks[0]), Layout)
    obey(serving, scheduler, other, first, last)
    assert last.mirror[pages.LEASE_BYTES] > 0
    assert scheduler.mirror[pages.LEASE_BYTES] // 2 == last.mirror[pages.LEASE_BYTES]


def test_a_rank_that_no_other_rank_would_complete_keeps_nobody_out(serve: Serve) -> None:
    serving = serve(40)

    def ask(client: bytes, shard: int, region: int) -> Layout | Refuse:
        return serving.register(client, Register(bytes(32), (region,), shard, 2))

    for client in (A, B, C):
        greeted(serving, client)
    assert isinstance(ask(A, 0, PAGE), Refuse), "the other shard is missing"
    refused = ask(B, 0, 2 * PAGE)
    assert isinstance(refused, Refuse)
    assert "other regions" in refused.words
    assert isinstance(ask(C, 1, PAGE), Layout)
    assert isinstance(ask(A, 0, PAGE), Layout)
