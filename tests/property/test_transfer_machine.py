"""Clients and the worker's core in any order of steps: the budget holds, the books add up, no receipt is false.

In one process, with time as an argument; each client does what docs/store.md says, at whatever moment.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kvberth.store.control import Done, Hello, Layout, Refuse, Register
from kvberth.store.errors import Malformed
from kvberth.store.layout import pages, slots
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.rings import Commit, Grant, Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.store.locks import lock_path
from kvberth.store.reader import Reader
from kvberth.store.rings import ClientRings
from kvberth.store.walk import walk
from kvberth.transfer_worker import serving as serving_module
from kvberth.transfer_worker.answers import LATE_NS
from kvberth.transfer_worker.serving import Serving, ServingSettings, Totals
from support.store_memory import SMALL, content, key_of, small_memory

BUDGET = 20 * PAGE
GRANT_NS = 10**9
IDS = {name: name.encode() * 16 for name in "abc"}


@dataclass
class Client:
    """What a client knows."""

    rings: ClientRings
    quota: int = 0
    held: list[Grant] = field(default_factory=list)
    flying: dict[int, bytes] = field(default_factory=dict)
    connected: bool = True
    registered: bool = False


class Transfer(RuleBasedStateMachine):
    """The core of one epoch, its clients, and what they were told."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 10**12
        self.memory = small_memory()
        self.totals = Totals()
        self.alive: set[str] = set()
        self.clients: dict[str, Client] = {}
        self.taken: set[tuple[str, int]] = set()
        self.proved: set[tuple[str, int]] = set()
        self.real_is_held = serving_module.is_held
        serving_module.is_held = lambda path: path.name in self.alive
        self.serving = self.serve()

    def teardown(self) -> None:
        serving_module.is_held = self.real_is_held

    def serve(self) -> Serving:
        where = ServingSettings(Path("/nowhere"), BUDGET, GRANT_NS)
        return Serving(self.memory, where, self.totals, clock=lambda: self.now)

    def asked(self, name: str, size: int = PAGE) -> Register:
        return Register(bytes(32), (size,), 0, 1)

    def lock(self, name: str) -> str:
        return lock_path(Path("/nowhere"), self.memory.superblock.epoch, IDS[name]).name

    def commit(self, client: Client, grant: Grant, key: bytes) -> None:
        self.memory.data(grant.slot, PAGE, PAGE)[:] = self.data(client, key)
        client.rings.commit([Commit(key, grant.grant, grant.generation, grant.slot, PAGE)])
        client.rings.page[pages.ADMITTED] += 1
        client.flying[grant.grant] = key

    def data(self, client: Client, key: bytes) -> bytes:
        """What this client stores under a key."""
        return content(key, PAGE)

    def one(self, data: st.DataObject) -> str:
        """A client that is connected and registered."""
        while not self.connected():
            name = min(self.clients, default="a")
            self.greets(name)
            self.registers(name)
            if not self.connected():  # it doesn't fit beside what others may use: it goes, and frees what it had
                self.dies(name)
        return str(data.draw(st.sampled_from(self.connected())))

    def connected(self) -> list[str]:
        return [name for name, client in self.clients.items() if client.connected and client.registered]

    # --- clients ------------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(sorted(IDS)))
    def greets(self, name: str) -> None:
        """Comes, or comes back."""
        client = self.clients.get(name)
        if client is not None:
            client.rings.begin()
            client.held.clear()
        welcome = self.serving.greet(Hello(IDS[name], bytes(16)))
        if isinstance(welcome, Refuse):
            assert len(self.clients) >= SMALL.clients
            return
        self.alive.add(self.lock(name))
        client = client or Client(ClientRings(self.memory, welcome.place))
        self.clients[name] = client
        client.connected, client.registered, client.flying = True, False, {}
        self.taken = {each for each in self.taken if each[0] != name}
        self.proved = {each for each in self.proved if each[0] != name}

    @rule(name=st.sampled_from(sorted(IDS)), too_large=st.booleans())
    def registers(self, name: str, too_large: bool = False) -> None:
        """One that is refused may ask again, one that is in may not."""
        client = self.clients.get(name)
        if client is None or not client.connected:
            return
        asked = self.asked(name, SMALL.extent_bytes + 1 if too_large else PAGE)
        if client.registered:
            with pytest.raises(Malformed, match="registered already"):
                self.serving.register(IDS[name], asked)
            self.cut_off(name)
        else:
            client.registered = isinstance(self.serving.register(IDS[name], asked), Layout)
            assert not (client.registered and too_large)

    @rule(data=st.data())
    def lets_its_lock_go_and_talks_on(self, data: st.DataObject) -> None:
        """As no client of ours does: it is gone, whatever it goes on saying."""
        name = self.one(data)
        del self.clients[name]
        self.alive.discard(self.lock(name))
        assert self.serving.look_for_dead() == [IDS[name]]
        self.serving.done(IDS[name], Done((1,)))
        with pytest.raises(Malformed, match="is gone"):
            self.serving.register(IDS[name], self.asked(name))

    @rule(data=st.data())
    def adopts_and_queues(self, data: st.DataObject) -> None:
        client = self.clients[self.one(data)]
        if data.draw(st.booleans()):
            client.quota = client.rings.mirror[pages.QUEUE_BYTES]
            client.rings.page[pages.QUOTA_SEEN] = client.rings.mirror[pages.QUOTA]
        queued = int(client.rings.page[pages.QUEUED])
        if data.draw(st.booleans()):
            client.rings.page[pages.QUEUED] = max(queued, data.draw(st.integers(0, client.quota // PAGE)) * PAGE)
        else:
            client.rings.page[pages.QUEUED] = 0

    @rule(data=st.data(), count=st.integers(1, 6))
    def copies_and_commits(self, data: st.DataObject, count: int) -> None:
        client = self.clients[self.one(data)]
        client.held += client.rings.grants()
        for grant in client.held[:count]:
            key = key_of(data.draw(st.integers(0, 30)))
            self.commit(client, grant, key)
        del client.held[:count]
        if data.draw(st.booleans()):
            self.turns()

    @rule(data=st.data(), late=st.booleans(), done=st.booleans())
    def writes_into_its_slots(self, data: st.DataObject, late: bool, done: bool) -> None:
        """In time, or long after its time while others work: until it says "done", nobody else may have its slots."""
        name = self.one(data)
        client = self.clients[name]
        client.held += client.rings.grants()
        if late:
            self.time_passes(2 * GRANT_NS)
            for other in set(self.connected()) - {name}:
                self.commit_all(self.clients[other])
            self.turns()
        for grant in client.held:
            self.memory.data(grant.slot, PAGE, PAGE)[:] = b"\xee" * PAGE
        if done:
            self.serving.done(IDS[name], Done(tuple(grant.grant for grant in client.held)))
            client.held.clear()

    def commit_all(self, client: Client) -> None:
        """New blocks into new slots, round after round, until every slot was somebody's."""
        for _ in range(3):
            self.turns()
            client.held += client.rings.grants()
            for grant in client.held:
                key = key_of(31 + self.serving.store.books().published.blocks % 30)
                self.commit(client, grant, key)
            client.held.clear()
            self.the_daemon_answers()
            self.turns()

    @rule(data=st.data())
    def hears_receipts(self, data: st.DataObject) -> None:
        name = self.one(data)
        client = self.clients[name]
        for receipt in client.rings.receipts():
            del client.flying[receipt.grant]
            client.rings.page[pages.OUTCOMES + receipt.outcome] += 1
            if not receipt.outcome.dropped:
                assert (name, receipt.grant) in self.proved, "a receipt before the daemon's word"

    @rule(data=st.data(), what=st.sampled_from(["cut off", "dies", "worker"]))
    def breaks(self, data: st.DataObject, what: str) -> None:
        if what == "worker":
            self.is_killed_and_comes_back()
            return
        name = self.one(data)
        if what == "dies":
            self.dies(name)
        else:
            self.cut_off(name)

    def cut_off(self, name: str) -> None:
        self.clients[name].connected = False
        self.serving.lost(IDS[name])

    def dies(self, name: str) -> None:
        del self.clients[name]
        self.alive.discard(self.lock(name))
        self.serving.lost(IDS[name])

    # --- the worker ---------------------------------------------------------------------------------------------------

    @rule()
    def turns(self) -> None:
        _, bad = self.serving.turn()
        assert bad == []
        self.taken |= {(name, grant) for name in self.connected() for grant in self.clients[name].flying}

    @rule()
    def divides(self) -> None:
        assert self.serving.divide() == []

    @rule(passed=st.sampled_from([10**7, GRANT_NS // 2, 2 * GRANT_NS, 10 * GRANT_NS]))
    def time_passes(self, passed: int) -> None:
        self.now += passed
        self.serving.tend()
        self.serving.note_reads()

    @rule()
    def the_daemon_answers(self) -> None:
        self.proved |= self.taken
        self.serving.answer(self.now)

    @rule()
    def the_daemon_is_silent(self) -> None:
        self.now += LATE_NS + 1
        self.serving.answer(0)

    def is_killed_and_comes_back(self) -> None:
        for client in self.clients.values():
            client.connected = False
        self.serving = self.serve()

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def the_budget_holds(self) -> None:
        states = walk(self.memory).states
        held = sum(states[state].bytes for state in (SlotState.GRANTED, SlotState.QUARANTINED, SlotState.COMMITTED))
        queued = sum(int(client.rings.page[pages.QUEUED]) for client in self.clients.values())
        assert held + queued <= BUDGET
        assert self.totals.over_budget == 0

    @invariant()
    def the_books_are_what_a_stranger_finds(self) -> None:
        books, found = self.serving.store.books(), walk(self.memory)
        assert books.complaints(SMALL.data_bytes) == []
        assert found.complaints == ()
        assert found.states == books.states

    @invariant()
    def no_byte_is_wrong(self) -> None:
        reader = Reader(self.memory)
        for key, block in self.readable(reader):
            assert block == content(key, PAGE)

    def readable(self, reader: Reader) -> Iterator[tuple[bytes, bytes]]:
        for number in range(61):
            for block in reader.read([key_of(number)]):
                yield key_of(number), block


class TransferOfRanks(Transfer):
    """The same with blocks of two shards: "a" and "c" bring the first, "b" the second one."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: set[tuple[int, bytes]] = set()

    def asked(self, name: str, size: int = PAGE) -> Register:
        return Register(bytes(32), (size,), int(name == "b"), 2)

    def one(self, data: st.DataObject) -> str:
        while not self.connected():
            for name in ("a", "b", "a"):
                if name not in self.connected():
                    self.greets(name)
                    self.registers(name)
            if not self.connected():  # they don't fit, or a place is another's
                self.dies(max(self.clients))
        return str(data.draw(st.sampled_from(self.connected())))

    def data(self, client: Client, key: bytes) -> bytes:
        [name] = [name for name, each in self.clients.items() if each is client]
        self.committed.add((self.asked(name).shard, key))
        return shard_of(key, self.asked(name).shard)

    @rule(data=st.data(), number=st.integers(0, 30))
    def ranks_bring_one_block(self, data: st.DataObject, number: int) -> None:
        """One after the other, as those of one engine do; some fail."""
        self.one(data)
        for name in self.connected():
            client = self.clients[name]
            client.held += client.rings.grants()
            if client.held and data.draw(st.integers(0, 5)):
                self.commit(client, client.held.pop(), key_of(number))
                self.turns()

    @rule(data=st.data())
    def hears_receipts(self, data: st.DataObject) -> None:
        client = self.clients[self.one(data)]
        flying = dict(client.flying)
        for receipt in client.rings.receipts():
            del client.flying[receipt.grant]
            client.rings.page[pages.OUTCOMES + receipt.outcome] += 1
            event(f"heard {receipt.outcome.name}")
            if not receipt.outcome.dropped:
                both = {(shard, flying[receipt.grant]) for shard in (0, 1)}
                assert both <= self.committed, "a receipt before the other shard was there"

    def readable(self, reader: Reader) -> Iterator[tuple[bytes, bytes]]:
        """Of each block that is found both shards are there; only what they hold together is given."""
        for number in range(61):
            key = key_of(number)
            first = reader.find(key)
            if first is not None:
                second = self.memory.header(self.memory.word(first.slot, slots.NEXT) - 1)
                assert (second.key, second.shard, second.state) == (key, 1, SlotState.PUBLISHED)
                halves = [bytes(self.memory.data(slot, PAGE, PAGE)) for slot in (first.slot, self.next_of(first.slot))]
                assert halves == [shard_of(key, shard) for shard in (0, 1)]
                yield key, content(key, PAGE)

    def next_of(self, slot: int) -> int:
        return self.memory.word(slot, slots.NEXT) - 1

    @invariant()
    def what_waits_is_counted_once(self) -> None:
        waiting = sum(member.waiting for member in self.serving.members.values())
        assert waiting <= walk(self.memory).states[SlotState.COMMITTED].blocks


def shard_of(key: bytes, shard: int) -> bytes:
    return content(bytes([shard]) + key, PAGE)


TestTransfer = Transfer.TestCase
TestTransfer.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
TestTransferOfRanks = TransferOfRanks.TestCase
TestTransferOfRanks.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


def test_an_outcome_has_a_word_of_its_own() -> None:
    assert all(outcome < pages.OUTCOME_WORDS for outcome in Outcome)
