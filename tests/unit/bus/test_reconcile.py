"""Desired × found → what a writer does."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth.bus.consumer import Delivery
from kvberth.bus.reconcile import Absent, Action, Case, Found, Policy, judge
from kvberth_schemas import subjects
from kvberth_schemas.envelope import TERM, Envelope
from kvberth_schemas.registry import encode
from kvberth_schemas.subjects import WantKind
from kvberth_schemas.wants import DirWantV1, Why
from unit.bus.sample import NOW, delivery, found, garbage, gone, lost, statement

POLICY = Policy(term=3, absent=Absent.GONE, ready=True, stale_after=timedelta(hours=12))
OLD_S = 13 * 3600.0

CASES = {
    "nothing there": (Case(statement(lost()), None), Action.SAY),
    "nothing there, and it was tried": (Case(statement(lost()), None, attempted=0), Action.SAY),
    "our own word": (Case(statement(lost()), found(lost())), Action.NOTHING),
    "the same under another id": (Case(statement(lost(), "id-2"), found(lost(), "id-1")), Action.ADOPT),
    "something else": (Case(statement(lost("b"), "id-2"), found(lost("a"))), Action.SAY),
    "something else, refused before": (Case(statement(lost("b")), found(lost("a"), sequence=4), 4), Action.SAY),
    "ours may lie beneath": (Case(statement(lost("b")), found(lost("a"), sequence=5), 4), Action.SAY_AGAIN),
    "removed after it was stored": (Case(statement(lost()), None, attempted=4), Action.SAY_AGAIN),
    "garbage": (Case(statement(lost()), garbage()), Action.SAY),
    "garbage over our word": (Case(statement(lost()), garbage(9), attempted=4), Action.SAY_AGAIN),
    "too old": (Case(statement(lost()), found(lost(), age_s=OLD_S)), Action.REFRESH),
    "the same, said by another, too old": (Case(statement(lost(), "x"), found(lost(), age_s=OLD_S)), Action.REFRESH),
    "a thing that is not there any more": (Case(None, found(lost())), Action.SAY_GONE),
    "said to be gone already": (Case(None, found(gone())), Action.NOTHING),
    "said to be gone long ago": (Case(None, found(gone(), age_s=OLD_S)), Action.NOTHING),
    "nothing desired, nothing there": (Case(None, None), Action.NOTHING),
    "garbage about nothing": (Case(None, garbage()), Action.REMOVE),
    "a higher term": (Case(statement(lost("b")), found(lost(), term=4)), Action.YIELD),
    "a higher term says the same": (Case(statement(lost()), found(lost(), term=4)), Action.YIELD),
    "a higher term where nothing is desired": (Case(None, found(lost(), term=4)), Action.YIELD),
    "our own term": (Case(statement(lost("b"), "id-2"), found(lost(), term=3)), Action.SAY),
}


@pytest.mark.parametrize(("case", "action"), CASES.values(), ids=CASES.keys())
def test_a_writer_does_what_the_stream_needs(case, action):
    assert judge(case, POLICY, NOW) is action


@pytest.mark.parametrize("policy", [replace(POLICY, absent=Absent.KEEP), replace(POLICY, ready=False)])
@pytest.mark.parametrize("there", [found(lost()), garbage()])
def test_nothing_is_gone_for_a_keeper_nor_before_everything_is_known(policy, there):
    assert judge(Case(None, there), policy, NOW) is Action.NOTHING


def test_a_wants_term_is_the_one_in_its_body():
    want = DirWantV1(term=7, state="keep", why=Why.WANTED, namespace="default", kvcache="kv")
    subject = subjects.want(WantKind.DIR, "a", "default", "kv")
    headers = Envelope("id-1", want.ce_type, "/kvberth/placement/x", NOW, str(subject)).headers() | {TERM: "99"}
    assert Found.of(Delivery(str(subject), headers, encode(want), 1)).term == 7


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "٣", "9" * 30])
def test_a_term_that_is_no_number_deposes_nobody(text):
    message = delivery(lost())
    spoilt = Delivery(message.subject, dict(message.headers) | {TERM: text}, message.body, 1)
    assert Found.of(spoilt).term == 0


cases = st.builds(
    Case,
    st.one_of(st.none(), st.builds(statement, st.builds(lost, st.sampled_from("ab")), st.sampled_from(["1", "2"]))),
    st.one_of(
        st.none(),
        st.builds(garbage, st.integers(1, 3)),
        st.builds(
            found,
            st.one_of(st.builds(lost, st.sampled_from("ab")), st.just(gone())),
            st.sampled_from(["1", "2"]),
            sequence=st.integers(1, 3),
            term=st.integers(0, 3),
            age_s=st.sampled_from([0.0, OLD_S]),
        ),
    ),
    st.one_of(st.none(), st.integers(-1, 3)),
)


@given(cases, st.sampled_from(Absent), st.booleans())
def test_what_is_said_is_never_judged_a_second_time(case, absent, ready):
    """One action settles a subject: after it the verdict is nothing, so that no writer talks for ever."""
    policy = replace(POLICY, absent=absent, ready=ready)
    action = judge(case, policy, NOW)
    after = _done(case, action)
    assert judge(after, policy, NOW) is Action.NOTHING


@given(cases, st.sampled_from(Absent), st.booleans())
def test_what_is_desired_is_in_the_end_what_is_found(case, absent, ready):
    policy = replace(POLICY, absent=absent, ready=ready)
    after = _done(case, judge(case, policy, NOW))
    if case.desired is not None:
        assert after.found is not None
        assert after.found.body == case.desired.body
    elif absent is Absent.KEEP or not ready:
        assert after == case


def _done(case, action):
    next_sequence = case.sequence + 1
    if action in (Action.SAY, Action.SAY_AGAIN, Action.REFRESH):
        name = case.desired.envelope.id if action is Action.SAY else "new"
        said = replace(case.desired, envelope=replace(case.desired.envelope, id=name, time=NOW))
        headers = said.envelope.headers()
        stored = Found.of(Delivery(said.envelope.subject, headers, said.body, next_sequence))
        return Case(said, stored, case.sequence)
    if action is Action.ADOPT:
        return replace(case, desired=replace(case.desired, envelope=case.found.envelope), attempted=None)
    if action is Action.SAY_GONE:
        return Case(None, found(gone(), "bye", sequence=next_sequence))
    if action is Action.REMOVE:
        return Case(None, None)
    return case
