"""Patterns, terms, signs of life, pauses, changes and lifetimes."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth.bus import NotOurs
from kvberth.bus.changes import Changes
from kvberth.bus.lifetime import Lifetime
from kvberth.bus.patterns import covers, stream_of
from kvberth.bus.pause import Pause
from kvberth.bus.pulses import Pulses
from kvberth.bus.terms import Terms
from kvberth_schemas import subjects
from kvberth_schemas.alive import Alive
from kvberth_schemas.subjects import EVENTS_STREAM, WANTS_STREAM, AliveSubject, Entity, Service, WantKind

CREATED = datetime(2026, 11, 30, tzinfo=UTC)
OTHER = datetime(2026, 12, 1, tzinfo=UTC)
AGENT = (Service.NODE_AGENT, "a")


@pytest.mark.parametrize(
    ("pattern", "subject", "covered"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.b", "a.b.c", False),
        ("a.b.c", "a.b", False),
        ("a.*.c", "a.b.c", True),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
    ],
)
def test_a_pattern_covers_as_in_nats(pattern, subject, covered):
    assert covers(pattern, subject) is covered


def test_patterns_belong_to_one_stream():
    assert stream_of([subjects.events_of(Entity.POD), subjects.events_of(Entity.NODE)]) == EVENTS_STREAM
    assert stream_of([subjects.wants_of(WantKind.DIR, "a")]) == WANTS_STREAM


@pytest.mark.parametrize("patterns", [[], ["x.>"], [subjects.events_of(Entity.POD), subjects.wants_of(WantKind.DIR)]])
def test_patterns_of_no_one_stream_are_refused(patterns):
    with pytest.raises(NotOurs, match="would all be events or all be wants"):
        stream_of(patterns)


def test_a_lower_term_than_one_seen_earlier_in_the_stream_does_not_count():
    terms = Terms()
    assert terms.accepts(Service.PLACEMENT, 1, 4)
    assert terms.accepts(Service.PLACEMENT, 2, 5)
    assert not terms.accepts(Service.PLACEMENT, 3, 4)
    assert terms.accepts(Service.PLACEMENT, 4, 5)


def test_terms_of_different_writers_are_not_compared():
    terms = Terms()
    assert terms.accepts(Service.PLACEMENT, 1, 9)
    assert terms.accepts(Service.SCHEDULER, 2, 1)


def test_on_another_stream_terms_start_over():
    terms = Terms()
    assert terms.accepts(Service.PLACEMENT, 1, 9)
    terms.forget()
    assert terms.accepts(Service.PLACEMENT, 2, 1)


@given(st.lists(st.integers(0, 4), max_size=20), st.sets(st.integers(0, 19)))
def test_a_second_reading_gives_the_same_answers(written, still_there):
    """A view that reads the stream again, of which some messages are gone by then, judges the others as before."""
    terms = Terms()
    first = [terms.accepts(Service.PLACEMENT, sequence, term) for sequence, term in enumerate(written)]
    assert first == [term >= max(written[: sequence + 1]) for sequence, term in enumerate(written)]
    for sequence, term in enumerate(written):
        if sequence in still_there:
            assert terms.accepts(Service.PLACEMENT, sequence, term) is first[sequence]


def beat(*, complete: bool = True, created: datetime | None = CREATED) -> Alive:
    return Alive(term=1, complete=complete, stream_created=created)


def subject(instance: str = "x") -> AliveSubject:
    return AliveSubject(Service.NODE_AGENT, instance, "a")


def test_a_pair_that_falls_silent_is_stale_early_enough_to_be_called_unknown_within_five_seconds():
    pulses = Pulses()
    pulses.hear(subject(), beat(), 100.0)
    assert pulses.is_fresh(AGENT, CREATED, 104.5)
    assert not pulses.is_fresh(AGENT, CREATED, 104.6)
    assert pulses.fresh(CREATED, 104.5) == {AGENT}
    assert pulses.fresh(CREATED, 104.6) == frozenset()


def test_an_incomplete_word_is_a_sign_of_life_and_no_more():
    pulses = Pulses()
    pulses.hear(subject(), beat(complete=False), 100.0)
    assert pulses.heard_s(AGENT, 101.0) == 1.0
    assert pulses.age_s(AGENT, CREATED, 101.0) is None
    assert not pulses.is_fresh(AGENT, CREATED, 101.0)


@pytest.mark.parametrize("ours", [None, OTHER])
def test_a_word_about_another_stream_does_not_count(ours):
    pulses = Pulses()
    pulses.hear(subject(), beat(), 100.0)
    assert not pulses.is_fresh(AGENT, ours, 100.0)
    assert pulses.fresh(ours, 100.0) == frozenset()


def test_a_word_without_a_stream_does_not_count():
    pulses = Pulses()
    pulses.hear(subject(), beat(created=None), 100.0)
    assert not pulses.is_fresh(AGENT, None, 100.0)


def test_any_instance_of_a_pair_counts():
    pulses = Pulses()
    pulses.hear(subject("old"), beat(), 100.0)
    pulses.hear(subject("new"), beat(complete=False), 104.0)
    assert pulses.is_fresh(AGENT, CREATED, 104.5)


def test_who_is_silent_for_an_hour_is_forgotten():
    pulses = Pulses()
    pulses.hear(subject(), beat(), 100.0)
    pulses.forget(3700.0)
    assert pulses.nodes(Service.NODE_AGENT) == {"a"}
    pulses.forget(3701.0)
    assert pulses.nodes(Service.NODE_AGENT) == frozenset()
    assert pulses.heard_s(AGENT, 3701.0) is None


async def test_a_change_between_two_calls_is_not_missed():
    changes = Changes()
    assert not await changes.wait(0.01)
    changes.mark()
    changes.mark()
    assert await changes.wait(0.01)
    assert not await changes.wait(0.01)


async def test_a_change_wakes_all_who_wait():
    changes = Changes()
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(changes.wait(5)) for _ in range(3)]
        await asyncio.sleep(0)
        changes.mark()
    assert all(task.result() for task in waiting)


async def test_a_cancelled_waiter_takes_no_change_away():
    changes = Changes()
    waiting = asyncio.create_task(changes.wait(5))
    await asyncio.sleep(0)
    changes.mark()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert await changes.wait(0.01)


async def test_a_lifetime_ends_every_block_in_it():
    lifetime = Lifetime()

    async def work() -> str:
        try:
            async with lifetime.scope():
                await asyncio.Event().wait()
        except Lifetime.Ended as error:
            return str(error)
        return "went on"

    async with asyncio.TaskGroup() as group:
        working = [group.create_task(work()) for _ in range(3)]
        await asyncio.sleep(0)
        lifetime.end("the server left")
        lifetime.end("too late to say")
    assert [task.result() for task in working] == ["the server left"] * 3


async def test_nothing_starts_in_a_lifetime_that_is_over():
    lifetime = Lifetime()
    lifetime.end("over")
    with pytest.raises(Lifetime.Ended, match="over"):
        async with lifetime.scope():
            raise AssertionError("ran")


async def test_a_lifetime_leaves_other_timeouts_and_cancellations_alone():
    lifetime = Lifetime()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), lifetime.scope():
            await asyncio.Event().wait()
    with pytest.raises(TimeoutError, match="somebody else's"):
        async with lifetime.scope():
            raise TimeoutError("somebody else's")


async def test_a_pause_doubles_up_to_its_limit():
    pause = Pause(first_s=1, most_s=5)
    assert [pause.next() for _ in range(5)] == [1, 2, 4, 5, 5]


async def test_a_pause_is_short_again_after_a_quiet_while():
    pause = Pause(first_s=1, most_s=5, forget_s=-1)
    assert [pause.next() for _ in range(3)] == [1, 1, 1]
