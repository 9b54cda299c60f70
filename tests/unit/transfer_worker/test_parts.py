"""Ranks of one engine served together: what each is told of a block must be so for all of it."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kvberth.store.control import Hello, Layout, Refuse, Register, Welcome
from kvberth.store.layout import pages
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.rings import Commit, Grant, Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.store.memory import StoreMemory
from kvberth.store.rings import ClientRings
from kvberth.store.shard_reader import ShardReader
from kvberth.store.shards import WAIT_NS, Part
from kvberth.transfer_worker import serving as serving_module
from kvberth.transfer_worker.answers import LATE_NS
from kvberth.transfer_worker.serving import Serving, ServingSettings, Totals
from kvberth.transfer_worker.snapshot import snapshot_of
from support.store_memory import SMALL, content, key_of, small_memory

A, B, C, D = (name * 16 for name in (b"a", b"b", b"c", b"d"))
"""A and B are the ranks of one engine, C and D of another one with the same model."""
SIZES = {A: PAGE, B: 3 * PAGE, C: PAGE, D: 3 * PAGE}
SHARD = {A: 0, B: 1, C: 0, D: 1}
BUDGET = 60 * PAGE
KEY = key_of(1)


@dataclass
class Worker:
    """A worker whose clock stands until it is moved; every client lives."""

    memory: StoreMemory
    now: int = 10**12

    def __post_init__(self) -> None:
        self.dead: set[bytes] = set()
        self.grants: dict[bytes, list[Grant]] = {}
        self.serving = self.serve()

    def serve(self) -> Serving:
        settings = ServingSettings(Path("/nowhere"), BUDGET, 10**10)
        return Serving(self.memory, settings, Totals(), lambda: self.now)

    def asks(self, client: bytes, serving: Serving | None = None) -> Layout | Refuse:
        serving = serving or self.serving
        welcome = serving.greet(Hello(client, bytes(16)))
        assert isinstance(welcome, Welcome)
        return serving.register(client, Register(bytes(32), (SIZES[client],), SHARD[client], 2))

    def rings(self, client: bytes) -> ClientRings:
        """Of a client that has registered, and heard nothing yet."""
        rings = ClientRings(self.memory, self.serving.members[client].place)
        rings.begin()
        rings.page[pages.QUOTA_SEEN] = rings.mirror[pages.QUOTA]
        self.grants[client] = []
        return rings

    def come(self) -> tuple[ClientRings, ClientRings]:
        assert isinstance(self.asks(A), Refuse)
        assert isinstance(self.asks(B), Layout)
        assert isinstance(self.asks(A), Layout)
        one, two = self.rings(A), self.rings(B)
        self.serving.divide()
        self.serving.turn()
        return one, two

    def commit(self, client: bytes, rings: ClientRings, key: bytes = KEY, length: int | None = None) -> None:
        self.grants[client] += rings.grants()
        size, grant = SIZES[client], self.grants[client].pop(0)
        self.memory.data(grant.slot, size, size)[:] = content(key, size)
        length = size if length is None else length
        rings.commit([Commit(key, grant.grant, grant.generation, grant.slot, length)])
        _, bad = self.serving.turn()
        assert bad == []

    def waits(self, ns: int) -> None:
        self.now += ns
        self.serving.tend()

    def answer(self) -> None:
        self.serving.answer(self.now)

    def blocks(self, state: SlotState) -> int:
        return self.serving.store.books().states[state].blocks


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker(small_memory(replace(SMALL, clients=4)))
    monkeypatch.setattr(serving_module, "is_held", lambda path: not any(path.name.endswith(c.hex()) for c in made.dead))
    monkeypatch.setattr(serving_module, "forget", lambda _path: None)
    return made


def outcomes(rings: ClientRings) -> list[Outcome]:
    return [receipt.outcome for receipt in rings.receipts()]


def test_both_ranks_hear_stored_when_the_block_is_there_and_the_daemon_has_answered(worker: Worker) -> None:
    one, two = worker.come()
    worker.commit(A, one)
    worker.answer()
    assert outcomes(one) == []
    worker.commit(B, two)
    assert (outcomes(one), outcomes(two)) == ([], [])
    worker.answer()
    assert (outcomes(one), outcomes(two)) == ([Outcome.STORED], [Outcome.STORED])
    reader = ShardReader(worker.memory, client=0, clock=lambda: worker.now)
    assert [hit.length for hit in reader.lookup_blocks([KEY], Part(0, 2))] == [PAGE, 3 * PAGE]


def test_a_rank_that_is_refused_for_want_of_the_others_is_let_in_when_it_asks_again(worker: Worker) -> None:
    refused = worker.asks(A)
    assert isinstance(refused, Refuse)
    assert refused.reason == "layout"
    assert "on this node: 1." in refused.words
    worker.come()
    assert snapshot_of(worker.serving).clients == 2


def test_where_a_rank_fails_the_others_hear_of_it_after_two_seconds_and_nothing_is_left(worker: Worker) -> None:
    one, two = worker.come()
    worker.commit(A, one)
    worker.commit(B, two, length=0)
    assert outcomes(two) == [Outcome.LAYOUT]
    worker.dead.add(B)
    assert worker.serving.look_for_dead() == [B]
    worker.waits(WAIT_NS - 1)
    assert outcomes(one) == []
    worker.waits(1)
    assert outcomes(one) == [Outcome.SHARD]
    assert worker.blocks(SlotState.COMMITTED) == worker.blocks(SlotState.PUBLISHED) == 0
    assert worker.serving.members[A].waiting == 0


def test_what_waits_counts_in_its_clients_quota_and_when_that_is_gone_nothing_is_granted(worker: Worker) -> None:
    one, _ = worker.come()
    member = worker.serving.members[A]
    quota = worker.serving.admission.quota(A).granted
    for number in range(quota // PAGE):
        worker.commit(A, one, key_of(number))
        assert member.held_bytes <= quota
    assert (member.waiting, len(member.held)) == (quota // PAGE, 0)
    assert snapshot_of(worker.serving).granted == worker.serving.store.held_bytes >= quota
    worker.serving.divide()
    assert worker.serving.totals.over_budget == 0
    worker.waits(WAIT_NS)
    worker.serving.turn()
    assert (member.waiting, len(member.held)) == (0, quota // PAGE)


def test_a_client_that_dies_with_a_shard_that_waits_leaves_it_waiting(worker: Worker) -> None:
    one, two = worker.come()
    worker.commit(A, one)
    worker.dead.add(A)
    assert worker.serving.look_for_dead() == [A]
    assert worker.blocks(SlotState.COMMITTED) == 1
    worker.serving.divide()
    worker.commit(B, two)
    worker.answer()
    assert outcomes(two) == [Outcome.STORED]
    assert worker.serving.store.contains(KEY)


def test_a_client_that_greets_anew_has_nothing_waiting_since_it_looks_at_the_headers(worker: Worker) -> None:
    one, two = worker.come()
    worker.commit(A, one)
    worker.commit(A, one, key_of(2))
    worker.commit(B, two)
    assert worker.serving.members[A].waiting == 1
    worker.serving.greet(Hello(A, bytes(16)))
    assert worker.serving.members[A].waiting == 0
    assert worker.blocks(SlotState.COMMITTED) == worker.blocks(SlotState.PUBLISHED) == 0
    worker.answer()
    assert outcomes(two) == [Outcome.DEGRADED]


def test_the_same_shard_twice_is_stored_once_and_present_when_the_block_is_there(worker: Worker) -> None:
    one, two = worker.come()
    worker.commit(A, one)
    worker.commit(A, one)
    assert outcomes(one) == []
    assert worker.serving.members[A].waiting == 1
    worker.commit(B, two)
    worker.answer()
    assert outcomes(one) == [Outcome.STORED, Outcome.PRESENT]
    worker.commit(A, one, key_of(3))
    worker.commit(A, one, key_of(3))
    worker.waits(WAIT_NS)
    assert outcomes(one) == [Outcome.SHARD] * 2


def test_two_engines_that_store_the_same_block_have_it_from_either_ones_ranks(worker: Worker) -> None:
    worker.come()
    assert isinstance(worker.asks(C), Layout), "another engine's ranks are there already, and bring the same shards"
    assert isinstance(worker.asks(D), Layout)
    for _ in range(3):
        rings = {client: worker.serving.members[client].rings for client in SHARD}
        for each in rings.values():
            each.page[pages.QUOTA_SEEN] = each.mirror[pages.QUOTA]
        worker.serving.divide()
        worker.serving.turn()
    one, two, three, four = (worker.rings(client) for client in SHARD)
    worker.commit(A, one)
    worker.commit(C, three)
    worker.commit(D, four)
    worker.commit(B, two)
    worker.answer()
    assert [outcomes(each) for each in (one, two, three, four)] == [
        [Outcome.STORED], [Outcome.PRESENT], [Outcome.PRESENT], [Outcome.STORED],
    ]  # fmt: skip
    assert worker.blocks(SlotState.PUBLISHED) == 2
    assert [member.waiting for member in worker.serving.members.values()] == [0] * 4


def test_shards_that_the_daemon_does_not_answer_for_are_taken_out_together(worker: Worker) -> None:
    one, two = worker.come()
    worker.commit(A, one)
    worker.commit(B, two)
    worker.now += LATE_NS
    worker.serving.answer(0)
    assert (outcomes(one), outcomes(two)) == ([Outcome.DEGRADED], [Outcome.DEGRADED])
    assert worker.blocks(SlotState.PUBLISHED) == 0


def test_the_next_worker_frees_what_waited_and_waits_for_all_ranks_anew(worker: Worker) -> None:
    one, _ = worker.come()
    worker.commit(A, one)
    worker.serving = worker.serve()
    assert worker.blocks(SlotState.COMMITTED) == 0
    worker.come()


def test_a_client_without_regions_only_reads(worker: Worker) -> None:
    assert isinstance(worker.serving.greet(Hello(B, bytes(16))), Welcome)
    answer = worker.serving.register(B, Register(bytes(32), (), 0, 2))
    assert isinstance(answer, Layout)
    quota = worker.serving.admission.quota(B)
    assert (quota.queued, quota.granted) == (0, 0)
    assert quota.leased == worker.memory.geometry.data_bytes // 2
    assert worker.serving.turn() == (False, [])
    assert worker.serving.members[B].held == {}
    assert isinstance(worker.serving.greet(Hello(A, bytes(16))), Welcome)
    assert isinstance(worker.serving.register(A, Register(bytes(32), (PAGE,), 0, 1)), Layout)
    assert worker.serving.admission.quota(A).queued > 0
    worker.serving.divide()
    assert worker.serving.admission.quota(B).leased == worker.memory.geometry.data_bytes // 2 // 2, "no rank is there"
