"""Who may lead: judged by how long we saw a Lease unchanged, never by the times that stand in it."""

from datetime import UTC, datetime, timedelta

from kvberth.kube.settings import LeaseSettings
from kvberth.kube.tenure import TERM_EPOCH, created, is_free, read_lease, released, renewed, sight, taken

SETTINGS = LeaseSettings(namespace="ns", name="lease", identity="me")
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def stored(value: dict, version: str = "1") -> dict:
    return {**value, "metadata": {**value["metadata"], "uid": "u", "resourceVersion": version}}


def foreign(now: datetime = NOW, identity: str = "other") -> dict:
    settings = LeaseSettings(namespace="ns", name="lease", identity=identity)
    return stored(created(settings, now))


def test_a_foreign_lease_is_free_when_we_saw_no_renewal_for_its_duration() -> None:
    seen = sight(None, read_lease(foreign()), 100.0)
    assert not is_free(seen, "me", 115.0)
    assert is_free(seen, "me", 115.1)


def test_the_clock_of_the_holder_does_not_count() -> None:
    for skew in (timedelta(days=-300), timedelta(days=300)):
        seen = sight(None, read_lease(foreign(NOW + skew)), 100.0)
        assert not is_free(seen, "me", 110.0)
        assert is_free(seen, "me", 116.0)


def test_a_renewal_makes_it_young_and_an_annotation_does_not() -> None:
    first = read_lease(foreign())
    seen = sight(None, first, 100.0)
    annotated = read_lease(stored(foreign(), "2"))
    assert sight(seen, annotated, 110.0).since_s == 100.0
    again = LeaseSettings(namespace="ns", name="lease", identity="other")
    renewal = read_lease(stored(renewed(first, again, NOW + timedelta(seconds=2), NOW), "3"))
    assert sight(seen, renewal, 110.0).since_s == 110.0


def test_a_released_lease_and_that_of_an_earlier_life_are_free_at_once() -> None:
    record = read_lease(foreign())
    free = read_lease(stored(released(record, SETTINGS, NOW)))
    assert is_free(sight(None, free, 100.0), "me", 100.0)
    assert is_free(sight(None, read_lease(foreign(identity="me")), 100.0), "me", 100.0)


def test_every_taking_is_a_higher_term_and_renewing_is_not() -> None:
    record = read_lease(foreign(identity="me"))
    mine = read_lease(stored(taken(record, SETTINGS, NOW)))
    assert mine.term == record.term + 1
    assert read_lease(stored(renewed(mine, SETTINGS, NOW, NOW))).term == mine.term
    assert read_lease(stored(released(mine, SETTINGS, NOW))).term == mine.term


def test_a_lease_that_was_deleted_comes_back_with_a_higher_term() -> None:
    before = read_lease(stored(created(SETTINGS, NOW)))
    after = read_lease(stored(created(SETTINGS, NOW + timedelta(seconds=20))))
    assert after.term > before.term + 1
    assert before.term == (NOW - TERM_EPOCH).total_seconds()
    last = read_lease(stored(created(SETTINGS, datetime(2093, 12, 31, tzinfo=UTC))))
    assert last.term < 2**31


def test_a_lease_that_says_nothing_is_free() -> None:
    record = read_lease({"metadata": {"uid": "u", "resourceVersion": "1"}})
    assert is_free(sight(None, record, 0.0), "me", 0.0)
