"""Reading manifest files: every document is an object or one complaint; nothing a user writes raises."""

import pytest

from kvberth_schemas.manifests import RawObject, load_documents

ENGINE = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: e}\n"


def only(text: str) -> RawObject:
    found = load_documents(text, "file.yaml")
    assert len(found) == 1
    return found[0]


def test_documents_are_read_in_order_with_their_index() -> None:
    found = load_documents(
        f"# a comment\n---\n{ENGINE}---\n# nothing\n---\n{ENGINE.replace('{name: e}', '{name: f}')}", "x"
    )
    assert [(item.name, item.index, item.kind, item.api_version) for item in found] == [
        ("e", 0, "Deployment", "apps/v1"),
        ("f", 1, "Deployment", "apps/v1"),
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "# only words\n", "---\n---\n...\n", "\ufeff"])
def test_a_text_without_objects_gives_none(text: str) -> None:
    assert load_documents(text, "x") == []


def test_namespace_is_default_where_the_kind_has_one_and_empty_where_not() -> None:
    assert only(ENGINE).namespace == "default"
    assert only("apiVersion: v1\nkind: Node\nmetadata: {name: a}\n").namespace == ""
    assert only(ENGINE.replace("{name: e}", "{name: e, namespace: prod}")).namespace == "prod"


def test_a_syntax_error_is_one_complaint_with_its_place_and_spares_the_others() -> None:
    found = load_documents(f"{ENGINE}---\nkind: X\nspec:\n  a: [1, 2\nb: }}\n---\n{ENGINE.replace('e}', 'g}')}", "x")
    assert [item.name for item in found] == ["e", "", "g"]
    bad = found[1]
    assert len(bad.complaints) == 1
    assert bad.complaints[0].field == "document 2, line 8, column 2"
    assert bad.complaints[0].problem.startswith("is no YAML: ")


def test_a_tab_as_indentation_is_placed() -> None:
    assert only("kind: X\nspec:\n\ta: 1\n").complaints[0].field == "document 1, line 3, column 1"


def test_a_key_that_stands_twice_is_refused_as_kubectl_does() -> None:
    complaint = only("kind: X\nspec:\n  memory: 1Gi\n  memory: 2Gi\n").complaints[0]
    assert complaint.field == "document 1, line 4, column 3"
    assert "'memory' stands twice" in complaint.problem
    assert "'a' stands twice" in only('{"kind": "X", "a": 1, "a": 2}').complaints[0].problem


def test_merged_keys_are_no_keys_that_stand_twice() -> None:
    text = "base: &a {x: 1}\nnext: &b {<<: *a, x: 2}\nkind: X\nlast: {<<: *b, y: 3}\n"
    assert only(text).raw == {"base": {"x": 1}, "next": {"x": 2}, "kind": "X", "last": {"x": 2, "y": 3}}


def test_the_last_of_several_documents_about_one_object_counts_and_says_so_once() -> None:
    found = load_documents(f"{ENGINE}---\n{ENGINE}---\n{ENGINE}spec: {{replicas: 3}}\n", "x")
    assert len(found) == 1
    assert found[0].raw["spec"] == {"replicas": 3}
    assert found[0].notes == ("Deployment default/e stands in document 1, 2 too; the last one, document 3, counts",)
    assert found[0].complaints == ()


def test_objects_of_one_name_in_two_namespaces_or_kinds_are_two() -> None:
    other = ENGINE.replace("{name: e}", "{name: e, namespace: b}")
    assert len(load_documents(f"{ENGINE}---\n{other}---\n{ENGINE.replace('Deployment', 'StatefulSet')}", "x")) == 3


def test_a_list_is_its_items() -> None:
    found = load_documents("kind: List\napiVersion: v1\nitems:\n- {kind: A, metadata: {name: a}}\n- 7\n- null\n", "x")
    assert [(item.kind, item.name, len(item.complaints)) for item in found] == [("A", "a", 0), ("", "", 1), ("", "", 1)]


def test_json_is_read_with_tabs_and_all() -> None:
    assert only('{\n\t"apiVersion": "v1",\n\t"kind": "Node",\n\t"metadata": {"name": "a"}\n}\n').name == "a"


def test_dates_stay_texts_and_keys_become_texts() -> None:
    raw = only("kind: X\nday: 2024-11-20\n7: a\ntrue: b\nnull: c\n").raw
    assert raw == {"kind": "X", "day": "2024-11-20", "7": "a", "true": "b", "null": "c"}


def test_names_that_are_no_text_are_left_empty() -> None:
    found = only("apiVersion: 1\nkind: [X]\nmetadata: {name: 5, namespace: [a]}\n")
    assert (found.api_version, found.kind, found.name, found.namespace) == ("", "", "", "default")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("just words\n", "is no object"),
        ("- a\n- b\n", "is no object"),
        ("a: &a [*a]\n", "nested too deeply, or an anchor contains itself"),
        ("a: " + "[" * 3000, "is nested too deeply"),
        ('{"a": ' + "[" * 100000, "is nested too deeply"),
        ("a: !!set {x}\n", "YAML type set"),
        ("a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
        ("a: .nan\n", "no number of JSON"),
        ("? [a]\n: b\n", "is no YAML"),
        ("a: \x00\n", "can't be read"),
        ('{"a": ' + "9" * 5000 + "}", "can't be read"),
        (
            "a: &a [x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{n}: &{n} [{','.join(['*' + p] * 9)}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True)),
            "too large",
        ),
        ("a: &a {<<: [7]}\n", "only maps can be merged"),
        ("a: &a {<<: [*b]}\n", "undefined alias"),
    ],
    ids=range(14),
)
def test_what_can_not_be_read_is_one_complaint(text: str, words: str) -> None:
    found = only(text)
    assert len(found.complaints) == 1
    assert words in found.complaints[0].sentence()
    assert (found.raw, found.kind, found.name) == ({}, "", "")


def test_merges_of_merges_stay_small() -> None:
    keys = ",".join(f"k{number}: 1" for number in range(99))
    levels = zip("abcdefgh", "bcdefghi", strict=True)
    text = f"a: &a {{{keys}}}\n" + "".join(
        f"{name}: &{name} {{<<: [{','.join(['*' + before] * 9)}], own{name}: 1}}\n" for before, name in levels
    )
    assert len(only(f"{text}kind: X\n").raw["i"]) == 107


def test_merges_beyond_measure_are_refused() -> None:
    keys = ",".join(f"k{number}: 1" for number in range(500))
    text = f"a: &a {{{keys}}}\nb: {{<<: [{','.join(['*a'] * 500)}]}}\n"
    assert "more than 200000 keys are merged" in only(text).complaints[0].problem


def test_an_object_that_merges_itself_keeps_its_own_keys() -> None:
    assert only("a: &a {<<: *a, x: 1}\n").raw == {"a": {"x": 1}}
