"""A KVCache or workload that a scenario speaks of is one that it applies."""

from pathlib import Path

import pytest

from kvberth.scenario.format import parse
from kvberth.scenario.objects_named import faults

APPLY = """
- apply:
    objects:
      - {apiVersion: apps/v1, kind: Deployment, metadata: {name: llama}}
      - {apiVersion: x/v1, kind: KVCache, metadata: {name: llama-kv}}
      - {apiVersion: x/v1, kind: KVCache, metadata: {name: qwen-kv, namespace: prod}}
      - {apiVersion: v1, kind: Service, metadata: {name: front}}
"""
ROOT = Path(__file__).parents[3]
SCENARIOS = [*sorted((ROOT / "tests/scenarios").glob("*.yaml")), ROOT / "tests/integration/scenario/every_verb.yaml"]


def found(steps: str) -> list[str]:
    return faults(parse(f"steps:\n{APPLY}\n{steps}", "x"), Path())


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (
            "- expect: {caches: {kvcache: lama-kv, nodes: []}}",
            (
                "step 2 names the KVCache 'lama-kv', which this scenario never applies in the namespace default; "
                "did you mean 'llama-kv'?"
            ),
        ),
        (
            "- kill: {engine: {workload: qwen}}",
            (
                "step 2 names the workload 'qwen', which this scenario never applies in the namespace default "
                "(applied there: llama)"
            ),
        ),
        (
            "- during: {never: [{not: {lives: {cache: {kvcache: lama-kv}, count: 0}}}]}",
            "step 2 names the KVCache 'lama-kv'",
        ),
        ("- during: {steps: [{scale: {workload: lama, replicas: 0}}]}", "step 2.1 names the workload 'lama'"),
        (
            "- expect: {caches: {kvcache: llama, nodes: []}}",
            (
                "step 2 names the KVCache 'llama', which this scenario never applies in the namespace default "
                "(there is a workload of that name); did you mean 'llama-kv'?"
            ),
        ),
        (
            "- expect: {engines: {workload: llama-kv, count: 0}}",
            (
                "step 2 names the workload 'llama-kv', which this scenario never applies in the namespace default "
                "(there is a KVCache of that name); did you mean 'llama'?"
            ),
        ),
        (
            "- expect: {engines: {workload: front, count: 0}}",
            "step 2 names the workload 'front', which this scenario never applies in the namespace default (applied",
        ),
        (
            "- expect: {caches: {kvcache: llama-kv, namespace: prod, nodes: []}}",
            (
                "step 2 names the KVCache 'llama-kv', which this scenario never applies in the namespace prod "
                "(it does in default)"
            ),
        ),
        (
            "- expect: {caches: {kvcache: llama-kv, namespace: prd, nodes: []}}",
            "step 2 names the KVCache 'llama-kv', which this scenario never applies in the namespace prd",
        ),
        ("- expect: {process: {role: cache, kvcache: lama-kv}}", "step 2 names the KVCache 'lama-kv', which this"),
        (
            "- expect: {event: {type: cache.moved, name: nobody, count: 0}}",
            "step 2 names the KVCache 'nobody', which this scenario never applies (applied: llama-kv, qwen-kv)",
        ),
        (
            "- expect: {event: {type: want.cache, name: llama-kv, namespace: prod, count: 0}}",
            "step 2 names the KVCache 'llama-kv', which this scenario never applies in the namespace prod",
        ),
        (
            "- expect: {order: {events: [{type: socket.ready, name: llama-kv}, {type: socket.gone, name: l}]}}",
            "step 2 names the KVCache 'l'",
        ),
    ],
)
def test_a_name_that_is_never_applied_is_said_with_its_step(step: str, sentence: str) -> None:
    (fault,) = found(step)
    assert fault.startswith(sentence)


@pytest.mark.parametrize(
    "step",
    [
        "- expect: {caches: {kvcache: llama-kv, nodes: []}}",
        "- scale: {workload: llama, replicas: 2}",
        "- peer: {node: l20-a, kvcache: mine}\n- expect: {socket: {kvcache: mine, node: l20-a, state: silent}}",
        "- files: {node: l20-a, mkdir: default/mine}\n- expect: {socket: {kvcache: mine, node: l20-a, state: missing}}",
        "- files: {node: l20-a, mkdir: prod/mine}\n- expect: {caches: {kvcache: mine, namespace: prod, nodes: []}}",
        "- expect: {process: {role: cache, kvcache: qwen-kv, count: 0}}",
        "- expect: {event: {type: socket.ready, name: qwen-kv, count: 0}}",
        "- expect: {event: {type: pod.gone, name: llama-1234, count: 0}}",
        "- expect: {event: {name: llama-1234, count: 0}}",
        "- {requires: quota, expect: {caches: {kvcache: elsewhere, nodes: []}}}",
        "- publish: {subject: s, json: {name: invented}}\n- expect: {not: {status: {kvcache: invented}}}",
        "- apply: nowhere.yaml\n- expect: {caches: {kvcache: unknowable, nodes: []}}",
    ],
)
def test_what_is_applied_made_or_can_not_be_known_is_no_fault(step: str) -> None:
    assert found(step) == []


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name)
def test_the_projects_scenarios_speak_of_what_they_apply(path: Path) -> None:
    assert faults(parse(path.read_text(), str(path)), path.parent) == []
