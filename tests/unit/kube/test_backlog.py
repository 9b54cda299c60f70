"""The keyed backlog: coalesced, fair, backed off, paced, bounded."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kvberth.kube.backlog import Backlog
from kvberth.kube.settings import QueueSettings


def backlog(**settings: float) -> Backlog[str]:
    return Backlog(QueueSettings(**{"per_second": 1000.0, "burst": 1000, **settings}), Random(1))


def drain(keys: Backlog[str], now: float) -> list[str]:
    found = []
    while (key := keys.take(now)) is not None:
        found.append(key)
    return found


def test_a_key_waits_once_and_keys_come_in_the_order_of_their_coming() -> None:
    keys = backlog()
    for key in ("b", "a", "b", "c", "a"):
        assert keys.add(key, 1.0)
    assert drain(keys, 1.0) == ["b", "a", "c"]


def test_a_key_that_changes_while_it_is_worked_on_comes_again_and_never_twice_at_once() -> None:
    keys = backlog()
    keys.add("a", 0.0)
    assert keys.take(0.0) == "a"
    keys.add("a", 0.1)
    keys.add("a", 0.2)
    assert keys.take(1.0) is None
    keys.done("a")
    assert drain(keys, 1.0) == ["a"]
    keys.done("a")
    assert keys.take(9.0) is None


def test_an_earlier_time_counts_and_a_later_one_does_not() -> None:
    keys = backlog()
    keys.add("a", 0.0, after_s=10.0)
    keys.add("a", 0.0, after_s=20.0)
    keys.add("a", 0.0, after_s=5.0)
    assert keys.wait_s(0.0) == 5.0
    assert keys.take(4.9) is None
    assert drain(keys, 5.0) == ["a"]
    keys.done("a")
    assert keys.wait_s(5.0) is None, "the places in line that it left are forgotten"


def test_a_failing_key_waits_twice_as_long_each_time_and_stops_no_other() -> None:
    keys = backlog(retry_first_s=1.0, retry_most_s=60.0)
    now, waits = 0.0, []
    keys.add("bad", now)
    for _ in range(8):
        assert keys.take(now) == "bad"
        waits.append(keys.failed("bad", now))
        keys.add("good", now)
        assert keys.take(now) == "good"
        keys.done("good")
        assert keys.take(now) is None
        now += waits[-1]
    for count, wait in enumerate(waits):
        assert min(60.0, 2.0**count) / 2 <= wait <= min(60.0, 2.0**count)
    keys.take(now)
    keys.done("bad")
    keys.add("bad", now)
    keys.take(now)
    assert keys.failed("bad", now) <= 1.0, "a success forgets the failures"


def test_a_key_that_changed_comes_back_before_its_back_off_ends() -> None:
    keys = backlog(retry_first_s=60.0)
    keys.add("a", 0.0)
    keys.take(0.0)
    keys.add("a", 1.0)
    keys.failed("a", 1.0)
    assert keys.take(1.0) == "a"


def test_the_server_is_given_the_time_it_asked_for() -> None:
    keys = backlog(retry_first_s=0.1)
    keys.add("a", 0.0)
    keys.take(0.0)
    assert keys.failed("a", 0.0, asked_s=7.0) == 7.0
    assert keys.wait_s(0.0) == 7.0


def test_after_a_burst_keys_come_at_a_pace() -> None:
    keys = backlog(per_second=10.0, burst=3)
    for number in range(6):
        keys.add(f"k{number}", 100.0)
    assert drain(keys, 100.0) == ["k0", "k1", "k2"]
    wait = keys.wait_s(100.0)
    assert wait is not None
    assert 0.09 <= wait <= 0.11
    assert drain(keys, 100.2) == ["k3", "k4"]


def test_a_full_backlog_refuses_new_keys_only() -> None:
    keys = backlog(capacity=2)
    assert keys.add("a", 0.0)
    assert keys.add("b", 0.0)
    assert not keys.add("c", 0.0)
    assert keys.add("a", 0.0)
    keys.take(0.0)
    assert keys.add("c", 0.0)


STEPS = st.lists(st.tuples(st.sampled_from(["add", "take", "done", "fail"]), st.sampled_from("abcd")), max_size=60)


@given(STEPS)
def test_every_key_that_was_added_is_worked_on_afterwards(steps: list) -> None:
    keys = backlog(retry_first_s=1.0)
    now, working, owed = 0.0, set(), set()
    for step, key in steps:
        now += 0.5
        if step == "add":
            keys.add(key, now)
            owed.add(key)
        elif step == "take" and (taken := keys.take(now)) is not None:
            assert taken not in working
            working.add(taken)
            owed.discard(taken)
        elif step in ("done", "fail") and key in working:
            working.remove(key)
            if step == "done":
                keys.done(key)
            else:
                keys.failed(key, now)
                owed.add(key)
    for key in working:
        keys.done(key)
    assert set(drain(keys, now + 1000.0)) == owed
