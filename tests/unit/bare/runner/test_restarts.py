"""Back-off: how many crashes in a row, and how long the next start waits."""

import pytest

from kvberth.bare.runner import restarts
from kvberth.bare.runner.record import State
from unit.bare.runner.samples import CACHE, ENGINE, NOW, record


@pytest.mark.parametrize(
    ("crashes", "seconds"), [(0, 0), (1, 0), (2, 10), (3, 20), (6, 160), (7, 300), (50, 300), (5000, 300)]
)
def test_an_engine_waits_as_the_kubelet_does(crashes, seconds):
    assert restarts.delay_s(record(ENGINE, State.ENDED, crashes=crashes), 10.0) == seconds


@pytest.mark.parametrize(("crashes", "seconds"), [(1, 0), (4, 0), (5, 1), (6, 2), (9, 16), (10, 30), (99, 30)])
def test_a_cache_waits_only_in_a_true_crash_loop(crashes, seconds):
    assert restarts.delay_s(record(CACHE, State.ENDED, crashes=crashes), 10.0) == seconds


@pytest.mark.parametrize(
    ("key", "lived", "crashes"), [(CACHE, 9.9, 4), (CACHE, 10.0, 1), (ENGINE, 599.0, 4), (ENGINE, 600.0, 1)]
)
def test_a_long_life_begins_the_count_anew(key, lived, crashes):
    assert restarts.crashes_after(record(key, crashes=3, started_at=NOW - lived), NOW) == crashes


def test_an_end_that_was_asked_for_is_no_crash():
    assert restarts.crashes_after(record(crashes=3, terminated_at=NOW), NOW) == 0


def test_a_start_that_failed_is_a_crash():
    assert restarts.crashes_after(record(crashes=3, started=None), NOW) == 4
