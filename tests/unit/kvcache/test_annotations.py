"""Annotations: ours are read, look-alikes are named, other people's are nobody's business."""

from typing import Any

import pytest

from kvberth.kvcache import normalise
from kvberth.kvcache.annotations import read_annotations

AIBRIX = "kvcache.orchestration.aibrix.ai"


def test_all_placement_annotations_are_read() -> None:
    values = read_annotations(
        {
            f"{AIBRIX}/pod-affinity-workload": "llama",
            f"{AIBRIX}/node-affinity-gpu-type": "L20",
            f"{AIBRIX}/node-affinity-key": "nvidia.com/gpu.product",
            f"{AIBRIX}/pod-anti-affinity": "true",
            f"{AIBRIX}/backend": "vineyard",
            "kvberth.dev/paused": "true",
        }
    )
    assert (values.workload, values.gpu_type, values.gpu_label_key) == ("llama", "L20", "nvidia.com/gpu.product")
    assert (values.anti_affinity, values.backend, values.paused) == (True, "vineyard", True)
    assert (values.complaints, values.notes) == ((), ())


@pytest.mark.parametrize(
    ("key", "right"),
    [
        (f"{AIBRIX}/pod-affinity-workloads", f"{AIBRIX}/pod-affinity-workload"),
        (f"{AIBRIX}/Pod-Anti-Affinity", f"{AIBRIX}/pod-anti-affinity"),
        (f"{AIBRIX}/pod_anti_affinity", f"{AIBRIX}/pod-anti-affinity"),
        ("kvcache.orchestration.aibrix.io/node-affinity-key", f"{AIBRIX}/node-affinity-key"),
        ("kvcaches.orchestration.aibrix.ai/backend", f"{AIBRIX}/backend"),
        ("orchestration.aibrix.ai/pod-affinity-workload", f"{AIBRIX}/pod-affinity-workload"),
        ("pod-affinity-workload", f"{AIBRIX}/pod-affinity-workload"),
        ("kvberth.io/paused", "kvberth.dev/paused"),
        ("kvberth.dev/pause", "kvberth.dev/paused"),
        ("Kvberth.dev/paused", "kvberth.dev/paused"),
    ],
)
def test_a_look_alike_is_told_under_its_right_name(key: str, right: str) -> None:
    complaints = read_annotations({key: "true"}).complaints
    assert [(item.field, item.remedy) for item in complaints] == [(f"metadata.annotations[{key}]", f"write {right}")]


@pytest.mark.parametrize("key", [f"{AIBRIX}/zebra", "kvberth.dev/zebra"])
def test_an_unknown_name_under_our_prefix_is_told_with_the_known_ones(key: str) -> None:
    complaints = read_annotations({key: "x"}).complaints
    assert [item.field for item in complaints] == [f"metadata.annotations[{key}]"]
    assert complaints[0].remedy.startswith("remove it, or use one of ")


@pytest.mark.parametrize(
    "key",
    [
        "kubectl.kubernetes.io/last-applied-configuration",
        "backend",
        "example.com/pod-affinity-workload",
        "argocd.argoproj.io/sync-wave",
        "model.aibrix.ai/name",
        "paused",
        "kvberth.dev/fence",
        "orchestration.aibrix.ai/zebra",
    ],
)
def test_other_peoples_annotations_are_left_alone(key: str) -> None:
    assert read_annotations({key: "x"}).complaints == ()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (f"{AIBRIX}/pod-affinity-workload", "", "is empty"),
        (f"{AIBRIX}/node-affinity-gpu-type", " ", "is empty"),
        (f"{AIBRIX}/node-affinity-key", "nvidia gpu", "can't be the key of a label"),
        (f"{AIBRIX}/backend", "infinistore", "is a backend of AIBrix that kvberth does not run"),
        (f"{AIBRIX}/backend", "redis", "is no backend"),
        ("kvberth.dev/paused", "yes", "is 'yes'"),
    ],
)
def test_values_without_meaning_are_told(key: str, value: str, words: str) -> None:
    complaints = read_annotations({key: value}).complaints
    assert [item.field for item in complaints] == [f"metadata.annotations[{key}]"]
    assert words in complaints[0].problem


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{AIBRIX}/mode", "centralized"),
        (f"{AIBRIX}/pod-anti-affinity", "false"),
        (f"{AIBRIX}/node-affinity-key", "gpu"),
        (f"infinistore.{AIBRIX}/link-type", "Ethernet"),
        (f"hpkv.{AIBRIX}/rdma-port", "18512"),
    ],
)
def test_known_annotations_without_effect_are_notes(key: str, value: str) -> None:
    values = read_annotations({key: value})
    assert values.complaints == ()
    assert [note.split(" ")[0] for note in values.notes] == [f"metadata.annotations[{key}]"]


def test_a_kvcache_is_not_paused_by_the_word_false(kvcache: Any) -> None:
    raw = kvcache()
    raw["metadata"]["annotations"]["kvberth.dev/paused"] = "false"
    spec = normalise(raw)
    assert (spec.paused, spec.accepted) == (False, True)
