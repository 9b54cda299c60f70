"""Whatever is seen of a cache: the verdict never claims what nobody proved, and never doubts what was proven."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kvberth.node_agent.health.verdict import (
    KNOWN_FOR,
    RENEW_EVERY,
    Cache,
    Failed,
    Late,
    NoEvidence,
    Proven,
    Standing,
    judge,
)
from kvberth_schemas.events import HealthReason, Verdict


def _half_minute(at):
    return int(at.timestamp() // RENEW_EVERY.total_seconds())


CACHE = Cache("l20-a", "default", "k", "/r/default/k/vineyard.sock")
START = datetime(2026, 1, 1, tzinfo=UTC)
FAILURES = [reason for reason in HealthReason if reason not in {HealthReason.PROVEN, HealthReason.SLOW}]

proven = st.builds(
    Proven,
    incarnation=st.sampled_from(["i1", "i2"]),
    round_trip_s=st.floats(0.001, 2),
    call_s=st.floats(0, 0.4),
    memory_usage=st.integers(64, 1 << 20),
    memory_limit=st.just(1 << 26),
    seen_s=st.floats(0, 0.4),
)
failed = st.builds(Failed, st.sampled_from(FAILURES), st.sampled_from(["a", "b"]))
late = st.builds(Late, st.booleans(), st.just(0.4))
blind = st.builds(NoEvidence, st.sampled_from(["a", "b"]))
looks = st.lists(st.tuples(st.floats(0.05, 20), st.one_of(proven, failed, late, blind)), max_size=40)


def history(seen):
    """Each look with its time, the standing after it, and what was said of it."""
    now, standing, found = START, Standing(), []
    for seconds, look in seen:
        now += timedelta(seconds=seconds)
        standing, event = judge(CACHE, standing, look, now)
        found.append((now, look, standing, event))
    return found


@given(looks)
def test_after_a_proof_and_after_a_certain_failure_the_verdict_is_what_was_seen(seen):
    for _, look, standing, _ in history(seen):
        if isinstance(look, Proven):
            assert standing.said.verdict in {Verdict.HEALTHY, Verdict.DEGRADED}
            assert standing.said.incarnation == look.incarnation
        if isinstance(look, Failed):
            assert (standing.said.reason, standing.said.message) == (look.reason, look.message)
            assert standing.said.verdict is not Verdict.HEALTHY


@given(looks)
def test_healthy_is_said_of_proofs_only_and_stands_while_nothing_speaks_against_it(seen):
    last, since_last = None, []
    for now, look, standing, event in history(seen):
        if isinstance(look, Proven):
            last, since_last = now, []
        else:
            since_last.append(look)
        if event is not None and event.verdict is Verdict.HEALTHY:
            assert event.last_proof == now
            assert isinstance(look, Proven)
        if standing.said is not None and standing.said.verdict is Verdict.HEALTHY:
            assert last is not None
            assert not any(isinstance(item, Failed) for item in since_last)
            assert sum(isinstance(item, Late) for item in since_last) <= 2


@given(looks)
def test_the_last_proof_is_never_later_than_it_was_and_never_invented(seen):
    last = None
    for now, look, standing, event in history(seen):
        last = now if isinstance(look, Proven) else last
        assert standing.proof == last
        if event is not None:
            assert event.last_proof == last


@given(looks)
def test_hung_needs_two_deadlines_in_a_row_in_which_nothing_was_answered(seen):
    row = 0
    for _, look, _, event in history(seen):
        if isinstance(look, Late) and not look.answered:
            row += 1
        elif not isinstance(look, NoEvidence):
            row = 0
        if event is not None and event.reason == HealthReason.HUNG and isinstance(look, Late):
            assert row >= 2


@given(looks)
def test_what_is_no_evidence_changes_a_verdict_only_to_unknown_and_only_after_its_time(seen):
    evidence = None
    for now, look, _, event in history(seen):
        if not isinstance(look, NoEvidence):
            evidence = now
        else:
            evidence = evidence or now
            if event is not None:
                assert event.verdict is Verdict.UNKNOWN
                assert now - evidence >= KNOWN_FOR


@given(looks)
def test_two_events_in_a_row_differ_or_renew_the_time_of_the_proof(seen):
    events = [event for *_, event in history(seen) if event is not None]
    for before, after in pairwise(events):
        matter = [(e.incarnation, e.verdict, e.reason, e.message, e.memory_limit) for e in (before, after)]
        renewed = before.last_proof is None or _half_minute(after.last_proof) > _half_minute(before.last_proof)
        assert matter[0] != matter[1] or renewed
