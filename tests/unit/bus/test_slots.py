"""What a writer remembers, and when something put counts as acknowledged."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from kvberth.bus.slots import Slots
from unit.bus.sample import lost, statement


async def test_a_change_is_acknowledged_when_it_is_done():
    slots = Slots()
    slots.mark("a")
    assert (slots.number, slots.acknowledged, slots.outstanding) == (1, 0, 1)
    subject, _ = await slots.take()
    slots.done(subject)
    assert (slots.acknowledged, slots.outstanding) == (1, 0)


async def test_a_change_during_the_work_on_another_is_not_acknowledged_with_it():
    slots = Slots()
    slots.mark("a")
    await slots.take()
    slots.mark("a")
    slots.done("a")
    assert slots.acknowledged == 1
    await slots.take()
    slots.done("a")
    assert slots.acknowledged == 2


async def test_changes_of_one_subject_coalesce():
    slots = Slots()
    for _ in range(100):
        slots.mark("a")
    await slots.take()
    slots.done("a")
    assert (slots.acknowledged, slots.outstanding) == (100, 0)


async def test_what_is_given_back_stays_outstanding_and_comes_again():
    slots = Slots()
    slots.mark("a")
    await slots.take()
    slots.give_back("a")
    assert slots.outstanding == 1
    subject, _ = await slots.take()
    assert subject == "a"


async def test_a_busy_subject_is_not_taken_twice():
    slots = Slots()
    assert slots.claim("a")
    assert not slots.claim("a")
    slots.mark("a")
    slots.mark("b")
    subject, _ = await slots.take()
    assert subject == "b"


async def test_what_is_claimed_while_it_is_queued_is_not_lost():
    """A purge claims a subject that waits in the queue; a worker that meets it then must not drop its change."""
    slots = Slots()
    slots.mark("a")
    assert slots.claim("a")
    taking = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    slots.give_back("a")
    async with asyncio.timeout(1):
        subject, _ = await taking
    slots.done(subject)
    assert slots.outstanding == 0


async def test_a_troubled_subject_waits_and_a_calm_one_does_not():
    slots = Slots()
    slots["a"].troubles = 4
    slots.mark("a")
    slots.mark("b")
    assert (await slots.take())[0] == "b"
    async with asyncio.timeout(2):
        assert (await slots.take())[0] == "a"


def test_the_wait_grows_to_some_seconds_and_no_further():
    slot = Slots()["a"]
    waits = []
    for slot.troubles in range(2000):
        waits.append(slot.wait_s)
    assert waits[:2] == [0.0, 0.0]
    assert waits == sorted(waits)
    assert 4 < waits[-1] < 6


async def test_a_subject_about_which_nothing_is_known_is_forgotten():
    slots = Slots()
    for number in range(1000):
        slots.mark(str(number))
        await slots.take()
        slots.done(str(number))
    assert len(slots) == 0


async def test_what_was_not_stored_several_times_is_counted_until_it_is():
    slots = Slots()
    for subject in ("never", "late"):
        slots.mark(subject)
        slots[subject].unstored = 3
    slots["late"].unstored = 2
    assert (slots.unstored(3), slots.unstored(2)) == (1, 2)
    await slots.take()
    slots.done("never")
    assert (slots.unstored(3), slots["never"].unstored) == (0, 0)


async def test_what_is_remembered_does_not_grow_with_time():
    """One subject that is never acknowledged must not make the others' past pile up."""
    slots = Slots()
    slots.mark("stuck")
    for _ in range(10_000):
        slots.mark("busy")
        assert slots.claim("busy")
        slots.done("busy")
    assert slots.acknowledged == 0
    assert len(slots._oldest) < 200


def test_on_another_stream_nothing_was_ever_said():
    slots = Slots()
    slots["a"].desired = statement(lost())
    slots["a"].attempted = 5
    slots.forget_found(another_stream=False)
    assert slots["a"].attempted == 5
    slots.forget_found(another_stream=True)
    assert slots["a"].attempted is None


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(["mark", "take", "done", "back"]), st.sampled_from("abc")), max_size=60))
def test_nothing_is_acknowledged_before_it_is_done_and_everything_in_the_end(steps):
    asyncio.run(_walk(steps))


async def _walk(steps):
    slots = Slots()
    busy: dict[str, int] = {}
    open_since: dict[str, int] = {}
    for step, subject in steps:
        if step == "mark":
            slots.mark(subject)
            open_since.setdefault(subject, slots.number)
        elif step == "take" and subject not in busy and subject in open_since:
            assert slots.claim(subject)
            busy[subject] = slots.number
        elif step == "done" and subject in busy:
            covered = busy.pop(subject)
            slots.done(subject)
            later = slots[subject].oldest
            assert later is None or later > covered
            if later is None:
                del open_since[subject]
            else:
                open_since[subject] = later
        elif step == "back" and subject in busy:
            del busy[subject]
            slots.give_back(subject)
        assert slots.acknowledged == min(open_since.values(), default=slots.number + 1) - 1
    for subject in busy:
        slots.give_back(subject)
    while slots.outstanding:
        async with asyncio.timeout(1):
            taken, _ = await slots.take()
        slots.done(taken)
    assert slots.acknowledged == slots.number
