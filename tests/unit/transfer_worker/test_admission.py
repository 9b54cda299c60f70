"""The budget is divided so that clients together never use, nor may use, more than it."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvberth.transfer_worker.admission import Admission, Quota, Use

MIB = 1 << 20


def uses(admission: Admission, **queued: int) -> dict[bytes, Use]:
    return {name.encode(): Use(admission.quota(name.encode()).number, waiting, 0) for name, waiting in queued.items()}


def test_one_client_gets_all_with_grants_of_64_mib_at_most() -> None:
    admission = Admission(512 * MIB, 100)
    admission.enter(b"a", 2 * MIB)
    assert admission.divide({b"a": Use(0, 0, 0)}) == {b"a": Quota(1, 448 * MIB, 64 * MIB, 100)}
    assert admission.divide(uses(admission, a=0)) == {}


def test_the_second_client_gets_its_share_when_the_first_one_obeys_and_is_below() -> None:
    admission = Admission(64 * MIB, 100)
    admission.enter(b"a", 2 * MIB)
    admission.divide({b"a": Use(0, 0, 0)})
    admission.enter(b"b", 2 * MIB)
    first = admission.divide({b"a": Use(1, 30 * MIB, 0), b"b": Use(0, 0, 0)})
    assert first == {b"a": Quota(2, 16 * MIB, 16 * MIB, 50), b"b": Quota(1, 8 * MIB, 8 * MIB, 50)}, "what is left"
    assert admission.divide({b"a": Use(1, 0, 0), b"b": Use(1, 0, 0)}) == {}, "it has not said that it obeys"
    more_waits = admission.divide({b"a": Use(2, 20 * MIB, 0), b"b": Use(1, 0, 0)})
    assert more_waits == {b"b": Quota(2, 14 * MIB, 14 * MIB, 50)}
    given_on = admission.divide({b"a": Use(2, 16 * MIB, 0), b"b": Use(2, 0, 0)})
    assert given_on == {b"b": Quota(3, 16 * MIB, 16 * MIB, 50)}


def test_a_newcomer_gets_what_a_client_that_does_not_hear_leaves_and_at_least_two_slots_or_nothing() -> None:
    admission = Admission(64 * MIB, 100)
    admission.enter(b"a", 2 * MIB)
    assert admission.divide({b"a": Use(0, 0, 0)}, 50 * MIB) == {b"a": Quota(1, 7 * MIB, 7 * MIB, 100)}
    assert admission.divide({b"a": Use(1, 0, 0)}, 50 * MIB) == {}
    other = Admission(64 * MIB, 100)
    other.enter(b"a", 2 * MIB)
    assert other.divide({b"a": Use(0, 0, 0)}, 58 * MIB) == {}


def test_a_client_whose_least_share_does_not_fit_is_not_admitted() -> None:
    admission = Admission(16 * MIB, 100)
    assert admission.admits(4 * MIB)
    assert not admission.admits(5 * MIB)
    admission.enter(b"a", 2 * MIB)
    assert admission.admits(2 * MIB)
    assert not admission.admits(3 * MIB)


def test_what_a_client_leaves_is_given_to_the_others() -> None:
    admission = Admission(64 * MIB, 100)
    for name in (b"a", b"b"):
        admission.enter(name, MIB)
    admission.divide({b"a": Use(0, 0, 0), b"b": Use(0, 0, 0)})
    admission.leave(b"b")
    assert admission.divide(uses(admission, a=0)) == {b"a": Quota(2, 32 * MIB, 32 * MIB, 100)}


@dataclass
class Client:
    """A client that obeys when it likes, and lets wait whatever it may."""

    quota: Quota = field(default_factory=Quota)
    queued: int = 0
    granted: int = 0


class Budget(RuleBasedStateMachine):
    """Clients come, go, obey late and use what they may, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.admission = Admission(64, 10)
        self.clients: dict[bytes, Client] = {}

    def use(self) -> dict[bytes, Use]:
        return {name: Use(client.quota.number, client.queued, client.granted) for name, client in self.clients.items()}

    @rule(name=st.sampled_from([b"a", b"b", b"c", b"d"]), slot_bytes=st.integers(1, 6))
    def comes(self, name: bytes, slot_bytes: int) -> None:
        if name not in self.clients and self.admission.admits(slot_bytes):
            self.admission.enter(name, slot_bytes)
            self.clients[name] = Client()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def goes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.clients)))
        self.admission.leave(name)
        del self.clients[name]

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def obeys_and_uses(self, data: st.DataObject) -> None:
        client = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        client.queued = data.draw(st.integers(0, max(client.quota.queued, 0)))

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def hears(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.clients)))
        self.clients[name].quota = self.admission.quota(name)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def is_granted(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.clients)))
        self.clients[name].granted = data.draw(st.integers(0, self.admission.quota(name).granted))

    @rule()
    def divides(self) -> None:
        if self.clients:
            self.admission.divide(self.use())

    @invariant()
    def is_within_the_budget(self) -> None:
        assert sum(client.queued + client.granted for client in self.clients.values()) <= 64
        use = self.use()
        assert sum(self.admission.reserved(name, use[name]) for name in self.clients) <= 64


TestBudget = Budget.TestCase
TestBudget.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(st.lists(st.integers(1, 10), min_size=1, max_size=5))
def test_clients_that_obey_end_with_everything_but_a_rounding(slots: list[int]) -> None:
    admission = Admission(200, 10)
    names = []
    for number, slot_bytes in enumerate(slots):
        if admission.admits(slot_bytes):
            names.append(bytes([number]))
            admission.enter(names[-1], slot_bytes)
    for _ in range(3):
        admission.divide({name: Use(admission.quota(name).number, 0, 0) for name in names})
    told = [admission.quota(name) for name in names]
    assert 200 - sum(quota.queued + quota.granted for quota in told) < len(names)
