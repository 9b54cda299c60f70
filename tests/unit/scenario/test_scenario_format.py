"""What may be written in a scenario, and the sentence for what may not."""

import json
import re
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
import yaml
from pydantic import BaseModel

from kvberth.scenario.format import FormatError, load, parse
from kvberth.scenario.format import schema as schema_file
from kvberth.scenario.format.events import EventSeen, InOrder
from kvberth.scenario.format.expectations import Expectation
from kvberth.scenario.format.machine import CliSays
from kvberth.scenario.format.states import ConditionOf, ConditionType
from kvberth.scenario.format.steps import Step

ROOT = Path(__file__).parents[3]
EVERY_VERB = ROOT / "tests/integration/scenario/every_verb.yaml"
SCENARIOS = [*sorted((ROOT / "tests/scenarios").glob("*.yaml")), EVERY_VERB]


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
        (
            "steps: [{expect: {event: {type: pod.gone, by: 2s}}}]",
            "steps[0].expect[0].event: 'by' counts from a mark; name it by 'since'",
        ),
        (
            "steps: [{mark: m}, {expect: {order: {events: [{}, {}], by: linger + 1s}}}]",
            "steps[1].expect[0].order.by: 'linger + 1s' names a wait; by a message's own time a bound is written out",
        ),
        (
            "steps: [{expect: {status: {kvcache: x, proofs: {l20-a: 2s}}}}]",
            "steps[0].expect[0].status: 'proofs' and 'since' belong together",
        ),
        (
            "steps: [{expect: {status: {kvcache: x, health: {l20-z: Hung}}}}]",
            "names the node 'l20-z', which this scenario",
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
            "steps: [{expect: {event: {type: cache.moved, fields: {orign: l20-a}, count: 0}}}]",
            "steps[0].expect[0].event: cache.moved has no field 'orign'; did you mean 'origin'?",
        ),
        (
            'steps: [{expect: {event: {type: kvcache.status, fields: {"conditions.*.mesage": x}}}}]',
            "event: kvcache.status has no field 'conditions.*.mesage'; did you mean 'message'?",
        ),
        (
            'steps: [{expect: {event: {type: pod.gone, fields: {"why.text": x}}}}]',
            "event: pod.gone has no field 'why.text'; 'why' holds nothing below it",
        ),
        (
            "steps: [{expect: {event: {fields: {xyzzy: 1}}}}]",
            "steps[0].expect[0].event: no message has the field 'xyzzy'",
        ),
        (
            "steps: [{expect: {event: {type: want.cache, fields: {state: stopped}, count: 0}}}]",
            "event: the field 'state' of want.cache is never 'stopped': it should be 'run' or 'stop'",
        ),
        (
            'steps: [{expect: {event: {type: pod.ready, fields: {restarts: "3"}, count: 0}}}]',
            "event: the field 'restarts' of pod.ready is never '3': it should be a valid integer",
        ),
        (
            "steps: [{expect: {event: {type: want.cache, fields: {state: {differs: sotp}}}}}]",
            "event: the field 'state' of want.cache is never 'sotp'",
        ),
        (
            "steps: [{expect: {event: {type: cache.moved, fields: {to: l20-z}, count: 0}}}]",
            "step 1 names the node 'l20-z', which this scenario never has",
        ),
        (
            "steps: [{expect: {event: {type: node.changed, name: l20-z, count: 0}}}]",
            "step 1 names the node 'l20-z', which this scenario never has",
        ),
        (
            "steps: [{expect: {not: {condition: {kvcache: k, type: Redy}}}}]",
            "steps[0].expect[0].not.condition.type is 'Redy'; it should be 'Accepted', 'Placed'",
        ),
        (
            "steps: [{expect: {not: {status: {kvcache: k, states: {l20-a: servin}}}}}]",
            "status.states.l20-a is 'servin'; it should be 'serving',",
        ),
        (
            "steps: [{expect: {process: {role: engine, kvcache: k, count: 0}}}]",
            "process: a process of the role engine has no 'kvcache'; that is for the role cache",
        ),
        (
            "steps: [{expect: {process: {role: placement, workload: k, count: 0}}}]",
            "process: a process of the role placement has no 'workload'; that is for the role engine",
        ),
        (
            "steps: [{mark: off}]",
            "steps[0].mark: YAML reads off, no and false as a truth value, which is no text; put it in quotes",
        ),
        (
            "steps: [{cordon: Yes}]",
            "steps[0].cordon: YAML reads on, yes and true as a truth value, which is no text; put it in quotes",
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


@pytest.mark.parametrize(
    "match",
    [
        '{type: kvcache.status, fields: {"conditions.*.reason": Conflict, "nodes.0.engines.1": x, engines: 2}}',
        '{type: kvcache.spec, fields: {manifest.spec.any.thing: 1, "manifest.*": 2}}',
        '{type: node.changed, fields: {"labels.any/key": x, "allocatable.*": 1, ready: false}}',
        "{type: pod.gone, fields: {why: {matches: x}, node: null, workload.name: x}}",
        '{type: pod.ready, fields: {restarts: {at_least: 1}, "tolerations.*.key": x}}',
        "{fields: {origin: l20-a}}",
    ],
)
def test_every_field_that_a_message_has_may_be_named(match: str) -> None:
    parse(f"steps: [{{expect: {{event: {match}}}}}]", "x")


def test_the_types_of_conditions_are_those_that_placement_says() -> None:
    said = re.findall(r'Finding\(\s*"(\w+)"', (ROOT / "services/kvberth/placement/conditions.py").read_text())
    assert "Ready" in said
    assert set(said) <= set(get_args(ConditionType))


def test_a_window_of_one_step_is_told_as_one() -> None:
    (one,) = parse("steps: [{during: {steps: [{cordon: l20-a}], for: 2s}}]", "x").steps
    (two,) = parse("steps: [{during: {steps: [{cordon: l20-a}, {drain: l20-a}], for: 2s}}]", "x").steps
    assert (str(one), str(two)) == ("during 1 step and 2s", "during 2 steps and 2s")


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


def test_the_story_of_every_verb_has_every_verb_and_expectation_and_each_bound_by_a_messages_own_time():
    used = set(_written(load(EVERY_VERB)))
    known = {
        f"{part.__name__}.{name}" for part in (Step, Expectation) for name in part.model_fields.keys() - part.apart
    }
    bounds = {f"{part.__name__}.by" for part in (EventSeen, InOrder, ConditionOf, CliSays)}
    assert {*known, *bounds, "Step.after"} - used == set()


def _written(part):
    """Each field that a scenario writes, as ``Model.field``."""
    if isinstance(part, BaseModel):
        for name in part.model_fields_set:
            yield f"{type(part).__name__}.{name}"
            yield from _written(getattr(part, name))
    elif isinstance(part, list):
        for one in part:
            yield from _written(one)
