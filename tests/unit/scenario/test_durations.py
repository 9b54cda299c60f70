"""Time spans, and the one factor that shortens long waits without changing their order."""

import pytest

from kvberth.scenario.durations import DurationError, Timing, check, names_in, parse
from kvberth.scenario.format import FormatError
from kvberth.scenario.format import parse as parse_scenario


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("500ms", 0.5),
        ("2m", 120),
        ("1.5h", 5400),
        ("lost + 10s", 40),
        ("lost - 5s - 5s", 20),
        ("1s - 2s", 0),
    ],
)
def test_a_time_span_is_a_number_with_a_unit_a_name_or_their_sum(text: str, seconds: float) -> None:
    assert parse(text, {"lost": 30.0}) == seconds


@pytest.mark.parametrize("text", ["5", "5 s", "", "5s +", "-5s", "5d", "Lost", "1e3s", "5s5s"])
def test_anything_else_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(DurationError, match="is no time span; write 5s, 500ms, 2m, 1h"):
        check(text)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DurationError, match=r"'los' is no time span .* \(named there: lost, other\)"):
        parse("los", {"lost": 1.0, "other": 2.0})


def test_names_in_a_span_are_found() -> None:
    assert names_in("lost + 10s - other") == {"lost", "other"}


def test_only_named_waits_of_a_minute_or_more_are_shortened() -> None:
    timing = Timing({"lost": 300.0, "backoff": 10.0}, 0.5)
    assert timing.named == {"lost": 150.0, "backoff": 10.0}
    assert timing.seconds("lost + 90s") == 240.0
    assert timing.sentence() == "time factor 0.5: lost 300 s -> 150 s"


def test_a_factor_of_one_changes_and_says_nothing() -> None:
    timing = Timing({"lost": 300.0})
    assert timing.named == {"lost": 300.0}
    assert timing.sentence() == ""


@pytest.mark.parametrize(
    ("written", "factor", "sentence"),
    [
        ({"lost": 300.0, "backoff": 10.0}, 0.02, r"lost \(300 s\) would not come after backoff \(10 s\).*above 0.0333"),
        ({"lost": 300.0}, 0.01, r"lost \(300 s\) would not come after 'not ready' \(fixed\) \(3 s\)"),
        ({"long": 61.0, "short": 59.0}, 0.5, r"long \(61 s\) would not come after short"),
    ],
)
def test_a_factor_that_would_change_the_order_of_waits_is_refused(
    written: dict[str, float], factor: float, sentence: str
) -> None:
    with pytest.raises(DurationError, match=sentence):
        Timing(written, factor).check_order()


def test_waits_that_keep_their_order_are_run_with_the_factor() -> None:
    scenario = parse_scenario("{time: {node_lost: 5m, linger: 600s}, steps: [{cordon: l20-a}]}", "x")
    assert scenario.timing(0.02, {}).named == pytest.approx({"node_lost": 6.0, "linger": 12.0})


def test_what_is_promised_depends_on_the_backend_and_no_factor_shortens_it() -> None:
    text = "{deadline: linger + t_move, time: {linger: 100s}, steps: [{cordon: l20-a}]}"
    timing = parse_scenario(text, "x").timing(0.1, {"t_move": 90.0})
    assert timing.seconds("linger + t_move") == pytest.approx(100.0)
    assert timing.seconds("t_move + 5s") == pytest.approx(95.0)


def test_a_promise_is_not_a_scenario_s_to_set() -> None:
    with pytest.raises(FormatError, match=r"time.t_move can't be set"):
        parse_scenario("{time: {t_move: 9s}, steps: [{cordon: l20-a}]}", "x")
