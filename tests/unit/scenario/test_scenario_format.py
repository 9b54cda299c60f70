"""What may be written in a scenario, and the sentence for what may not."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from kvberth.scenario.format import FormatError, load, parse
from kvberth.scenario.format import schema as schema_file

ROOT = Path(__file__).parents[3]
SCENARIOS = [*sorted((ROOT / "tests/scenarios").glob("*.yaml")), ROOT / "tests/integration/scenario/every_verb.yaml"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("steps: [{aply: x}]", "steps[0].aply: there is no such key here; did you mean 'apply'?"),
        ("steps: [{cordon: l20-a, nedes: gate}]", "steps[0].nedes: there is no such key here; did you mean 'needs'?"),
        (
            "steps: [{expect: {cache: {kvcache: x}}}]",
            "steps[0].expect[0].cache: there is no such key here; did you mean 'caches'?",
        ),
        (
            "steps: [{expect: [{not: {caches: {kvcache: x, node: l20-a}}}]}]",
            "steps[0].expect[0].not.caches.node: there is no such key here; did you mean 'nodes'?",
        ),
        ("steps: [{expect: {caches: {kvcache: x}}}]", "steps[0].expect[0].caches.nodes is missing"),
        ("steps: [{during: {fro: 5s}}]", "steps[0].during.fro: there is no such key here; did you mean 'for'?"),
        (
            "steps: [{cordon: l20-a, drain: b}]",
            "steps[0]: cordon and drain stand together; write exactly one of apply,",
        ),
        ("steps: [{say: hello}]", "steps[0]: none of its keys stands there; write exactly one of apply,"),
        ("steps: [{cordon: l20-a, within: 5}]", "steps[0].within is 5; it should be a valid string"),
        ("steps: [{expect: {same: m}, within: 5 s}]", "steps[0].within: '5 s' is no time span; write 5s,"),
        ("steps: [{expect: {same: bfore}}, {mark: before}]", "step 1 looks back to the mark 'bfore', which no earlier"),
        (
            "steps: [{mark: before}, {expect: {same: bfore}}]",
            "step 2 looks back to the mark 'bfore', which no earlier step sets; did you mean 'before'?",
        ),
        ("steps: [{cordon: l20-a, needs: gat}]", "step 1 needs 'gat', which is not known; known are gate,"),
        ("steps: [{cordon: l20-a, requires: kubernets}]", "did you mean 'kubernetes'?"),
        ("steps: [{mark: m}, {expect: {same: m, needs: gat}}]", "step 2 needs 'gat'"),
        ("steps: [{kill: foo}]", "steps[0].kill.target.service.name is 'foo'; it should be 'placement', 'scheduler',"),
        ("steps: [{kill: {cache: {}}}]", "steps[0].kill.target.cache.kvcache is missing"),
        (
            "steps: [{expect: {log: {of: nats, line: '('}}}]",
            "steps[0].expect[0].log.line: '(' is no regular expression",
        ),
        ("{time: {node_lst: 300s}, steps: [{cordon: l20-a}]}", "time.node_lst is no wait of the product"),
        ("{time: {node_lst: 300s}, steps: [{cordon: l20-a}]}", "did you mean 'node_lost'?"),
        (
            "steps: [{expect: {same: m}, within: node_lost + 1s}, {mark: m}]",
            "the wait 'node_lost' is used but not named",
        ),
        ("steps: []", "steps is []; it"),
        (
            "steps: [{expect: {event: {type: pod.schedule}}}]",
            "steps[0].expect[0].event.type: there is no type of message 'pod.schedule'; did you mean 'pod.scheduled'?",
        ),
        (
            "steps: [{expect: {event: {type: pod.gone, fields: {why: {match: x}}}}}]",
            "steps[0].expect[0].event.fields.why: {'match': 'x'} is no comparison; write one of matches, differs,",
        ),
        (
            "steps: [{cordon: l20-c}]",
            "step 1 names the node 'l20-c', which this scenario never has; it has l20-a, l20-b",
        ),
        ("steps: [{expect: {caches: {kvcache: x, nodes: [l20-z]}}}]", "step 1 names the node 'l20-z'"),
        ("steps: [{expect: {not: {process: {role: cache, node: l20-z}}}}]", "step 1 names the node 'l20-z'"),
        ("steps: [{during: {steps: [{kill: {cache: {kvcache: k, node: l2-a}}}]}}]", "step 1.1 names the node 'l2-a'"),
        ("nodes: []\nsteps: [{cordon: l20-a}]", "nodes is []; it"),
        ("hello", "holds no scenario; write at least 'steps:' with one step"),
        ("steps: [\n{cordon: l20-a", "file.yaml, line 2: is no YAML"),
        ("steps: [{cordon: l20-a}]\nsteps: [{cordon: l20-b}]", "the key 'steps' stands twice in one object"),
    ],
)
def test_a_fault_is_one_sentence_with_its_place_and_what_would_be_right(text: str, sentence: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse(text, "file.yaml")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("file.yaml")


def test_short_forms_mean_the_long_ones() -> None:
    short = parse(
        """
        case: C-001
        steps:
          - apply: a.yaml
          - mark: m
          - kill: nats
          - pause: placement
          - expect: {same: m}
        """,
        "short",
    )
    long = parse(
        """
        case: [C-001]
        nodes: [{name: l20-a}, {name: l20-b}]
        steps:
          - apply: {file: [a.yaml]}
          - mark: m
          - kill: {target: {nats: true}, signal: KILL}
          - pause: {service: {name: placement}}
          - expect: [{same: {since: m}}]
        """,
        "long",
    )
    assert short.model_dump() == long.model_dump()


def test_a_node_that_joins_or_must_not_exist_may_be_named() -> None:
    parse("steps: [{node_add: l20-c}, {cordon: l20-c}, {expect: {node: {name: l20-z, exists: false}}}]", "x")
    parse("{nodes_file: x.yaml, steps: [{cordon: anything}]}", "x")


def test_steps_in_windows_are_numbered_below_their_window() -> None:
    scenario = parse("steps: [{cordon: l20-a}, {during: {steps: [{drain: l20-a}, {uncordon: l20-a}]}}]", "x")
    assert [number for number, _ in scenario.all_steps()] == ["1", "2", "2.1", "2.2"]


def test_a_bare_true_of_yaml_means_the_word_of_a_condition() -> None:
    scenario = parse("steps: [{expect: {condition: {kvcache: k, type: Ready, status: True}}}]", "x")
    (item,) = scenario.steps[0].expectations()
    assert item.value.status == "True"


def test_the_json_schema_in_the_repository_is_the_generated_one() -> None:
    assert schema_file.main(["--check"]) == 0
    assert schema_file.main(["--chekc"]) == 2


def test_a_changed_json_schema_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "scenario.schema.json"
    old.write_text(schema_file.document().replace("steps", "stepps", 1))
    monkeypatch.setattr(schema_file, "FILE", old)
    assert schema_file.main(["--check"]) == 1
    assert schema_file.main([]) == 0
    assert schema_file.main(["--check"]) == 0


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name)
def test_every_scenario_of_the_project_obeys_the_format_and_its_json_schema(path: Path) -> None:
    load(path)
    validator = jsonschema.Draft202012Validator(json.loads(schema_file.FILE.read_text()))
    assert [error.message for error in validator.iter_errors(yaml.safe_load(path.read_text()))] == []


@pytest.mark.parametrize("text", ["steps: [{aply: x}]", "steps: [{cordon: l20-a, drain: b}]", "steps: []", "nodes: []"])
def test_the_json_schema_refuses_what_the_reader_refuses(text: str) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(schema_file.FILE.read_text()))
    assert list(validator.iter_errors(yaml.safe_load(text))) != []


def test_every_yaml_example_of_the_documentation_can_be_read() -> None:
    text = (ROOT / "docs" / "scenarios.md").read_text()
    blocks = [block.partition("```")[0] for block in text.split("```yaml\n")[1:]]
    steps = [block for block in blocks if block.startswith("- ")]
    assert len(steps) >= 5
    for block in steps:
        for item in yaml.safe_load(_without_dots(block)):
            _read_example(item)


def _without_dots(block: str) -> str:
    """Leave out what stands for more of the same."""
    return (
        block.replace(", …]", "]").replace(", …}", "}").replace("[EXPECTATION]", "[{same: before}]").replace("…", "x")
    )


def _read_example(item: dict[str, object]) -> None:
    """Read a step or an expectation as it stands in the documentation."""
    known = {"mark": [{"mark": "before"}], "time": {"node_lost": "300s"}}
    is_step = next(iter(item)) in {*parse("steps: [{cordon: l20-a}]", "x").steps[0].choices(), "say"}
    step = item if is_step else {"expect": item}
    parse(yaml.safe_dump({"steps": [*known["mark"], step], "time": {}}), "docs/scenarios.md")  # type: ignore[misc]
