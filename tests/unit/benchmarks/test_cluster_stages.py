"""The stages of a move on a cluster are told from what the API server wrote down."""

import json

import pytest
from benchmarks.cluster_stages import Move, Request, bare, ours, requests
from benchmarks.t_move_cluster import results

MOVE = Move("llama-b", "kv", 1000.9)
BOUND = Request(1000.0, ("create", "pods", "binding"), "llama-b")
CHAIN = [
    Request(999.0, ("create", "pods", "binding"), "kv-old"),
    Request(999.5, ("patch", "daemonsets", ""), "kv"),
    BOUND,
    Request(1000.1, ("patch", "daemonsets", "status"), "kv"),
    Request(1000.1, ("patch", "daemonsets", ""), "other"),
    Request(1000.2, ("patch", "daemonsets", ""), "kv"),
    Request(1000.3, ("create", "pods", ""), ""),
    Request(1000.4, ("create", "pods", "binding"), "kv-new"),
]


def test_a_move_by_kvberth_begins_with_the_binding_of_its_engine() -> None:
    found = ours(CHAIN, MOVE)
    assert found == pytest.approx({"decide": 0.2, "controllers": 0.2, "kubelet": 0.5})


def test_a_bare_move_begins_with_its_patch() -> None:
    assert bare(CHAIN[2:], MOVE) == pytest.approx({"controllers": 0.2, "kubelet": 0.5})


@pytest.mark.parametrize("missing", [2, 5, 7])
def test_a_chain_with_a_missing_link_is_not_told(missing: int) -> None:
    assert ours(CHAIN[:missing] + CHAIN[missing + 1 :], MOVE) is None


def test_only_what_was_carried_out_is_read() -> None:
    said = {
        "stage": "ResponseComplete",
        "stageTimestamp": "1970-01-01T00:16:40.000000Z",
        "verb": "create",
        "objectRef": {"resource": "pods", "subresource": "binding", "name": "llama-b"},
        "responseStatus": {"code": 201},
    }
    refused = {**said, "responseStatus": {"code": 409}}
    begun = {**said, "stage": "ResponseStarted"}
    assert list(requests(map(json.dumps, (refused, begun, said)))) == [BOUND]


def test_what_kvberth_adds_is_its_median_by_the_bare_one() -> None:
    slow = [{"decide": 0.1, "kubelet": 0.9}, {"decide": 0.2, "kubelet": 0.9}, {"decide": 0.1, "kubelet": 2.0}]
    found = results(slow, [{"kubelet": 1.0}], {"cpus": 2})
    assert [(one.name, one.value, one.holds) for one in found] == [
        ("t_move_cluster_p50_s", 1.1, None),
        ("t_move_cluster_p99_s", 2.1, False),
        ("t_move_cluster_over_bare", 1.1, True),
    ]
    assert found[0].context["bare_stages"]["whole"] == {"p50_ms": 1000.0, "p99_ms": 1000.0}
