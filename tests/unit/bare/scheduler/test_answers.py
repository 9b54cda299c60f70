"""What the scheduler's answers tell a user beyond yes and no: what was meant, what is held back, what will not work."""

import json

import pytest
import yaml

from kvberth.bare.scheduler.apply import apply
from kvberth.bare.scheduler.commands import delete, drain, scale
from kvberth.bare.scheduler.known import SHOWN, instead
from kvberth.bare.scheduler.results import MOST_RESULTS, fitting
from kvberth.bare.scheduler.state import State
from kvberth.kvcache import normalise
from kvberth.kvcache.faults import MOST_STRAYS
from kvberth_schemas.envelope import MAX_BODY_BYTES
from kvberth_schemas.registry import encode
from kvberth_schemas.requests import ApplyRequest, ObjectRequest, Outcome, Reply, Result, ScaleRequest

KNOWN = [("default", "llama-kv"), ("default", "qwen-kv"), ("team-a", "opt-kv")]


@pytest.mark.parametrize(
    ("namespace", "name", "known", "sentence"),
    [
        ("default", "lama-kv", KNOWN, "did you mean llama-kv? Known: llama-kv, qwen-kv"),
        ("default", "zzz", KNOWN, "known: llama-kv, qwen-kv"),
        ("default", "opt-kv", KNOWN, "there is one in namespace team-a: name it with -n team-a"),
        ("team-b", "zzz", KNOWN, "none is known there, but default/llama-kv, default/qwen-kv, team-a/opt-kv"),
        ("default", "zzz", [], "none is known at all"),
        ("", "l20a", [("", "l20-a"), ("", "x")], "did you mean l20-a? Known: l20-a, x"),
    ],
)
def test_an_unknown_name_is_answered_with_what_was_probably_meant(namespace, name, known, sentence):
    assert instead(namespace, name, known) == sentence


def test_of_many_known_names_the_first_and_a_number_are_told():
    sentence = instead("", "zzz", [("", f"n{number:02}") for number in range(SHOWN + 3)])
    assert sentence.endswith("n09 and 3 more")


def test_delete_scale_and_drain_name_what_is_there(build, make):
    state = build(make.node("l20-a"), make.engine(), make.kvcache())
    for results in (
        delete(state, ObjectRequest(kind="KVCache", name="lama-kv"), make.NOW)[1],
        scale(state, ScaleRequest(name="lama", replicas=1))[1],
        drain(state, "l20a")[1],
    ):
        assert "did you mean l" in results[0].sentence


@pytest.mark.parametrize("kind", ["Service", "Deployment", "Pod"])
def test_what_apply_ignores_is_ignored_by_delete_too_where_there_is_none(build, make, kind):
    state = build(make.node("l20-a"), make.engine())
    request = ObjectRequest(kind=kind, name="stranger", has_effect=False)
    after, (result,) = delete(state, request, make.NOW)
    assert (after, result.outcome, result.kind) == (state, Outcome.IGNORED, kind)
    _, (result,) = delete(state, request.model_copy(update={"has_effect": True}), make.NOW)
    assert result.outcome is Outcome.REFUSED


def test_what_was_applied_is_deleted_although_its_manifest_now_has_no_effect(build, make):
    state = build(make.node("l20-a"), make.engine())
    _, (result,) = delete(state, ObjectRequest(kind="Deployment", name="llama", has_effect=False), make.NOW)
    assert result.outcome is Outcome.ACCEPTED


def test_a_deleted_kvcache_is_not_offered(build, make):
    state = build(make.kvcache())
    state, _ = delete(state, ObjectRequest(kind="KVCache", name="llama-kv"), make.NOW)
    _, results = delete(state, ObjectRequest(kind="KVCache", name="llama-kv"), make.NOW)
    assert results[0].sentence.endswith("none is known at all")


def test_what_the_condition_accepted_will_say_is_a_warning_at_apply(make, moment):
    text = make.kvcache().replace("spec: {", "spec: {replicaz: 3, ", 1)
    state, results = apply(State(), ApplyRequest(text=text), moment)
    (result,) = results
    assert result.outcome is Outcome.ACCEPTED
    (record,) = state.manifests.values()
    assert result.warnings == tuple(fault.sentence() for fault in normalise(record.document).complaints)
    assert "spec.replicaz" in result.warnings[0]


def test_a_sound_manifest_has_no_warning(make, moment):
    _, results = apply(State(), ApplyRequest(text=f"{make.engine()}---{make.kvcache()}"), moment)
    assert [result.warnings for result in results] == [(), ()]


def test_a_slip_in_a_field_of_a_workload_is_a_warning_at_apply(make, moment):
    text = make.engine().replace("template:", "templat: {}\n  template:", 1)
    assert "templat: {}" in text
    _, (result,) = apply(State(), ApplyRequest(text=text), moment)
    assert result.outcome is Outcome.ACCEPTED
    assert result.warnings == ("spec.templat: is no field of a Deployment, and is left out; write spec.template",)


def test_all_or_nothing_stores_nothing_beside_a_refused_object_and_says_so(build, make, moment):
    broken = make.kvcache(memory="72GB").replace("llama-kv", "broken-kv")
    text = f"{make.engine()}---{broken}---{make.kvcache()}"
    before = build(make.node("l20-a"))
    after, results = apply(before, ApplyRequest(text=text, source="f.yaml", all_or_nothing=True), moment)
    assert after is before
    assert [str(result.outcome) for result in results] == ["held back", "refused", "held back"]
    assert results[2].sentence == "is not applied, since another object of f.yaml was refused"


def test_all_or_nothing_stores_all_where_nothing_is_refused(make, moment):
    text = f"{make.engine()}---{make.kvcache()}"
    state, _ = apply(State(), ApplyRequest(text=text, all_or_nothing=True), moment)
    assert len(state.manifests) == 2


@pytest.mark.parametrize("kind", ["Deployment", "KVCache"])
def test_of_very_many_fields_that_there_are_not_the_first_are_named_in_an_answer_that_fits(make, moment, kind):
    text = make.engine() if kind == "Deployment" else make.kvcache()
    raw = yaml.safe_load(text)
    raw["spec"] |= {f"{'e' * 40}{number}": 1 for number in range(2000)}
    text = json.dumps(raw)
    _, results = apply(State(), ApplyRequest(text=text), moment)
    (result,) = results
    assert (result.outcome, len(result.warnings)) == (Outcome.ACCEPTED, MOST_STRAYS + 1)
    assert result.warnings[-1] == f"document: has {2000 - MOST_STRAYS} more fields of which that is true"
    assert len(encode(Reply(results=tuple(results)))) < MAX_BODY_BYTES


def test_an_answer_about_very_many_objects_fits_and_hides_no_refusal(moment):
    bad = "".join(f"---\nkind: {'K' * 200}\n" for _ in range(2000))
    _, results = apply(State(), ApplyRequest(text=bad), moment)
    assert len(results) == MOST_RESULTS + 1
    assert results[-1].outcome is Outcome.REFUSED
    assert results[-1].sentence.endswith("more results are not told one by one")
    assert len(encode(Reply(results=tuple(results)))) < MAX_BODY_BYTES


def test_long_sentences_leave_the_later_ones_out_of_an_answer():
    long = [Result(kind="K", namespace="n", name="x", outcome=Outcome.REFUSED, sentence="é" * 90_000)] * 5
    found = fitting(long)
    assert [len(result.sentence) > 1000 for result in found] == [True, True, False, False, False]
    assert {result.outcome for result in found} == {Outcome.REFUSED}
