"""What becomes of applied documents: the case files' good and broken manifests."""

import pytest

from kvberth.bare.scheduler.apply import apply
from kvberth.bare.scheduler.state import State
from kvberth_schemas.requests import ApplyRequest

BROKEN_TYPES = """
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: KVCache
metadata: {name: types-kv}
spec: {replicas: "3", service: {port: "9600"}, cacheSpec: {image: x, cpu: 4, memory: 8Gi}}
---
apiVersion: orchestration.aibrix.ai/v1beta1
kind: KvCache
metadata: {name: wrong-version}
spec: {replicas: 1}
"""


def outcomes(results):
    return [(item.kind, item.name, str(item.outcome)) for item in results]


def test_engine_and_cache_are_accepted_and_other_kinds_are_ignored_with_a_sentence(make, moment):
    service = "\napiVersion: v1\nkind: Service\nmetadata: {name: llama}\n"
    state, results = apply(State(), ApplyRequest(text=f"{make.engine()}---{service}---{make.kvcache()}"), moment)
    assert outcomes(results) == [
        ("Deployment", "llama", "accepted"),
        ("Service", "llama", "ignored"),
        ("KVCache", "llama-kv", "accepted"),
    ]
    assert "Service" in results[1].sentence
    assert {key[0] for key in state.manifests} == {"Deployment", "KVCache"}


def test_a_broken_document_is_refused_by_field_and_does_not_disturb_the_next(make, moment):
    state, results = apply(State(), ApplyRequest(text=f"{BROKEN_TYPES}---{make.kvcache()}"), moment)
    refused = {(item.name, item.field) for item in results if item.outcome == "refused"}
    assert ("types-kv", "spec.replicas") in refused
    assert ("types-kv", "spec.service.port") in refused
    assert {field for name, field in refused if name == "wrong-version"} >= {"apiVersion", "kind"}
    assert all(item.sentence for item in results)
    assert list(state.manifests) == [("KVCache", "default", "llama-kv")]


def test_unreadable_yaml_is_one_refusal_with_its_line(make, moment):
    state, results = apply(State(), ApplyRequest(text=f"a: [1\n---{make.kvcache()}"), moment)
    assert [str(item.outcome) for item in results] == ["refused", "accepted"]
    assert "line" in results[0].field
    assert len(state.manifests) == 1


def test_an_empty_text_is_refused_with_the_name_of_its_source(moment):
    _, results = apply(State(), ApplyRequest(text="# nothing\n", source="empty.yaml"), moment)
    assert outcomes(results) == [("", "empty.yaml", "refused")]


def test_an_unchanged_document_changes_nothing(make, build, moment):
    state = build(make.engine(), make.kvcache())
    again, results = apply(state, ApplyRequest(text=make.kvcache()), moment)
    assert again == state
    assert results[0].sentence == "unchanged"


def test_a_changed_spec_keeps_the_uid_and_is_a_new_generation(make, build, moment):
    state = build(make.kvcache())
    after, results = apply(state, ApplyRequest(text=make.kvcache(memory="9Gi")), moment)
    key = ("KVCache", "default", "llama-kv")
    assert (after.manifests[key].uid, after.manifests[key].generation) == (state.manifests[key].uid, 2)
    assert results[0].sentence == "configured"


def test_changed_metadata_is_stored_under_the_same_generation(make, build, moment):
    state = build(make.kvcache())
    text = make.kvcache().replace(
        "namespace: default}", 'namespace: default, annotations: {kvberth.dev/paused: "true"}}'
    )
    after, _ = apply(state, ApplyRequest(text=text), moment)
    record = after.manifests["KVCache", "default", "llama-kv"]
    assert record.generation == 1
    assert record.document["metadata"]["annotations"] == {"kvberth.dev/paused": "true"}


def test_a_document_without_replicas_keeps_the_scale(make, build, moment):
    state = build(make.engine(replicas=3))
    after, results = apply(state, ApplyRequest(text=make.engine(replicas=None)), moment)
    assert after.manifests["Deployment", "default", "llama"].document["spec"]["replicas"] == 3
    assert results[0].sentence == "unchanged"


def test_the_request_gives_the_namespace_to_objects_that_name_none(moment):
    text = "apiVersion: orchestration.aibrix.ai/v1alpha1\nkind: KVCache\nmetadata: {name: k}\nspec: {}\n"
    state, results = apply(State(), ApplyRequest(text=text, namespace="team-a"), moment)
    assert results[0].namespace == "team-a"
    assert state.manifests["KVCache", "team-a", "k"].document["metadata"]["namespace"] == "team-a"


def test_a_deployment_without_the_model_label_is_ignored_by_name_of_the_label(make, moment):
    text = make.engine().replace("model.aibrix.ai/name", "app")
    state, results = apply(State(), ApplyRequest(text=text), moment)
    assert outcomes(results) == [("Deployment", "llama", "ignored")]
    assert "model.aibrix.ai/name" in results[0].sentence
    assert not state.manifests


def test_a_mistyped_model_label_is_told_as_such(make, moment):
    text = make.engine().replace("model.aibrix.ai/name", "model.aibrix.ai/nmae")
    _, results = apply(State(), ApplyRequest(text=text), moment)
    assert results[0].sentence == (
        "its pods are no engines: spec.template.metadata.labels has no model.aibrix.ai/name; "
        "did you mean it by model.aibrix.ai/nmae?"
    )


def test_a_selector_that_misses_its_own_template_is_refused(make, moment):
    text = make.engine().replace("matchLabels: {model.aibrix.ai/name: llama}", "matchLabels: {app: other}")
    _, results = apply(State(), ApplyRequest(text=text), moment)
    assert [(str(item.outcome), item.field) for item in results] == [("refused", "spec.selector")]


def test_the_last_of_two_documents_about_one_object_counts_and_says_so(make, moment):
    text = f"{make.kvcache(memory='24Gi')}---{make.kvcache(memory='8Gi')}"
    state, results = apply(State(), ApplyRequest(text=text), moment)
    assert [str(item.outcome) for item in results] == ["accepted"]
    assert "document 1" in results[0].sentence
    document = state.manifests["KVCache", "default", "llama-kv"].document
    assert document["spec"]["cacheSpec"]["memory"] == "8Gi"


@pytest.mark.parametrize(("length", "outcome"), [(107, "accepted"), (108, "refused")])
def test_a_name_whose_socket_path_would_not_fit_on_a_known_node_is_refused_with_its_length(
    make, build, moment, length, outcome
):
    below = "/default/llama-kv/vineyard.sock"
    state = build(make.node("l20-a", root="/" + "r" * (length - len(below) - 1)))
    after, results = apply(state, ApplyRequest(text=make.kvcache()), moment)
    assert str(results[0].outcome) == outcome
    assert bool(after.manifests) == (outcome == "accepted")
    if outcome == "refused":
        assert results[0].field == "metadata.name"
        assert "108 bytes" in results[0].sentence
        assert "l20-a" in results[0].sentence


def test_a_document_too_large_for_the_bus_is_refused(make, moment):
    text = make.kvcache().replace("namespace: default}", f"namespace: default, annotations: {{a: {'x' * 300_000}}}}}")
    state, results = apply(State(), ApplyRequest(text=text), moment)
    assert [str(item.outcome) for item in results] == ["refused"]
    assert "256 KiB" in results[0].sentence
    assert not state.manifests
