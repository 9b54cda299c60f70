"""The scheduler's answers on the terminal, whatever names and sentences they hold."""

import io

import pytest
from pydantic import ValidationError
from rich.console import Console

from kvberth.cli.answers import print_reply
from kvberth_schemas.requests import ApplyRequest, NodeRequest, Outcome, Reply, Result

APPLY = ApplyRequest(text="", source="f.yaml", all_or_nothing=True)


def printed(request, *results):
    out = io.StringIO()
    print_reply(request, Reply(results=results), Console(file=out, width=200, highlight=False))
    return out.getvalue().splitlines()


def test_an_accepted_object_is_one_line_and_its_warnings_follow():
    result = Result(
        kind="KVCache", namespace="a", name="kv", outcome=Outcome.ACCEPTED, sentence="created", warnings=("x: no", "y")
    )
    assert printed(APPLY, result) == ["KVCache/kv in a: accepted: created", "  warning: x: no", "  warning: y"]


def test_an_outcome_of_a_later_version_loses_nothing_of_the_answer():
    text = """{"results": [
        {"kind": "KVCache", "namespace": "a", "name": "kv", "outcome": "put off", "sentence": "waits for b"},
        {"kind": "KVCache", "namespace": "a", "name": "b", "outcome": "refused", "sentence": "no"}]}"""
    reply = Reply.model_validate_json(text)
    assert reply.refused
    assert printed(APPLY, *reply.results)[:2] == [
        "KVCache/kv in a: ignored: waits for b",
        "KVCache/b in a: refused: no",
    ]
    with pytest.raises(ValidationError):
        Reply.model_validate_json(text.replace('"put off"', "1"))


def test_a_field_is_named_once():
    named = Result(
        kind="KVCache", namespace="a", name="kv", outcome=Outcome.REFUSED, field="spec.x", sentence="spec.x: is bad"
    )
    apart = named.model_copy(update={"sentence": "is bad"})
    assert printed(APPLY, named) == printed(APPLY, apart) == ["KVCache/kv in a: refused: spec.x: is bad"]


def test_a_document_without_a_name_is_named_by_its_file():
    unread = Result(kind="", namespace=None, name="", outcome=Outcome.REFUSED, sentence="document 1: is no object")
    assert printed(APPLY, unread) == ["f.yaml: refused: document 1: is no object"]
    empty = Result(kind="", namespace=None, name="f.yaml", outcome=Outcome.REFUSED, sentence="holds no object")
    assert printed(APPLY, empty) == ["f.yaml: refused: holds no object"]
    nameless = Result(kind="KVCache", namespace="a", name="", outcome=Outcome.REFUSED, sentence="metadata.name: x")
    assert printed(APPLY, nameless) == ["f.yaml (KVCache without a name): refused: metadata.name: x"]


def test_a_file_that_is_held_back_says_that_nothing_of_it_is_applied():
    bad = Result(kind="KVCache", namespace="a", name="bad", outcome=Outcome.REFUSED, sentence="no")
    held = Result(kind="KVCache", namespace="a", name="good", outcome=Outcome.HELD_BACK, sentence="is not applied")
    assert printed(APPLY, bad, held)[-1] == "nothing of f.yaml is applied; correct what is refused and apply it again"
    assert len(printed(APPLY, bad, bad)) == 2, "one object needs no such line"


def test_names_and_sentences_with_brackets_are_printed_as_they_are():
    result = Result(kind="Fo[/o]", namespace="[b]", name="[/red]", outcome=Outcome.IGNORED, sentence="[/] a[0]")
    assert printed(NodeRequest(node="x"), result) == ["Fo[/o]/[/red] in [b]: ignored: [/] a[0]"]


def test_the_line_of_a_node_names_no_namespace():
    result = Result(kind="Node", namespace=None, name="l20-a", outcome=Outcome.ACCEPTED, sentence="cordoned")
    assert printed(NodeRequest(node="l20-a"), result) == ["Node/l20-a: accepted: cordoned"]


def test_an_apply_has_more_time_the_larger_it_is_but_less_than_a_handler_may_take():
    assert ApplyRequest(text="").extra_s == 0.0
    assert 7.0 < ApplyRequest(text="#" * 512 * 1024).extra_s + 2.0 < 10.0
