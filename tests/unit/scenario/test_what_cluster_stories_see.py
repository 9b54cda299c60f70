"""What stories on a cluster make of what they see there: servers' logs, and conditions."""

import pytest
from tests.cluster.machines import is_unproven
from tests.ha.versions import said_since


def test_what_was_said_since_is_told_by_pod() -> None:
    before = {"nats-0": ["a"], "nats-1": ["b"], "nats-2": ["c", "d"]}
    after = {"nats-0": ["a", "new"], "nats-1": ["b"], "nats-2": ["again"], "nats-3": ["other"]}
    assert said_since(before, after) == ["new", "again", "other"]
    assert said_since(before, before) == []


@pytest.mark.parametrize(
    ("kvcache", "unproven"),
    [
        (None, False),
        ({}, False),
        ({"status": {}}, False),
        ({"status": {"conditions": [{"type": "Placed", "status": "True"}]}}, False),
        ({"status": {"conditions": [{"type": "Healthy", "status": "True"}]}}, False),
        ({"status": {"conditions": [{"type": "Healthy", "status": "Unknown"}]}}, True),
        ({"status": {"conditions": [{"type": "Healthy", "status": "False"}]}}, True),
    ],
)
def test_a_kvcache_that_is_not_there_or_says_nothing_is_no_proof(kvcache: dict | None, unproven: bool) -> None:
    assert is_unproven(kvcache) is unproven
