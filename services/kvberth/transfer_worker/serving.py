"""One epoch of a store, served: clients greet and register, are granted slots, commit, get receipts, and go.

One thread runs it, turn by turn; nothing in it waits. Its rules are docs/store.md's; what is divided decides
`admission`, when a receipt may be given `answers`, and where blocks lie the store itself.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from kvberth.store.blockstore import BlockStore
from kvberth.store.control import MAX_GRANTS, Done, Hello, Layout, Refuse, Register, Welcome, layout_of
from kvberth.store.errors import LayoutRefused, Malformed
from kvberth.store.fences import FenceKind, worker_fence
from kvberth.store.layout import pages
from kvberth.store.layout.rings import Commit, Grant, Outcome, Receipt
from kvberth.store.locks import forget, is_held, lock_path
from kvberth.store.memory import ASLEEP, SESSION, StoreMemory
from kvberth.store.rings import WorkerRings
from kvberth.store.shards import WAIT_NS, WHOLE, Part
from kvberth.transfer_worker.admission import LEAST_SLOTS, Admission, Use
from kvberth.transfer_worker.answers import Answer, Answers
from kvberth.transfer_worker.member import Directory, Member
from kvberth.transfer_worker.moment import Counted
from kvberth.transfer_worker.parts import Parts
from kvberth.transfer_worker.ranks import conflict, missing, weight
from kvberth.transfer_worker.scrubber import Scrubber

BUSY_NS = 5_000_000_000
"""A client that has committed nothing for so long has two slots granted ahead, no more."""
_AT_ONCE = 32
"""Commits of one client, and grants to it, in one turn: the others come to their turn."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """What one epoch is served with: bytes, ns, and the directory of the daemon's socket."""

    directory: Path
    budget: int
    grant_ns: int
    scrub_bytes_s: int = 0
    shard_wait_ns: int = WAIT_NS


@dataclass
class Totals:
    """What became of the blocks of clients that are gone, and who was refused or cut off, by reason."""

    admitted: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    departed: deque[tuple[str, Counted]] = field(default_factory=lambda: deque(maxlen=64))
    """The last clients that are gone, and what became of their blocks in the end."""
    over_budget: int = 0
    """How often more bytes were used than the budget has: never, unless something is broken."""


class Serving:
    """The store of one epoch and its clients."""

    def __init__(
        self,
        memory: StoreMemory,
        settings: ServingSettings,
        totals: Totals,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.memory = memory
        self.store = BlockStore(memory, clock=clock)
        self.epoch = memory.superblock.epoch
        self.admission = Admission(settings.budget, memory.geometry.data_bytes // 2)
        self.answers = Answers()
        self.store.joiner.shards.wait_ns = settings.shard_wait_ns
        self._parts = Parts(self.store)
        rate = settings.scrub_bytes_s if memory.superblock.checksum else 0  # without checksums nothing can differ
        self.scrubber = Scrubber(self.store.scrub, rate, clock())
        self.members: dict[bytes, Member] = {}
        self.totals = totals
        self._settings = settings
        self._clock = clock
        self._fence = worker_fence(FenceKind(memory.superblock.fence))
        self._directory = Directory(memory)
        self._spoken: dict[bytes, int] = {}
        self._refused = ("", "")
        self._session = int(memory.worker_words[SESSION])
        self.store.places = self._places = set(self._directory.known().values())
        for client, place in self._directory.known().items():
            self.members[client] = Member(client, place, WorkerRings(memory, place), connected=False)
        self.look_for_dead()

    # --- words on the socket ------------------------------------------------------------------------------------------

    def greet(self, hello: Hello) -> Welcome | Refuse:
        """A client comes, or comes back: whatever it held of an earlier session is free. `maps` are the caller's."""
        member = self.members.get(hello.client)
        if member is None:
            place = self._directory.take(hello.client)
            if place is None:
                return self.refuse("clients", f"All {self.memory.geometry.clients} places for clients are taken.")
            member = self.members[hello.client] = Member(hello.client, place, WorkerRings(self.memory, place))
            self._places.add(place)
        self._free_held(member)
        # It looks at the headers for what it was not told of: what the daemon has not answered for must not be there.
        self._take_out(self.answers.of(hello.client))
        self._settled(self._parts.leave(hello.client))
        member.registered = False
        self.admission.leave(hello.client)  # until it registers its words say what it uses, see `_elsewhere`
        member.rings = WorkerRings(self.memory, member.place)
        self._session += 1
        member.session, member.connected = self._session, True
        member.rings.begin(member.session)
        return Welcome(self.epoch, member.place, (), ())

    def register(self, client: bytes, asked: Register) -> Layout | Refuse:
        """A client that holds its lock says what its blocks are; what cannot be is refused with a reason.

        Raises Malformed where it is registered, or gone by the word of its lock.
        """
        member = self.members.get(client)
        if member is None:
            raise Malformed("a client registers that is gone: its lock was free")
        if member.registered:
            raise Malformed("a client registers that is registered already: a new hello comes first")
        if not is_held(lock_path(self._settings.directory, self.epoch, client)):
            return self.refuse("denied", "A client holds the lock on its file in clients/ before it registers.")
        others = [each.asked for each in self.members.values() if each is not member and each.asked]
        why = conflict(asked, others, self.memory.geometry.clients)
        member.asked = None if why else asked
        why = why or missing(asked, others)
        if why is not None:
            return self.refuse("layout", why)
        return self._let_in(member, asked) if asked.regions else self._let_read(member)

    def done(self, client: bytes, done: Done) -> None:
        """Slots that a client will not write into any more; what is not its own, or of nobody, is passed over."""
        member = self.members.get(client)
        if member is None:
            return
        for number in done.grants:
            if (held := member.held.pop(number, None)) is not None:
                self.store.give_up(*held, client)

    def lost(self, client: bytes) -> None:
        """A client's connection has ended: gone, or about to come back."""
        if (member := self.members.get(client)) is not None:
            member.connected = False
            self._look(member)

    def refuse(self, reason: str, words: str) -> Refuse:
        """Counts a refusal and says it."""
        self.totals.refused[reason] += 1
        if self._refused != (reason, words):  # who is refused asks again and again
            self._refused = reason, words
            _log.warning("a client is refused", reason=reason, words=words)
        return Refuse(reason, words)

    def _let_in(self, member: Member, asked: Register) -> Layout | Refuse:
        layout, block_bytes = layout_of(asked.fingerprint, asked.regions), sum(asked.regions)
        try:
            slot_bytes = self.store.register(layout, block_bytes)
        except LayoutRefused as error:
            return self.refuse("layout", f"{error}.")
        if not self.admission.admits(slot_bytes, self._elsewhere(member)):
            return self.refuse("budget", f"{LEAST_SLOTS} slots of {slot_bytes} bytes more do not fit into the budget.")
        member.layout, member.slot_bytes, member.registered = layout, slot_bytes, True
        member.part = Part(asked.shard, asked.shards)
        member.before = member.before or member.counts()[1]
        self.admission.enter(member.client, slot_bytes)
        self.divide()
        self._refill(member)
        return Layout(layout, slot_bytes, member.session)

    def _let_read(self, member: Member) -> Layout:
        """A client that copies nothing: it leases all shards of what it finds, and its quotas let nothing in."""
        member.layout, member.slot_bytes, member.registered, member.part = 0, 1, True, WHOLE
        self.admission.enter(member.client, 0)
        self.divide()
        return Layout(0, member.slot_bytes, member.session)

    # --- turns --------------------------------------------------------------------------------------------------------

    def turn(self, taken: Callable[[], None] = lambda: None) -> tuple[bool, list[tuple[bytes, Malformed]]]:
        """Takes what was committed, calls `taken`, and grants anew. Returns whether anything came, and who said
        nonsense."""
        worked, bad = False, []
        present = [member for member in self.members.values() if member.registered and member.connected]
        for member in present:
            try:
                worked |= self._take_commits(member)
            except Malformed as error:
                bad.append((member.client, error))
        taken()
        for member in present:
            self._refill(member)
        return worked, bad

    def answer(self, proved_ns: int) -> None:
        """Gives the receipts that the daemon's last answer covers; drops what has waited too long for one."""
        self._give(self.answers.proved(proved_ns))
        late = self.answers.late(self._clock())
        if late:
            self._take_out(late)
            self._give([answer._replace(outcome=Outcome.DEGRADED) for answer in late])

    def sleepers(self) -> list[bytes]:
        """The clients to whom something was said since the last call, and who wait for a byte that tells them so."""
        if not self._spoken:
            return []
        self._fence()  # between the rings' tails and the look at who sleeps
        spoken, self._spoken = self._spoken, {}
        members = ((self.members[client], said) for client, said in spoken.items() if client in self.members)
        return [member.client for member, said in members if member.rings.page[pages.SLEEPS] & said]

    def divide(self) -> list[tuple[bytes, Malformed]]:
        """Gives quotas anew; returns who said nonsense."""
        uses, bad = {}, []
        registered = self._registered()
        copying = [member.asked for member in registered if member.layout and member.asked]
        for member in registered:
            if not member.layout and member.asked:
                self.admission.weigh(member.client, weight(member.asked, copying))
            quota = self.admission.quota(member.client)
            try:
                uses[member.client] = member.use(quota, self.admission.budget)
            except Malformed as error:
                bad.append((member.client, error))
                uses[member.client] = Use(0, 0, member.held_bytes)
        elsewhere = self._elsewhere()
        for client, quota in self.admission.divide(uses, elsewhere).items() if uses else ():
            self.members[client].tell(quota)
        used = self.store.held_bytes + sum(use.queued for use in uses.values())
        self.totals.over_budget += used > self.admission.budget
        return bad

    def tend(self) -> None:
        """What time brings: grants end, dying slots are freed, blocks are compared with their checksums."""
        self.store.expire()
        self.store.reap()
        self._settled(self._parts.late())
        self.scrubber.tend(self._clock())

    def note_reads(self) -> None:
        """Makes the blocks young that are leased: a look at all leases, for now and then."""
        self.store.note_reads()

    def look_for_dead(self) -> list[bytes]:
        """Frees all that clients had whose lock is free; returns those clients, whose connections are to be ended."""
        return [member.client for member in list(self.members.values()) if self._look(member)]

    def may_sleep(self) -> bool:
        """Says to clients that the worker sleeps, then looks once more whether one has just committed."""
        self.memory.worker_words[ASLEEP] = 1
        self._fence()
        try:
            waiting = any(member.rings.waiting() for member in self._registered() if member.connected)
        except Malformed:
            waiting = True  # `turn` says whose words those are
        if waiting:
            self.wake()
            return False
        return True

    def wake(self) -> None:
        self.memory.worker_words[ASLEEP] = 0

    # --- inside -------------------------------------------------------------------------------------------------------

    def _registered(self) -> list[Member]:
        return [member for member in self.members.values() if member.registered]

    def _elsewhere(self, but: Member | None = None) -> int:
        """Bytes that are not a registered client's: those that are not registered at this moment come back with their
        queue, and what an earlier worker granted to them is theirs until they greet."""
        budget = self.admission.budget
        away = [member for member in self.members.values() if not member.registered and member is not but]
        granted = self.store.held_bytes - sum(member.held_bytes for member in self._registered())
        return granted + sum(member.may_wait(budget) for member in away)

    def _take_commits(self, member: Member) -> bool:
        commits = member.rings.commits(_AT_ONCE)
        if not commits:
            return False
        if member.part.shards > 1:
            self._settled(self._parts.take(member, commits))
            member.busy_ns = self._clock()
            return True
        outcomes = [self._settle(member, commit) for commit in commits]
        now = self._clock()  # after all of them are published: the daemon is asked later
        answers = [
            Answer(member.client, member.session, commit.grant, commit.generation, commit.key, outcome, now)
            for commit, outcome in zip(commits, outcomes, strict=True)
        ]
        self.answers.add(answer for answer in answers if answer.outcome < Outcome.QUEUE_FULL)
        self._give([answer for answer in answers if answer.outcome >= Outcome.QUEUE_FULL])
        member.busy_ns = now
        return True

    def _settled(self, answers: Sequence[Answer]) -> None:
        """Outcomes that have just come about: those of blocks that are there wait for the daemon's word."""
        now = self._clock()
        self.answers.add(answer._replace(at_ns=now) for answer in answers if not answer.outcome.dropped)
        self._give([answer for answer in answers if answer.outcome.dropped])

    def _settle(self, member: Member, commit: Commit) -> Outcome:
        held = member.held.get(commit.grant)
        if held is None or held != (commit.slot, commit.generation):
            return Outcome.EXPIRED
        del member.held[commit.grant]
        return self.store.commit(commit.slot, commit.generation, member.client, commit.key, commit.length)

    def _give(self, answers: Sequence[Answer]) -> None:
        """The last word on commits; nobody hears it where the client has begun anew."""
        told: dict[bytes, list[Receipt]] = {}
        for answer in answers:
            member = self.members.get(answer.client)
            if member is not None and member.session == answer.session:
                receipt = Receipt(answer.grant, answer.outcome, answer.generation)
                told.setdefault(answer.client, []).append(receipt)
        for client, receipts in told.items():
            self.members[client].rings.receipt(receipts)
            self.store.answered(receipt.outcome for receipt in receipts)
            self._spoken[client] = self._spoken.get(client, 0) | pages.HEARS_RECEIPTS

    def _take_out(self, unproved: list[Answer]) -> None:
        """Blocks that the daemon has not answered for; others may wait to hear that they are there."""
        keys = {answer.key for answer in unproved if answer.outcome is Outcome.STORED}
        if keys:
            self.store.remove(keys)
            self.answers.taken_out(keys)

    def _refill(self, member: Member) -> None:
        quota = self.admission.quota(member.client).granted
        idle = self._clock() - member.busy_ns > BUSY_NS and not member.queued_bytes
        credit = min(quota, LEAST_SLOTS * member.slot_bytes) if idle else quota
        more = min((credit - member.held_bytes) // member.slot_bytes, MAX_GRANTS - len(member.held), _AT_ONCE)
        if more <= 0:
            return
        granted = self.store.grant_some(member.layout, member.client, self._settings.grant_ns, more, member.part)
        member.rings.mirror[pages.FULL] = len(granted) < more
        if granted:
            member.held.update((number, (slot, generation)) for slot, generation, number in granted)
            member.rings.grant([Grant(number, slot, generation) for slot, generation, number in granted])
            self._spoken[member.client] = self._spoken.get(member.client, 0) | pages.HEARS_GRANTS

    def _free_held(self, member: Member) -> None:
        """Nothing that it was granted is in use any more, by its own word or by its end."""
        self.store.drop_holder(member.client)
        member.held.clear()

    def _look(self, member: Member) -> bool:
        """Forgets a client that is gone: what it offered and did not hear of is dropped(cancelled). Whether it is."""
        path = lock_path(self._settings.directory, self.epoch, member.client)
        if (member.connected and not member.registered) or is_held(path):
            return False
        admitted, outcomes = member.counts()
        self.totals.admitted += admitted
        outcomes[Outcome.CANCELLED] = outcomes.get(Outcome.CANCELLED, 0) + admitted - sum(outcomes.values())
        self.totals.outcomes.update(outcomes)
        self.totals.departed.append((member.client.hex(), Counted(outcomes, member.before, member.slot_bytes)))
        self._free_held(member)
        self.admission.leave(member.client)
        self._directory.give_back(member.place)
        self._places.discard(member.place)
        del self.members[member.client]
        forget(path)
        _log.info("a client is gone", client=member.client.hex())
        return True
