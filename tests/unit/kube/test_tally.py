"""Kubernetes Events: repetitions are one object, bursts are bounded, what can't be written is counted."""

from dataclasses import replace
from datetime import UTC, datetime

from kvberth.kube.settings import RecorderSettings
from kvberth.kube.tally import EventType, Occurrence, Regarding, Tally, short_note

AT = datetime(2026, 11, 30, tzinfo=UTC)
ABOUT = Regarding("v1", "Pod", "ns", "a", "u")
ADDED = Occurrence(ABOUT, EventType.NORMAL, "CacheAdded", "Place", "cache added on l20-b")
SETTINGS = RecorderSettings(controller="kvberth.dev/test", instance="i", capacity=3, attempts=2)


def test_a_repetition_waits_and_is_written_as_a_count() -> None:
    tally = Tally(SETTINGS)
    tally.note(ADDED, "n1", AT, 0.0)
    (what, series) = tally.due(0.0) or (None, None)
    assert what == ADDED
    tally.wrote(series, 1, 0.0)
    for second in range(10):
        tally.note(ADDED, "n2", AT, float(second))
    assert tally.due(10.0) is None
    assert tally.wait_s(10.0) == 20.0
    (_, again) = tally.due(30.0) or (None, None)
    assert again is series
    assert (again.name, again.count) == ("n1", 11)


def test_an_old_event_is_forgotten_and_would_be_a_new_one() -> None:
    tally = Tally(SETTINGS)
    tally.note(ADDED, "n1", AT, 0.0)
    tally.wrote(tally.due(0.0)[1], 1, 0.0)
    other = replace(ADDED, note="another")
    tally.note(other, "n2", AT, 700.0)
    tally.wrote(tally.due(700.0)[1], 1, 700.0)
    tally.note(ADDED, "n3", AT, 701.0)
    assert tally.due(701.0)[1].name == "n3"


def test_too_many_different_events_drop_the_oldest_and_say_so() -> None:
    tally = Tally(SETTINGS)
    for number in range(5):
        tally.note(replace(ADDED, note=str(number)), f"n{number}", AT, 0.0)
    assert tally.dropped == 2
    assert tally.due(0.0)[0].note == "2"


def test_what_fails_again_and_again_is_given_up_and_counted() -> None:
    tally = Tally(SETTINGS)
    tally.note(ADDED, "n1", AT, 0.0)
    series = tally.due(0.0)[1]
    assert tally.failed(ADDED, series, 5.0)
    assert tally.due(4.0) is None
    assert not tally.failed(ADDED, series, 9.0)
    assert tally.dropped == 1
    assert tally.wait_s(0.0) is None


def test_an_event_that_vanished_is_written_anew_under_a_new_name() -> None:
    tally = Tally(SETTINGS)
    tally.note(ADDED, "n1", AT, 0.0)
    series = tally.due(0.0)[1]
    tally.wrote(series, 1, 0.0)
    tally.note(ADDED, "n2", AT, 1.0)
    tally.renew(series, "n3")
    assert (series.name, series.written, series.count) == ("n3", 0, 2)


def test_a_note_is_cut_within_its_bound_and_never_inside_a_letter() -> None:
    assert short_note("short") == "short"
    cut = short_note("ä" * 2000)
    assert len(cut.encode()) <= 1024
    assert cut.endswith("…")
    assert set(cut[:-1]) == {"ä"}
