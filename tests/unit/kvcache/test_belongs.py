"""Which KVCache an engine belongs to."""

from pathlib import Path
from typing import Any

import pytest

from kvberth.kvcache import Claim, Engine, Reason, assign, host_directory, node_label_complaint, normalise
from kvberth_schemas.manifests import Node, load_documents

MANIFESTS = Path(__file__).parents[2] / "manifests"
GPU = "nvidia.com/gpu.product"


def engine(*directories: str, model: str = "llama", labels: dict[str, str] | None = None, bound: bool = True) -> Engine:
    paths = [host_directory("default", name) for name in directories]
    return Engine(model, "default", paths, (labels or {}) if bound else None)


def test_an_engine_belongs_by_the_workload_annotation(spec_of: Any) -> None:
    claims = [
        Claim(spec_of("other", pod_affinity_workload="qwen")),
        Claim(spec_of("kv", pod_affinity_workload="llama")),
    ]
    assert assign(engine(), claims) == assign(engine("kv"), claims)
    assert (assign(engine(), claims).kvcache, assign(engine(), claims).reason) == ("kv", Reason.WORKLOAD)


def test_without_an_annotation_it_belongs_by_the_directory_that_it_mounts(spec_of: Any) -> None:
    found = assign(engine("kv"), [Claim(spec_of("kv")), Claim(spec_of("other"))])
    assert (found.kvcache, found.reason, found.message) == ("kv", Reason.DIRECTORY, "")


def test_a_directory_of_another_namespace_is_not_ours(spec_of: Any) -> None:
    stranger = Engine("llama", "default", [host_directory("prod", "kv")], {})
    assert assign(stranger, [Claim(spec_of("kv"))]).reason is Reason.NO_KVCACHE


def test_annotation_and_directory_that_disagree_are_told_and_the_annotation_holds(spec_of: Any) -> None:
    claims = [Claim(spec_of("kv", pod_affinity_workload="llama")), Claim(spec_of("other"))]
    found = assign(engine("other"), claims)
    assert (found.kvcache, found.reason) == ("kv", Reason.DIRECTORY_DIFFERS)
    assert found.message == (
        "engine of llama belongs to KVCache kv by its workload annotation, but mounts the directory of other"
    )


def test_of_two_that_claim_one_engine_the_mounted_one_serves_else_the_older(spec_of: Any) -> None:
    old = Claim(spec_of("z-old", pod_affinity_workload="llama", node_affinity_gpu_type="L20"), created=1)
    new = Claim(spec_of("a-new", pod_affinity_workload="llama", node_affinity_gpu_type="L20"), created=2)
    labels = {"machine.cluster.vke.volcengine.com/gpu-name": "L20"}
    by_age = assign(engine(labels=labels), [new, old])
    assert (by_age.kvcache, by_age.reason, by_age.superseded) == ("z-old", Reason.CONFLICT, ("a-new",))
    assert by_age.message == (
        "KVCaches z-old and a-new claim workload llama on GPU type L20; z-old serves, since it is the oldest"
    )
    by_mount = assign(engine("a-new", labels=labels), [new, old])
    assert (by_mount.kvcache, by_mount.superseded) == ("a-new", ("z-old",))
    assert by_mount.message.endswith("a-new serves, since its directory is mounted")


def test_one_that_is_off_or_broken_takes_no_engine_from_one_that_serves(spec_of: Any) -> None:
    off = Claim(spec_of("off", {"replicas": 0, "cacheSpec": {}}, pod_affinity_workload="llama"), created=1)
    broken = Claim(spec_of("broken", {"zebra": 1}, pod_affinity_workload="llama"), created=2)
    good = Claim(spec_of("good", pod_affinity_workload="llama"), created=3)
    found = assign(engine("off"), [off, broken, good])
    assert (found.kvcache, found.reason, found.superseded) == ("good", Reason.DIRECTORY_DIFFERS, ())
    assert assign(engine(), [off]).kvcache == "off"
    assert assign(engine(), [broken]).kvcache == "broken"


def test_gpu_types_share_a_workload_by_the_label_of_the_node(spec_of: Any) -> None:
    a100 = Claim(spec_of("a", pod_affinity_workload="llama", node_affinity_key=GPU, node_affinity_gpu_type="A100"))
    t4 = Claim(spec_of("t", pod_affinity_workload="llama", node_affinity_key=GPU, node_affinity_gpu_type="T4"))
    rest = Claim(spec_of("rest", pod_affinity_workload="llama"))
    assert assign(engine(labels={GPU: "T4"}), [a100, t4, rest]).kvcache == "t"
    assert assign(engine(labels={GPU: "A100"}), [a100, t4, rest]).kvcache == "a"
    assert assign(engine(labels={GPU: "H100"}), [a100, t4, rest]).kvcache == "rest"


def test_gpu_values_are_matched_exactly_and_a_miss_is_told(spec_of: Any) -> None:
    t4 = Claim(spec_of("t", pod_affinity_workload="llama", node_affinity_key=GPU, node_affinity_gpu_type="T4"))
    found = assign(engine("t", labels={GPU: "Tesla-T4"}), [t4])
    assert (found.kvcache, found.reason) == (None, Reason.NO_GPU_MATCH)
    assert found.message == f"no KVCache of llama fits the node: t asks for {GPU}=T4 (node has Tesla-T4)"


def test_an_engine_without_a_node_waits_where_gpu_types_decide(spec_of: Any) -> None:
    t4 = Claim(spec_of("t", pod_affinity_workload="llama", node_affinity_gpu_type="T4"))
    assert assign(engine(bound=False), [t4]).reason is Reason.NOT_BOUND
    assert assign(engine(bound=False), [Claim(spec_of("kv", pod_affinity_workload="llama"))]).kvcache == "kv"


def test_labels_that_do_not_meet_are_told_with_what_would_meet(spec_of: Any) -> None:
    claim = Claim(spec_of("llama-kv", pod_affinity_workload="llama3-8b-instruct"))
    near = assign(engine(model="llama-3-8b-instruct"), [claim])
    assert (near.kvcache, near.reason) == (None, Reason.LABELS_DO_NOT_MEET)
    assert near.message == "no KVCache asks for workload llama-3-8b-instruct; llama-kv asks for llama3-8b-instruct"
    mounted = assign(engine("llama-kv", model="other"), [claim])
    assert (mounted.kvcache, mounted.reason) == (None, Reason.LABELS_DO_NOT_MEET)
    assert "mounts the directory of KVCache llama-kv, which asks for workload llama3-8b-instruct" in mounted.message


def test_an_engine_that_nobody_claims_has_no_kvcache(spec_of: Any) -> None:
    found = assign(engine(), [Claim(spec_of("kv"))])
    assert (found.kvcache, found.reason) == (None, Reason.NO_KVCACHE)
    assert found.message == "no KVCache of namespace default asks for workload llama"


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_in_which_claims_come_decides_nothing(order: int, spec_of: Any) -> None:
    claims = [Claim(spec_of(name, pod_affinity_workload="llama")) for name in ("c", "a", "b")][::order]
    assert assign(engine(), claims).kvcache == "a"


def test_a_gpu_type_that_no_node_has_is_told_with_the_values_seen(spec_of: Any) -> None:
    path = next(MANIFESTS.glob("M18-*"))
    labels = [Node.model_validate(item.raw).labels for item in load_documents(path.read_text(), path.name)]
    spec = spec_of("t", node_affinity_key=GPU, node_affinity_gpu_type="T4")
    complaint = node_label_complaint(spec, labels)
    assert complaint is not None
    assert complaint.field == "metadata.annotations[kvcache.orchestration.aibrix.ai/node-affinity-gpu-type]"
    assert complaint.problem == f"no node has {GPU}=T4; values seen: NVIDIA-A100-SXM4-80GB, Tesla-T4"
    assert node_label_complaint(spec_of("t", node_affinity_key=GPU, node_affinity_gpu_type="Tesla-T4"), labels) is None
    assert node_label_complaint(spec_of("t"), labels) is None
    nowhere = node_label_complaint(spec_of("t", node_affinity_key="gpu", node_affinity_gpu_type="T4"), labels)
    assert nowhere is not None
    assert nowhere.problem == "no node has gpu=T4; values seen: none"


def test_the_two_kvcaches_of_seed_004_serve_their_own_gpu_types() -> None:
    path = next(MANIFESTS.glob("M05-*"))
    found = [item.raw for item in load_documents(path.read_text(), path.name) if item.kind == "KVCache"]
    claims = [Claim(normalise(raw), created) for created, raw in enumerate(found)]
    directory = host_directory("prdsafe", "deepseek-coder-7b-kvcache-t4")
    t4 = Engine("deepseek-coder-7b-instruct", "prdsafe", [directory], {GPU: "T4"})
    assert assign(t4, claims).kvcache == "deepseek-coder-7b-kvcache-t4"
    real = Engine("deepseek-coder-7b-instruct", "prdsafe", [directory], {GPU: "Tesla-T4"})
    assert assign(real, claims).reason is Reason.NO_GPU_MATCH


def test_a_gpu_type_of_a_pool_that_no_node_has_is_told_at_the_pool(spec_of: Any) -> None:
    pools = [{"name": "a", "gpuType": "A100", "gpuLabelKey": GPU}, {"name": "t", "gpuType": "T4", "gpuLabelKey": GPU}]
    complaint = node_label_complaint(spec_of("kv", {"pools": pools}), [{GPU: "A100"}])
    assert complaint is not None
    assert complaint.sentence() == (
        f"spec.pools[1].gpuType: no node has {GPU}=T4; values seen: A100; write one of those seen"
    )
