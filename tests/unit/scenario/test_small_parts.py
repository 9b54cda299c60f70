"""Manifests with changes, settings, metrics text, results, changed bodies."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvberth.scenario import manifests
from kvberth.scenario.backend import probes
from kvberth.scenario.backend.bare import environment
from kvberth.scenario.backend.publish import changed, spelled
from kvberth.scenario.durations import Timing
from kvberth.scenario.format import parse
from kvberth.scenario.format.manifests import Apply
from kvberth.scenario.result import Failure, Outcome, document, failed, summary

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1}}
KVCACHE = {"apiVersion": "x/v1", "kind": "KVCache", "metadata": {"name": "k"}, "spec": {"lingerSeconds": 300}}


def applied(linger_s: int | None = None, **options: Any) -> list[dict[str, Any]]:
    apply = Apply.model_validate({"objects": [DEPLOYMENT, KVCACHE], **options})
    ((_, text),) = manifests.texts(apply, Path(), linger_s)
    return list(yaml.safe_load_all(text))


def test_a_change_is_a_merge_patch_for_the_objects_that_it_names() -> None:
    change = {"kind": "Deployment", "merge": {"spec": {"replicas": 3}, "metadata": {"labels": {"a": "b"}}}}
    first, second = applied(change=change)
    assert first == {**DEPLOYMENT, "spec": {"replicas": 3}, "metadata": {"name": "d", "labels": {"a": "b"}}}
    assert second == KVCACHE


def test_null_in_a_merge_patch_removes() -> None:
    assert manifests.merged({"a": 1, "b": {"c": [1]}}, {"a": None, "b": {"c": [2], "d": 3}}) == {
        "b": {"c": [2], "d": 3}
    }


def test_only_chooses_kinds_or_single_objects() -> None:
    assert applied(only="KVCache") == [KVCACHE]
    assert applied(only=["Deployment/d"]) == [DEPLOYMENT]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"only": "Pod"}, "'only: Pod' chooses nothing; there is Deployment/d, KVCache/k"),
        (
            {"change": {"name": "x", "merge": {}}},
            "a change of any kind/x meets nothing; there is Deployment/d, KVCache/k",
        ),
    ],
)
def test_a_choice_or_change_about_nothing_is_an_error(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("/", ".")):
        applied(**options)


def test_linger_is_set_in_every_kvcache_and_nowhere_else() -> None:
    assert applied(6) == [DEPLOYMENT, {**KVCACHE, "spec": {"lingerSeconds": 6}}]


def test_a_file_that_nothing_changes_is_sent_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("{ no yaml")
    assert manifests.texts(Apply(file=["broken.yaml"]), tmp_path, None) == [("broken.yaml", "{ no yaml")]


def test_waits_become_settings_and_linger_whole_seconds() -> None:
    timing = Timing({"node_lost": 300.0, "linger": 90.0, "own": 60.0}, 0.02)
    assert environment.settings(timing) == {"KVBERTH_NOT_READY_EVICTION_S": "6"}
    assert manifests.linger_seconds(timing) == 2
    assert manifests.linger_seconds(Timing()) is None


def test_nodes_become_v1_objects() -> None:
    scenario = parse("{nodes: [{name: n, gpus: 2, taints: [{key: k, effect: NoSchedule}]}], steps: [{cordon: n}]}", "x")
    (node,) = yaml.safe_load_all(environment.nodes_text(scenario.nodes))
    assert node["status"]["allocatable"] == {"cpu": "60", "memory": "192Gi", "nvidia.com/gpu": "2"}
    assert node["spec"]["taints"] == [{"key": "k", "effect": "NoSchedule"}]


def test_metrics_are_read_from_their_text_form() -> None:
    text = '# HELP x y\nx_total{a="b",c="d\\"e"} 3.0\nup 1\nnot a line\ny_bucket{le="+Inf"} 2e3\n'
    found = [(sample.name, dict(sample.labels), sample.value) for sample in probes.parse_metrics(text)]
    assert found == [("x_total", {"a": "b", "c": 'd\\"e'}, 3.0), ("up", {}, 1.0), ("y_bucket", {"le": "+Inf"}, 2000.0)]


def test_fields_of_a_body_are_changed_by_path_and_the_body_is_left_alone() -> None:
    body = {"a": {"b": 1}, "list": [{"c": 2}]}
    assert changed(body, {"a.b": 5, "list.0.c": 6, "new.deep": 7}) == {
        "a": {"b": 5},
        "list": [{"c": 6}],
        "new": {"deep": 7},
    }
    assert body == {"a": {"b": 1}, "list": [{"c": 2}]}


def test_results_are_one_object_with_exactly_the_promised_keys() -> None:
    good = Outcome("a.yaml", "a", seconds=1.23456, measures={"t_move": 0.25}, left_out=["step 1: needs gate"])
    bad = Outcome("b.yaml", "b", failures=[Failure("1: x", "this", "that")])
    skipped = Outcome("c.yaml", "c", skipped="requires kubernetes")
    assert json.loads(json.dumps(document([good, bad, skipped]))) == {
        "scenarios": [
            {
                "file": "a.yaml", "name": "a", "passed": True, "skipped": None, "seconds": 1.235, "failures": [],
                "measures": {"t_move": 0.25, "skipped_parts": 1},
            },
            {
                "file": "b.yaml", "name": "b", "passed": False, "skipped": None, "seconds": 0.0,
                "failures": [{"step": "1: x", "expected": "this", "seen": "that"}], "measures": {"skipped_parts": 0},
            },
            {
                "file": "c.yaml", "name": "c", "passed": False, "skipped": "requires kubernetes", "seconds": 0.0,
                "failures": [], "measures": {"skipped_parts": 0},
            },
        ]
    }  # fmt: skip
    assert failed([good, bad])
    assert not failed([good, skipped])
    assert summary([good, bad, skipped]).startswith("1 passed, 1 failed, 1 skipped; 1 steps and expectations skipped")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{now}", "2026-01-01T00:00:00.000000+00:00"),
        ('"{now+7m}" "{now-1h}"', '"2026-01-01T00:07:00.000000+00:00" "2025-12-31T23:00:00.000000+00:00"'),
        ("uid-{n} at {now-500ms}", "uid-3 at 2025-12-31T23:59:59.500000+00:00"),
        ('{"now": 1, "{nowhere}": "{now+}"}', '{"now": 1, "{nowhere}": "{now+}"}'),
    ],
)
def test_times_in_a_published_message_are_said_by_their_distance_from_now(written: str, said: str) -> None:
    assert spelled(written, 3, datetime(2026, 1, 1, tzinfo=UTC)) == said
