"""Every document of the cases' manifests: accepted, refused at the door, Accepted=False, or none of our kinds."""

from pathlib import Path

import pytest

from kvberth.kvcache import Variable, door_complaints, kind_of, node_complaints, normalise
from kvberth_schemas.manifests import RawObject, load_documents

MANIFESTS = Path(__file__).parents[2] / "manifests"
ACCEPTED: list[str] = []
IGNORED = "ignored"
AIBRIX = "kvcache.orchestration.aibrix.ai"

# Per file, in order: (kind, name), then IGNORED, or the fields that the door refuses and those of Accepted=False.
EXPECTED: dict[str, list[tuple[str, str, str | tuple[list[str], list[str]]]]] = {
    "M01": [
        ("Deployment", "llama-3-8b-instruct", (ACCEPTED, ACCEPTED)),
        ("Service", "llama-3-8b-instruct", IGNORED),
        ("KVCache", "aibrix-kvcache-llama-3-8b-instruct", (ACCEPTED, ACCEPTED)),
    ],
    "M02": [
        ("Deployment", "llama-3-8b-instruct", (ACCEPTED, ACCEPTED)),
        ("Service", "llama-3-8b-instruct", IGNORED),
        ("KVCache", "aibrix-kvcache-llama-3-8b-instruct", (ACCEPTED, ACCEPTED)),
    ],
    "M03": [
        ("KVCache", "aibrix-deepseek-33b-kvcache", (ACCEPTED, ACCEPTED)),
        ("ConfigMap", "expected-children-of-seed002", IGNORED),
    ],
    "M04": [
        ("Deployment", "deepseek-coder-7b-instruct", (ACCEPTED, ACCEPTED)),
        ("Service", "deepseek-coder-7b-instruct", IGNORED),
        ("KVCache", "deepseek-coder-7b-kvcache", (ACCEPTED, ACCEPTED)),
    ],
    "M05": [
        ("KVCache", "deepseek-coder-7b-kvcache", (ACCEPTED, ACCEPTED)),
        ("KVCache", "deepseek-coder-7b-kvcache-t4", (ACCEPTED, ACCEPTED)),
        ("Deployment", "deepseek-coder-7b-a100", (ACCEPTED, ACCEPTED)),
        ("Deployment", "deepseek-coder-7b-t4", (ACCEPTED, ACCEPTED)),
    ],
    "M06": [
        ("Service", "qwen", IGNORED),
        ("StatefulSet", "qwen", (ACCEPTED, ACCEPTED)),
        ("KVCache", "qwen-kv", (ACCEPTED, ACCEPTED)),
    ],
    "M07": [("LeaderWorkerSet", "vllm", IGNORED), ("KVCache", "llama-405b-kv", (ACCEPTED, ACCEPTED))],
    "M08": [
        ("Deployment", "mistral-7b", (ACCEPTED, ACCEPTED)),
        ("PodDisruptionBudget", "mistral-7b", IGNORED),
        ("ScaledObject", "mistral-7b", IGNORED),
        ("KVCache", "mistral-kv", (ACCEPTED, ACCEPTED)),
        ("PriorityClass", "gpu-online", IGNORED),
    ],
    "M09": [("KVCache", "shared-kv", (ACCEPTED, ACCEPTED))],
    "M10": [
        ("KVCache", "bad-unit-gb", (["spec.cacheSpec.memory"], [])),
        ("KVCache", "bad-empty-memory", (["spec.cacheSpec.memory", "spec.cacheSpec.cpu"], [])),
        ("KVCache", "bad-negative", (["spec.cacheSpec.memory"], [])),
        ("KVCache", "bad-words", (["spec.cacheSpec.memory", "spec.cacheSpec.cpu"], [])),
        ("KVCache", "bad-lowercase-gi", (["spec.cacheSpec.memory"], [])),
        ("KVCache", "bad-millibytes", ([], ["spec.cacheSpec.memory"])),
        ("KVCache", "bad-huge", (["spec.cacheSpec.memory"], [])),
        ("KVCache", "bad-space", (["spec.cacheSpec.memory"], [])),
        ("KVCache", "good-decimal", (ACCEPTED, ACCEPTED)),
        ("KVCache", "good-exponent", (ACCEPTED, ACCEPTED)),
    ],
    "M11": [
        ("Deployment", "llama-3-8b-instruct", (ACCEPTED, ACCEPTED)),
        ("KVCache", "llama-kv", (ACCEPTED, ACCEPTED)),
        ("Service", "llama", IGNORED),
        ("Deployment", "self-contradiction", (["spec.selector"], [])),
    ],
    "M12": [
        (
            "KVCache",
            "typo-kv",
            (
                ["spec.service.type", "spec.cacheSpec.imagePullPolicy"],
                [
                    f"metadata.annotations[{AIBRIX}/pod-affinity-workloads]",
                    f"metadata.annotations[{AIBRIX}/node-affinity-gpu]",
                    "metadata.annotations[kvcache.orchestration.aibrix.io/pod-anti-affinity]",
                    f"metadata.annotations[{AIBRIX}/node_affinity_key]",
                    "spec.replica",
                    "spec.nodeSelector",
                    "spec.tolerations",
                    "spec.affinity",
                    "spec.service.targetPort",
                    "spec.cacheSpec.resources",
                    "spec.cacheSpec.Memory",
                    "spec.cache",
                ],
            ),
        )
    ],
    "M13": [
        (
            "KVCache",
            "types-kv",
            (
                [
                    f"metadata.annotations[{AIBRIX}/pod-anti-affinity]",
                    f"metadata.annotations[{AIBRIX}/node-affinity-gpu-type]",
                    f"metadata.annotations[{AIBRIX}/pod-affinity-workload]",
                    "spec.replicas",
                    "spec.service.port",
                    "spec.service.nodePort",
                    "spec.cacheSpec.image",
                    "spec.cacheSpec.env",
                ],
                [],
            ),
        ),
        ("KVCache", "fractions-kv", (["spec.replicas", "spec.service.port"], [])),
        (
            "KVCache",
            "negative-kv",
            (
                [
                    "spec.replicas",
                    "spec.service.port",
                    "spec.cacheSpec.image",
                    "spec.cacheSpec.env[0].name",
                    "spec.cacheSpec.env[1].value",
                ],
                [],
            ),
        ),
        ("KVCache", "nothing-kv", (["spec"], [])),
        ("KvCache", "wrong-version", (["apiVersion", "kind"], [])),
    ],
    "M14": [
        ("Namespace", "team-a", IGNORED),
        ("ResourceQuota", "mem", IGNORED),
        ("LimitRange", "per-container", IGNORED),
        ("ResourceQuota", "no-cross-namespace-affinity", IGNORED),
        ("KVCache", "llama-kv", (ACCEPTED, ACCEPTED)),
    ],
    "M15": [
        ("Deployment", "llama", (ACCEPTED, ACCEPTED)),
        ("Deployment", "deepseek", (ACCEPTED, ACCEPTED)),
        ("KVCache", "llama-kv", (ACCEPTED, ACCEPTED)),
        ("KVCache", "deepseek-kv", (ACCEPTED, ACCEPTED)),
        ("KVCache", "llama-kv", (ACCEPTED, ACCEPTED)),
    ],
    "M16": [
        ("Deployment", "llama-kv", (ACCEPTED, ACCEPTED)),
        ("Service", "llama-kv-rpc", IGNORED),
        ("KVCache", "llama-kv", (ACCEPTED, ACCEPTED)),
        ("KVCache", "llama-kv-etcd", (ACCEPTED, ACCEPTED)),
    ],
    "M17": [("Deployment", "deepseek-coder-33b-instruct", (ACCEPTED, ACCEPTED))],
}


def load(number: str) -> list[RawObject]:
    path = next(MANIFESTS.glob(f"{number}-*.yaml"))
    return load_documents(path.read_text(), path.name)


def one(number: str, name: str) -> RawObject:
    return next(item for item in load(number) if item.name == name and kind_of(item.raw) is not None)


def test_the_table_covers_every_file() -> None:
    assert {path.name[:3] for path in MANIFESTS.glob("*.yaml")} == {*EXPECTED, "M18"}


@pytest.mark.parametrize("number", EXPECTED)
def test_every_document_is_judged_as_expected(number: str) -> None:
    found = load(number)
    assert [(item.kind, item.name) for item in found] == [(kind, name) for kind, name, _ in EXPECTED[number]]
    for item, (kind, name, expected) in zip(found, EXPECTED[number], strict=True):
        assert item.complaints == (), (kind, name)
        door = [complaint.field for complaint in door_complaints(item.raw)]
        if expected == IGNORED:
            assert (kind_of(item.raw), door) == (None, []), (kind, name)
            continue
        at_door, later = expected
        assert door == at_door, (kind, name)
        if kind_of(item.raw) == "KVCache":
            assert [complaint.field for complaint in normalise(item.raw).complaints] == at_door + later, (kind, name)


def test_every_node_of_the_zoo_is_read() -> None:
    nodes = load("M18")
    assert len(nodes) == 11
    assert [complaint for node in nodes for complaint in node_complaints(node.raw)] == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "bad-unit-gb",
            "spec.cacheSpec.memory: '72GB': 'GB' is no unit of Kubernetes; write 72G (10^9) or 72Gi (2^30)",
        ),
        ("bad-negative", "spec.cacheSpec.memory: '-1Gi' is negative; write an amount of 0 or more"),
        ("bad-lowercase-gi", "spec.cacheSpec.memory: '72gi': 'gi' is no unit of Kubernetes; write 72Gi (2^30)"),
        ("bad-space", "spec.cacheSpec.memory: '72 Gi' has a space in it; write 72Gi"),
        (
            "bad-millibytes",
            (
                "spec.cacheSpec.memory: '72m' is 0.072 bytes; "
                "write whole bytes ('m' means thousandths, 'M' 10^6, 'Mi' 2^20)"
            ),
        ),
    ],
)
def test_a_broken_quantity_is_told_in_one_sentence(name: str, sentence: str) -> None:
    assert normalise(one("M10", name).raw).complaints[0].sentence() == sentence


def test_what_is_mistyped_is_told_under_its_right_name() -> None:
    remedies = {item.field: item.remedy for item in normalise(one("M12", "typo-kv").raw).complaints}
    assert remedies["spec.service.type"] == "write ClusterIP"
    assert remedies["spec.cacheSpec.imagePullPolicy"] == "write IfNotPresent"
    assert remedies["spec.replica"] == "write spec.replicas"
    assert remedies["spec.nodeSelector"] == "write spec.placement.nodeSelector"
    assert remedies["spec.cacheSpec.Memory"] == "write spec.cacheSpec.memory"
    assert remedies["spec.cache"] == "keep one of them"
    for wrong, right in {
        f"{AIBRIX}/pod-affinity-workloads": f"{AIBRIX}/pod-affinity-workload",
        f"{AIBRIX}/node-affinity-gpu": f"{AIBRIX}/node-affinity-gpu-type",
        "kvcache.orchestration.aibrix.io/pod-anti-affinity": f"{AIBRIX}/pod-anti-affinity",
        f"{AIBRIX}/node_affinity_key": f"{AIBRIX}/node-affinity-key",
    }.items():
        assert remedies[f"metadata.annotations[{wrong}]"] == f"write {right}"


def test_a_wrong_version_names_the_right_one() -> None:
    remedies = [complaint.remedy for complaint in door_complaints(one("M13", "wrong-version").raw)]
    assert remedies == ["write orchestration.aibrix.ai/v1alpha1", "write KVCache"]


def test_no_sentence_speaks_the_language_of_a_library() -> None:
    sentences = [
        complaint.sentence()
        for number in EXPECTED
        for item in load(number)
        for complaint in (*door_complaints(item.raw), *(normalise(item.raw).complaints))
    ]
    assert len(sentences) > 40
    for sentence in sentences:
        assert not any(word in sentence for word in ("Input should", "pydantic", "validation error", "instance of"))


def test_seed_000_is_read_in_full() -> None:
    spec = normalise(one("M01", "aibrix-kvcache-llama-3-8b-instruct").raw)
    assert (spec.namespace, spec.workload, spec.gpu_type) == ("default", "llama-3-8b-instruct", "NVIDIA-L20")
    assert spec.gpu_label_key == "machine.cluster.vke.volcengine.com/gpu-name"
    assert (spec.on, spec.anti_affinity, spec.service_port, spec.metadata_mode) == (True, True, 9600, "shared")
    assert (spec.cpu, spec.memory_bytes, spec.size_bytes) == (4, 72 * 2**30, 72 * 2**30 - 72 * 2**30 // 20)
    assert (spec.defaults_taken, spec.notes, spec.accepted) == ((), (), True)


def test_the_defaults_of_a_minimal_kvcache_are_told() -> None:
    spec = normalise(one("M03", "aibrix-deepseek-33b-kvcache").raw)
    assert (spec.cpu, spec.memory_bytes) == (1, 2 * 2**30)
    assert spec.defaults_taken == (
        "cpu 1, since the manifest names none",
        "memory 2Gi, since the manifest names none",
    )


def test_fields_without_effect_are_told() -> None:
    spec = normalise(one("M09", "shared-kv").raw)
    assert spec.size_bytes == 36 * 2**30
    assert spec.env == (Variable("GLOG_v", "11"),)
    assert [note.split(" ")[0] for note in spec.notes] == [
        "spec.metadata.etcd.image",
        "spec.metadata.etcd.replicas",
        "spec.metadata.etcd.resources",
        "spec.metadata.etcd.storage",
    ]


def test_two_spellings_of_72_differ() -> None:
    assert normalise(one("M10", "good-decimal").raw).memory_bytes == 72 * 10**9
    assert normalise(one("M10", "good-exponent").raw).memory_bytes == 8 * 10**9


def test_a_kvcache_twice_in_one_file_is_one_object_and_told_once() -> None:
    again = [item for item in load("M16") if item.notes]
    assert [(item.name, item.raw["spec"]["cacheSpec"]["memory"]) for item in again] == [("llama-kv", "8Gi")]
    assert again[0].notes == ("KVCache default/llama-kv stands in document 3 too; the last one, document 4, counts",)
