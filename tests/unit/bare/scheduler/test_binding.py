"""Binding: each rule by a table, and the sentence when nothing fits."""

from datetime import UTC, datetime

import pytest

from kvberth.bare.scheduler.binding import Ask, Candidate, Guest, bind
from kvberth.bare.scheduler.records import NodeRecord, PodShape
from kvberth_schemas.events import Resources, Taint, Toleration
from kvberth_schemas.manifests import LabelSelector, NodeSelector

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GI = 2**30
NO_SCHEDULE = Taint(key="team", value="llm", effect="NoSchedule")


def candidate(name="n", *, gpus=1, used=0, ready=True, guests=(), **fields):
    record = NodeRecord(name=name, allocatable=Resources(cpu_millis=8000, memory_bytes=64 * GI, gpus=gpus), **fields)
    return Candidate(record, ready, Resources(gpus=used), guests)


def ask(uid="u", **shape):
    shape.setdefault("requests", Resources(gpus=1))
    return Ask(uid, "default", uid, NOW, PodShape(model="m", **shape))


def where(pod, *nodes):
    (binding,) = bind([pod], nodes)
    return binding.node or binding.why


def affinity(*terms):
    return NodeSelector.model_validate({"nodeSelectorTerms": list(terms)})


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        (expression("gpu", "In", "L20", "T4"), True),
        (expression("gpu", "In", "A100"), False),
        (expression("gpu", "NotIn", "A100"), True),
        (expression("gpu", "NotIn", "L20"), False),
        (expression("absent", "NotIn", "L20"), True),
        (expression("gpu", "Exists"), True),
        (expression("absent", "Exists"), False),
        (expression("gpu", "DoesNotExist"), False),
        (expression("absent", "DoesNotExist"), True),
        (expression("count", "Gt", "1"), True),
        (expression("count", "Gt", "2"), False),
        (expression("count", "Lt", "3"), True),
        (expression("gpu", "Lt", "3"), False),
        (expression("count", "Gt"), False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, True),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}, False),
        ({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["n"]}]}, False),
        ({}, False),
    ],
)
def test_required_node_affinity_is_judged_as_kubernetes_does(term, fits):
    node = candidate(labels={"gpu": "L20", "count": "2"})
    assert (where(ask(node_affinity=affinity(term)), node) == "n") is fits


def test_terms_are_alternatives_and_expressions_of_one_term_must_all_hold():
    node = candidate(labels={"gpu": "L20", "count": "2"})
    both = {
        "matchExpressions": expression("gpu", "In", "L20")["matchExpressions"]
        + expression("count", "In", "3")["matchExpressions"]
    }
    assert where(ask(node_affinity=affinity(both)), node) == "0/1 nodes: 1 without gpu=L20 and count=3"
    assert where(ask(node_affinity=affinity(both, expression("count", "In", "2"))), node) == "n"
    assert where(ask(node_affinity=affinity()), node).startswith("0/1 nodes")


def test_a_node_selector_must_match_whole():
    node = candidate(labels={"a": "1", "b": "2"})
    assert where(ask(node_selector={"a": "1", "b": "2"}), node) == "n"
    assert where(ask(node_selector={"a": "1", "b": "3"}), node) == "0/1 nodes: 1 without b=3"


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        (None, False),
        ({"key": "team", "operator": "Equal", "value": "llm", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "llm"}, True),
        ({"key": "team", "value": "other"}, False),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"value": "llm"}, False),
    ],
)
def test_tolerations_open_tainted_nodes_as_in_kubernetes(toleration, fits):
    tolerations = (Toleration.model_validate(toleration),) if toleration else ()
    assert (where(ask(tolerations=tolerations), candidate(taints=(NO_SCHEDULE,))) == "n") is fits


def test_a_soft_taint_and_kubernetes_mirror_of_a_cordon_keep_nobody_out():
    soft = Taint(key="team", effect="PreferNoSchedule")
    mirror = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    assert where(ask(), candidate(taints=(soft, mirror))) == "n"
    hard = Taint(key="gone", effect="NoExecute")
    assert "gone" in where(ask(), candidate(taints=(hard,)))


def test_most_free_gpus_win_and_then_the_first_name():
    nodes = [candidate("b", gpus=2), candidate("a", gpus=3, used=1), candidate("c", gpus=1)]
    assert where(ask(), *nodes) == "a"
    assert where(ask(), candidate("z", gpus=3), *nodes) == "z"


def test_pods_bound_in_the_same_turn_count_and_the_oldest_chooses_first():
    bindings = bind([ask("u2"), ask("u1"), ask("u3")], [candidate("a"), candidate("b")])
    assert [(item.uid, item.node) for item in bindings] == [("u1", "a"), ("u2", "b"), ("u3", None)]
    assert bindings[2].why == "0/2 nodes: 2 without 1 free GPU"


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        (Resources(gpus=2), "without 2 free GPUs"),
        (Resources(memory_bytes=72 * GI), "without 72Gi of free memory"),
        (Resources(cpu_millis=8500), "without 8.5 free cpu"),
    ],
)
def test_what_does_not_fit_is_named_with_its_amount(requests, words):
    assert where(ask(requests=requests), candidate()) == f"0/1 nodes: 1 {words}"


def test_who_asks_for_no_gpu_is_let_onto_a_node_that_shrank_below_its_pods():
    assert where(ask(requests=Resources()), candidate(gpus=1, used=2)) == "n"


def test_the_sentence_counts_nodes_by_reason():
    nodes = [
        candidate("a", cordoned=True),
        candidate("b", labels={"gpu": "A100"}),
        candidate("c"),
        candidate("d", ready=False),
    ]
    pod = ask(node_affinity=affinity(expression("gpu", "In", "L20")))
    assert where(pod, *nodes) == "0/4 nodes: 2 without gpu=L20, 1 cordoned, 1 not ready"
    assert where(pod) == "0/0 nodes: none is registered"


def test_anti_affinity_between_hosts_keeps_pods_apart_in_both_directions():
    rule = LabelSelector.model_validate({"matchLabels": {"app": "x"}})
    strict, plain = {"labels": {"app": "x"}, "anti_affinity": (rule,)}, {"labels": {"app": "x"}}
    assert "anti-affinity" in where(ask(**strict), candidate(guests=(Guest("default", {"app": "x"}),)))
    assert "anti-affinity" in where(ask(**plain), candidate(guests=(Guest("default", {}, (rule,)),)))
    assert where(ask(**strict), candidate(guests=(Guest("elsewhere", {"app": "x"}),))) == "n"
    bindings = bind([ask("u1", **strict), ask("u2", **strict)], [candidate("a", gpus=2), candidate("b")])
    assert [item.node for item in bindings] == ["a", "b"]
