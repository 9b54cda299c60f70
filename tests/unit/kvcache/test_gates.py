"""What the end of a gate means for the engine behind it."""

import pytest

from kvberth.kvcache.gates import ending_of, opens, read_ending, started_without
from kvberth_schemas.events import GateResult


@pytest.mark.parametrize(
    ("outcome", "starts", "without"),
    [
        ("open", True, False),
        ("timeout", True, True),
        ("skipped", True, True),
        ("fault", True, True),
        ("unreadable", True, True),
        ("closed", False, False),
        ("stopped", False, False),
        ("failed", False, False),
    ],
)
def test_every_outcome_says_whether_the_engine_starts_and_whether_without_its_cache(outcome, starts, without):
    ending = GateResult(outcome=outcome)
    assert (opens(ending), started_without(ending)) == (starts, without)


def test_a_pod_without_a_gate_did_not_start_without_its_cache():
    assert not started_without(None)


def test_the_sentence_of_a_gate_is_kept():
    told = '{"kvberth": "gate", "outcome": "open", "reason": "SocketAnswered", "waited_s": 1, "message": "it answers"}'
    assert read_ending(told) == ending_of(told, 0)
    assert ending_of(told, 0).message == "it answers"


@pytest.mark.parametrize("code", [1, 137, None])
def test_a_gate_without_a_word_let_nobody_through(code):
    assert ending_of("", code).outcome == "failed"
    assert ending_of("{", code).message
