"""How the gate's end is told from other containers' messages."""

import pytest

from kvberth.pod_watcher.gate import gate_result
from kvberth_schemas.events import GateResult


def test_the_gates_message_is_found_among_others():
    told = '{"kvberth": "gate", "outcome": "timeout", "reason": "SocketMissing", "waited_s": 30.0}'
    assert gate_result(["", "done", '{"outcome": "open"}', told]) == GateResult(
        outcome="timeout", reason="SocketMissing", waited_s=30.0
    )


@pytest.mark.parametrize(
    "message", ["", "kvberth", '{"kvberth": "other"}', '["kvberth"]', '{"kvberth": ', "[" * 100_000]
)
def test_other_messages_are_no_gates(message):
    assert gate_result([message]) is None


def test_a_gate_that_cannot_be_read_says_so_and_is_not_taken_for_none():
    result = gate_result(['{"kvberth": "gate", "waited_s": "long"}'])
    assert result is not None
    assert result.outcome == "unreadable"
    assert "long" in result.reason
