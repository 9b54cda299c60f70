"""The cases' own manifests, applied to the cases' own nodes: what is let in, and where it is bound."""

from pathlib import Path

import pytest

from kvberth.bare.scheduler.apply import apply
from kvberth.bare.scheduler.commands import register
from kvberth.bare.scheduler.state import State
from kvberth.bare.scheduler.turn import Limits, Seen, turn
from kvberth_schemas.events import Resources, Taint
from kvberth_schemas.manifests import Node, load_documents
from kvberth_schemas.quantity import parse_bytes, parse_cpu
from kvberth_schemas.requests import ApplyRequest, RegisterRequest

MANIFESTS = Path(__file__).parents[3] / "manifests"


def text_of(number):
    (path,) = MANIFESTS.glob(f"{number}-*.yaml")
    return path.read_text()


@pytest.fixture
def zoo():
    """The nodes of M18, registered."""
    state = State()
    for document in load_documents(text_of("M18"), "M18"):
        node = Node.model_validate(document.raw)
        allocatable = Resources(
            cpu_millis=int(parse_cpu(node.allocatable["cpu"]) * 1000),
            memory_bytes=parse_bytes(node.allocatable["memory"]),
            gpus=int(node.allocatable["nvidia.com/gpu"]),
        )
        request = RegisterRequest(
            node=node.name,
            labels=node.labels,
            taints=tuple(Taint(key=item.key, value=item.value, effect=item.effect) for item in node.taints),
            allocatable=allocatable,
            unschedulable=node.unschedulable,
            boot_id="boot",
            root="/tmp/r",
        )
        state, _ = register(state, request)
    return state


def by_outcome(results, outcome):
    return {item.name for item in results if str(item.outcome) == outcome}


def test_bad_quantities_are_refused_each_by_itself_and_the_odd_but_legal_are_let_in(moment):
    _, results = apply(State(), ApplyRequest(text=text_of("M10")), moment)
    accepted = by_outcome(results, "accepted")
    assert accepted >= {"good-decimal", "good-exponent"}
    refused = by_outcome(results, "refused")
    assert refused >= {"bad-unit-gb", "bad-negative", "bad-words", "bad-lowercase-gi", "bad-huge", "bad-space"}
    assert not accepted & refused
    assert all(item.field.startswith("spec.cacheSpec.") for item in results if str(item.outcome) == "refused")


def test_labels_that_do_not_meet_are_told_from_a_selector_that_contradicts_itself(moment):
    _, results = apply(State(), ApplyRequest(text=text_of("M11")), moment)
    assert {(item.name, str(item.outcome), item.field) for item in results} == {
        ("llama-3-8b-instruct", "ignored", None),
        ("llama-kv", "accepted", None),
        ("llama", "ignored", None),
        ("self-contradiction", "refused", "spec.selector"),
    }


@pytest.mark.parametrize(
    ("number", "fields"),
    [
        ("M12", {"spec.service.type", "spec.cacheSpec.imagePullPolicy"}),
        ("M13", {"spec.replicas", "spec.service.port", "spec.cacheSpec.env", "apiVersion", "kind"}),
    ],
)
def test_wrong_types_and_enums_are_refused_with_their_fields(moment, number, fields):
    state, results = apply(State(), ApplyRequest(text=text_of(number)), moment)
    refused = [item for item in results if str(item.outcome) == "refused"]
    assert {item.field for item in refused} >= fields
    assert all(item.field in item.sentence for item in refused)
    assert {key[2] for key in state.manifests} == by_outcome(results, "accepted")


def test_a_foreign_deployment_of_the_same_name_is_ignored_and_the_last_of_two_documents_counts(moment):
    state, results = apply(State(), ApplyRequest(text=text_of("M16")), moment)
    assert [(item.kind, item.name, str(item.outcome)) for item in results] == [
        ("Deployment", "llama-kv", "ignored"),
        ("Service", "llama-kv-rpc", "ignored"),
        ("KVCache", "llama-kv", "accepted"),
        ("KVCache", "llama-kv-etcd", "accepted"),
    ]
    assert state.manifests["KVCache", "default", "llama-kv"].document["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("number", "nodes"),
    [
        ("M01", ["l20-a"]),
        ("M06", ["gke-g-a"]),  # the second comes when the first is ready
        ("M08", ["ip-10-0-3-17.ec2.internal"]),
        ("M15", ["l20-a", "l20-a"]),
    ],
)
def test_engines_are_bound_where_their_manifests_allow(zoo, moment, number, nodes):
    state, _ = apply(zoo, ApplyRequest(text=text_of(number)), moment)
    pods = turn(state, Seen(), Limits(), moment).state.pods.values()
    places = sorted((pod.node or pod.waiting_for for pod in pods), key=lambda place: place.startswith("0/"))
    assert len(places) == len(nodes)
    assert all(place.startswith(node) for place, node in zip(places, nodes, strict=True))
