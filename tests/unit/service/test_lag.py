"""The loop's lag: what the window remembers, and that a blocked loop is seen."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kvberth.service.lag import MAX_WINDOW_S, LagWatchdog, LagWindow

samples = st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 5)), max_size=40)


@given(samples, st.floats(0, MAX_WINDOW_S))
def test_the_window_answers_like_a_list_of_every_lag(steps, window_s):
    window, seen, now = LagWindow(), [], 0.0
    for step, lag in steps:
        now += step
        window.add(now, lag)
        seen.append((now, lag))
    assert window.max_since(now - window_s) == max((lag for at, lag in seen if at >= now - window_s), default=0.0)


def block_the_loop(seconds):
    time.sleep(seconds)


@pytest.fixture
async def lag(telemetry):
    watchdog = LagWatchdog(telemetry, 0.05)
    watchdog.start()
    yield watchdog
    watchdog.stop()


async def test_a_loop_that_was_blocked_for_300_ms_is_seen_in_value_metric_and_log(lag, telemetry):
    with capture_logs() as logs:
        await asyncio.sleep(0)
        block_the_loop(0.3)
        assert lag.recent_max_s(10) >= 0.2, "an overdue tick counts before it has run"
        await asyncio.sleep(0.01)
    assert 0.2 <= lag.recent_max_s(10) < 5
    (warning,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert warning["lag_s"] >= 0.2
    text = telemetry.metrics_text().decode()
    (recent,) = [line for line in text.splitlines() if line.startswith("kvberth_loop_lag_recent_max_seconds ")]
    assert float(recent.split()[1]) >= 0.2


async def test_warnings_are_limited_but_the_worst_lag_is_kept(lag):
    with capture_logs() as logs:
        for blocked_s in (0.2, 0.35):
            block_the_loop(blocked_s)
            await asyncio.sleep(0.06)
    assert len([entry for entry in logs if entry["log_level"] == "warning"]) == 1
    assert lag.recent_max_s(10) >= 0.25


async def test_a_window_that_is_not_kept_is_refused(lag):
    with pytest.raises(ValueError, match="60 s"):
        lag.recent_max_s(61)


async def test_what_was_seen_stays_readable_after_stop(lag):
    block_the_loop(0.2)
    await asyncio.sleep(0.01)
    lag.stop()
    assert lag.recent_max_s(10) >= 0.1


def test_before_the_start_there_is_no_lag(telemetry):
    assert LagWatchdog(telemetry, 0.05).recent_max_s(1) == 0


@pytest.mark.parametrize(("interval_s", "seen_s"), [(0.01, 0.09), (0.05, 0.05), (0.5, 0.0)])
async def test_a_lag_is_seen_short_by_no_more_than_the_time_between_two_looks(telemetry, interval_s, seen_s):
    watchdog = LagWatchdog(telemetry, interval_s)
    watchdog.start()
    try:
        block_the_loop(0.1)
        assert seen_s <= watchdog.recent_max_s(10) < seen_s + 0.1
    finally:
        watchdog.stop()
