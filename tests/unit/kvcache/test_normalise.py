"""Both generations become one spec; contradictions, unknown fields and small memory are named."""

from typing import Any

import pytest

from kvberth.kvcache import GateSpec, Variable, normalise
from kvberth.store.layout.sizing import geometry_for

GI, MI = 2**30, 2**20
AIBRIX = "kvcache.orchestration.aibrix.ai"


def first(**fields: Any) -> dict[str, Any]:
    return {"cacheSpec": {"image": "v:1", "cpu": "2", "memory": "8Gi"}, **fields}


def second(**fields: Any) -> dict[str, Any]:
    return {"cache": {"image": "v:1", "resources": {"limits": {"cpu": "2", "memory": "8Gi"}}}, **fields}


def faults(spec: Any) -> list[str]:
    return [complaint.field for complaint in spec.complaints]


def test_both_generations_say_the_same(spec_of: Any) -> None:
    one = spec_of(spec=first(replicas=2, service={"type": "ClusterIP", "port": 9601}, metadata={"etcd": {}}))
    other = spec_of(spec=second(replicas=2, service={"ports": [{"port": 9601}]}, metadata={"etcd": {}}))
    assert one == other
    assert (one.accepted, one.replicas, one.service_port, one.metadata_mode) == (True, 2, 9601, "shared")


def test_what_the_second_generation_leaves_out_has_its_defaults(spec_of: Any) -> None:
    spec = spec_of(spec={})
    assert spec.accepted
    assert (spec.on, spec.cpu, spec.memory_bytes, spec.service_port) == (True, 1, 2 * GI, 9600)
    assert (spec.image, spec.image_pull_policy) == ("aibrix/kvcache:20241120", "IfNotPresent")
    assert (spec.linger_s, spec.hung_restart_s, spec.placement.max_removals_per_minute) == (300, 30, 30)
    assert (spec.gate, spec.metadata_mode, spec.pools, spec.size.block_bytes) == (GateSpec(), "local", (), 0)
    assert len(spec.defaults_taken) == 3


def test_requests_stand_in_for_limits(spec_of: Any) -> None:
    spec = spec_of(spec={"cache": {"resources": {"requests": {"cpu": "500m", "memory": "4Gi"}}}})
    assert (str(spec.cpu), spec.memory_bytes) == ("0.500", 4 * GI)


@pytest.mark.parametrize(
    ("fields", "store"),
    [
        ({"cacheSpec": {"memory": "72Gi"}}, 72 * GI - 72 * GI // 20),
        ({"cacheSpec": {"memory": "1Gi"}}, GI - 64 * MI),
        ({"cacheSpec": {"memory": "128Mi"}}, 64 * MI),
        ({"cacheSpec": {"memory": "40Gi", "sharedMemorySize": "36Gi"}}, 36 * GI),
        ({"cacheSpec": {"memory": "40Gi", "sharedMemorySize": ""}}, 38 * GI),
        ({"cacheSpec": {"memory": "40Gi", "sharedMemorySize": "39Gi"}}, 38 * GI),
        ({"cacheSpec": {"memory": "10Gi"}, "memory": {"reserve": "2Gi"}}, 8 * GI),
        ({"cacheSpec": {"memory": "10Gi"}, "memory": {"headroomFraction": 0.5}}, 5 * GI),
        ({"cacheSpec": {"memory": "1Gi"}, "memory": {"headroomFraction": 0, "reserve": 0}}, GI),
    ],
)
def test_the_store_gets_what_the_headroom_leaves(fields: dict[str, Any], store: int, spec_of: Any) -> None:
    spec = spec_of(spec=fields)
    assert faults(spec) == []
    assert spec.size_bytes == store


def test_a_shared_memory_size_in_the_headroom_is_cut_and_told(spec_of: Any) -> None:
    spec = spec_of(spec={"cacheSpec": {"memory": "40Gi", "sharedMemorySize": "39Gi"}})
    assert spec.notes == (
        "spec.cacheSpec.sharedMemorySize 39Gi leaves less than the headroom below memory 40Gi: the store gets 38Gi",
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"cacheSpec": {"memory": "2"}},
            "spec.cacheSpec.memory: 2 (2 bytes) leaves no room for a store; write at least 128Mi, such as 72Gi",
        ),
        (
            {"cacheSpec": {"memory": "127Mi"}},
            "spec.cacheSpec.memory: 127Mi leaves no room for a store; write at least 128Mi, such as 72Gi",
        ),
        (
            {"cache": {"resources": {"limits": {"memory": 0}}}},
            (
                "spec.cache.resources.limits.memory: 0 (0 bytes) leaves no room for a store; "
                "write at least 128Mi, such as 72Gi"
            ),
        ),
        (
            {"cacheSpec": {"memory": "1Gi"}, "memory": {"reserve": "1000Mi"}},
            "spec.memory: leaves 24Mi of 1Gi to the store; leave at least 64Mi to it",
        ),
        (
            {"cacheSpec": {"memory": "1Gi", "sharedMemorySize": "2Gi"}},
            "spec.cacheSpec.sharedMemorySize: 2Gi is more than the memory of the cache, 1Gi; lower it or raise memory",
        ),
        (
            {"cacheSpec": {"memory": "1Gi", "sharedMemorySize": "1Mi"}},
            "spec.cacheSpec.sharedMemorySize: 1Mi is too small for a store; write at least 64Mi",
        ),
        (
            {"blockStore": {"size": "72m"}},
            (
                "spec.blockStore.size: '72m' is 0.072 bytes; "
                "write whole bytes ('m' means thousandths, 'M' 10^6, 'Mi' 2^20)"
            ),
        ),
        (
            {"blockStore": {"size": "1Mi"}},
            "spec.blockStore.size: 1Mi is no size for a store; write 16Mi to 1Ti",
        ),
        (
            {"cacheSpec": {"memory": "1Gi"}, "blockStore": {"size": "1Gi"}},
            "spec.blockStore.size: 1Gi needs 1371Mi of spec.cacheSpec.memory, which is 1Gi; lower it or raise that",
        ),
    ],
)
def test_a_size_that_leaves_no_store_is_told(fields: dict[str, Any], sentence: str, spec_of: Any) -> None:
    spec = spec_of(spec=fields)
    assert [complaint.sentence() for complaint in spec.complaints] == [sentence]
    assert not spec.accepted


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (first(cache={"image": "v:1"}), "spec.cache"),
        (second(replicas=2) | {"cache": {"replicas": 3}}, "spec.cache.replicas"),
        (first(service={"port": 9600, "ports": [{"port": 9601}]}), "spec.service.ports[0].port"),
        (first(metadata={"etcd": {"replicas": 3, "runtime": {"replicas": 1}}}), "spec.metadata.etcd.runtime.replicas"),
        (first(metadata={"etcd": {"image": "a", "runtime": {"image": "b"}}}), "spec.metadata.etcd.runtime.image"),
        (first(metadata={"mode": "external"}), "spec.metadata.endpoint"),
        (first(metadata={"mode": "local", "endpoint": "etcd:2379"}), "spec.metadata.mode"),
        (
            first(metadata={"endpoint": "a:2379", "etcd": {"externalConnection": {"address": "b:2379"}}}),
            "spec.metadata.etcd.externalConnection.address",
        ),
        (first(pools=[{"name": "a"}, {"name": "a"}]), "spec.pools[1].name"),
        (first() | {"cacheSpec": {"env": [{"name": "A"}, {"name": "A"}]}}, "spec.cacheSpec.env[1].name"),
    ],
)
def test_contradictions_are_told(spec: dict[str, Any], field: str, spec_of: Any) -> None:
    assert faults(spec_of(spec=spec)) == [field]


def test_annotation_and_native_field_may_not_disagree(spec_of: Any) -> None:
    selector = {"placement": {"nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"}}}
    annotations = {"node_affinity_key": "nvidia.com/gpu.product", "node_affinity_gpu_type": "A100"}
    path = f"metadata.annotations[{AIBRIX}/node-affinity-gpu-type]"
    assert faults(spec_of(spec=first(**selector), **annotations)) == [path]
    assert faults(spec_of(spec=first(pools=[{"name": "a"}]), node_affinity_gpu_type="A100")) == [path]
    assert faults(spec_of(spec=first(**selector), **annotations | {"node_affinity_gpu_type": "Tesla-T4"})) == []


@pytest.mark.parametrize(
    ("fields", "mode", "endpoint"),
    [
        (first(), "shared", None),
        ({"replicas": 1}, "shared", None),
        (second(), "local", None),
        (second(replicas=1), "local", None),
        (second(metadata={"etcd": {}}), "shared", None),
        (second(metadata={"redis": {}}), "local", None),
        (first(metadata={"mode": "dedicated"}), "dedicated", None),
        (first(metadata={"mode": "local"}), "local", None),
        (second(metadata={"endpoint": "etcd:2379", "secret": "s"}), "external", "etcd:2379"),
        (second(metadata={"etcd": {"externalConnection": {"address": "etcd:2379"}}}), "external", "etcd:2379"),
    ],
)
def test_the_metadata_mode_follows_the_manifest(fields: Any, mode: str, endpoint: str | None, spec_of: Any) -> None:
    spec = spec_of(spec=fields)
    assert (faults(spec), spec.metadata_mode, spec.metadata_endpoint) == ([], mode, endpoint)


@pytest.mark.parametrize(
    ("fields", "field", "remedy"),
    [
        ({"replica": 1}, "spec.replica", "write spec.replicas"),
        ({"cachespec": {}}, "spec.cachespec", "write spec.cacheSpec"),
        ({"cache_spec": {}}, "spec.cache_spec", "write spec.cacheSpec"),
        ({"linger-seconds": 1}, "spec[linger-seconds]", "write spec.lingerSeconds"),
        ({"cache.spec": {}}, "spec[cache.spec]", "write spec.cacheSpec"),
        (
            {"cache": {"env": [{"val-ue": "x", "name": "A"}]}},
            "spec.cache.env[0][val-ue]",
            "write spec.cache.env[0].value",
        ),
        ({"zebra": 1}, "spec.zebra", "remove it"),
        ({"cache": {"tolerations": []}}, "spec.cache.tolerations", "remove it"),
        ({"cache": {"memory": "1Gi"}}, "spec.cache.memory", "write spec.cache.resources.limits.memory"),
        ({"cache": {"env": [{"name": "A", "val": "x"}]}}, "spec.cache.env[0].val", "write spec.cache.env[0].value"),
        ({"cache": {"resources": {"limit": {}}}}, "spec.cache.resources.limit", "write spec.cache.resources.limits"),
        ({"pools": [{"name": "a", "gpuTypes": "x"}]}, "spec.pools[0].gpuTypes", "write spec.pools[0].gpuType"),
        ({"gate": {"timeout": 1}}, "spec.gate.timeout", "write spec.gate.timeoutSeconds"),
        ({"metadata": {"etcd": {"replica": 1}}}, "spec.metadata.etcd.replica", "write spec.metadata.etcd.replicas"),
    ],
)
def test_unknown_fields_are_told_wherever_they_stand(fields: Any, field: str, remedy: str, spec_of: Any) -> None:
    spec = spec_of(spec=fields)
    assert [(item.field, item.remedy) for item in spec.complaints] == [(field, remedy)]


def test_what_users_put_into_templates_and_affinity_is_not_searched_for_unknown_fields(spec_of: Any) -> None:
    spec = spec_of(spec=second(placement={"affinity": {"nodeAfinity": {}}}) | {"cache": {"template": {"zebra": 1}}})
    assert faults(spec) == []
    assert spec.notes == ("spec.cache.template has no effect", "spec.placement.affinity has no effect yet")


def test_known_fields_without_effect_are_notes(spec_of: Any) -> None:
    spec = spec_of(spec=first(mode="centralized", etcdReplicas=1, service={"type": "NodePort", "nodePort": 30000}))
    assert [note.split(" ")[0] for note in spec.notes] == [
        "spec.mode",
        "spec.etcdReplicas",
        "spec.service.nodePort",
        "spec.service.type",
    ]


def test_a_variable_from_elsewhere_is_kept_as_it_is_and_told(spec_of: Any) -> None:
    source = {"secretKeyRef": {"name": "tokens", "key": "cache", "optional": True}}
    env = [{"name": "A", "valueFrom": source}, {"name": "B", "value": "b"}, {"name": "C"}]
    spec = spec_of(spec={"cacheSpec": {"image": "v", "env": env}})
    assert spec.env == (Variable("A", value_from=source), Variable("B", "b"), Variable("C", ""))
    assert spec.notes == (
        "spec.cacheSpec.env[0].valueFrom is resolved on Kubernetes only: on bare machines A is left out",
    )


def test_a_variable_has_one_source(spec_of: Any) -> None:
    env = [{"name": "A", "value": "", "valueFrom": {"fieldRef": {}}}, {"name": "B", "value": "b", "valueFrom": {}}]
    spec = spec_of(spec={"cache": {"image": "v", "env": env}})
    assert [complaint.sentence() for complaint in spec.complaints] == [
        "spec.cache.env[1].valueFrom: stands beside a value; keep one of them"
    ]


def test_pools_take_what_they_do_not_say_from_the_kvcache(spec_of: Any) -> None:
    pools = [
        {
            "name": "a100",
            "gpuType": "A100",
            "gpuLabelKey": "nvidia.com/gpu.product",
            "nodeSelector": {"b": "2", "a": "1"},
        },
        {"name": "t4", "replicas": 0, "resources": {"limits": {"memory": "4Gi"}}},
    ]
    spec = spec_of(spec=first(pools=pools))
    a100, t4 = spec.pools
    assert (a100.on, a100.gpu_type, a100.gpu_label_key) == (True, "A100", "nvidia.com/gpu.product")
    assert (a100.node_selector, a100.size) == ((("a", "1"), ("b", "2")), spec.size)
    assert (t4.on, t4.gpu_type, t4.size.memory_bytes, t4.size.cpu) == (False, None, 4 * GI, 2)


def test_a_pool_too_small_is_told_at_its_own_field(spec_of: Any) -> None:
    spec = spec_of(spec=first(pools=[{"name": "a", "resources": {"limits": {"memory": "1Mi"}}}]))
    assert faults(spec) == ["spec.pools[0].resources.limits.memory"]


def test_our_own_fields_are_read(spec_of: Any) -> None:
    spec = spec_of(
        spec=second(
            replicas=0,
            gate={"policy": "wait", "timeoutSeconds": 40},
            lingerSeconds=0,
            hungRestartSeconds=5,
            cache={"resources": {"limits": {"memory": "5Gi"}}},
            blockStore={"size": "4Gi"},
            placement={"tolerations": [{"key": "team", "operator": "Exists"}], "maxRemovalsPerMinute": 0},
        )
    )
    assert spec.accepted
    assert (spec.on, spec.gate, spec.linger_s, spec.hung_restart_s) == (False, GateSpec("wait", 40), 0, 5)
    assert (spec.size.block_bytes, spec.placement.max_removals_per_minute) == (4 * GI, 0)
    assert [(item.key, item.operator) for item in spec.placement.tolerations] == [("team", "Exists")]


def test_what_the_door_refuses_is_told_here_too_beside_the_rest(kvcache: Any) -> None:
    raw = kvcache(spec={"replicas": "3", "zebra": 1, "cacheSpec": {"image": 7, "memory": "16Gi"}}, backend="vinyard")
    spec = normalise(raw)
    assert faults(spec) == [
        "spec.replicas",
        "spec.cacheSpec.image",
        f"metadata.annotations[{AIBRIX}/backend]",
        "spec.zebra",
    ]
    assert spec.memory_bytes == 16 * GI  # what can be read is read


def test_another_kind_is_no_kvcache() -> None:
    spec = normalise({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}})
    assert faults(spec) == ["kind"]


def test_a_mistyped_part_of_the_object_itself_is_told(kvcache: Any) -> None:
    raw = kvcache()
    raw["metadata"]["annotation"] = raw["metadata"].pop("annotations")
    raw["specs"] = {}
    found = normalise(raw)
    assert [(item.field, item.remedy) for item in found.complaints] == [
        ("metadata.annotation", "write metadata.annotations"),
        ("specs", "write spec"),
    ]


def test_what_the_api_server_adds_is_known(kvcache: Any) -> None:
    raw = kvcache()
    raw["metadata"] |= {
        "uid": "u",
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": None,
        "managedFields": [],
    }
    raw["status"] = {"current": 1}
    assert normalise(raw).accepted


def test_a_block_store_splits_the_memory_between_its_two_processes_and_never_doubles_it(spec_of: Any) -> None:
    plain = spec_of(spec=first())
    size = spec_of(spec=first(cacheSpec={"memory": "2Gi"}, blockStore={"size": "1536Mi"})).size
    geometry = geometry_for(size.block_bytes)
    store = geometry.arenas * geometry.arena_bytes + geometry.index_bytes
    assert (size.block_bytes, geometry.data_bytes, size.memory_bytes) == (1536 * MI, 1536 * MI, 2 * GI)
    assert size.size_bytes == store + 64 * MI
    assert 0 <= size.worker_bytes - store - 192 * MI < MI
    assert size.memory_bytes - size.worker_bytes >= 128 * MI
    assert (plain.size.block_bytes, plain.size.worker_bytes) == (0, 0)


def test_what_has_no_effect_beside_a_block_store_is_not_judged_either(spec_of: Any) -> None:
    told = {"cacheSpec": {"memory": "2Gi"}, "memory": {"reserve": "2Gi"}}
    assert [one.field for one in spec_of(spec=first(**told)).complaints] == ["spec.memory"]
    beside = spec_of(spec=first(**told, blockStore={"size": "64Mi"}))
    assert beside.complaints == ()
    assert any(note.startswith("spec.memory has no effect beside spec.blockStore") for note in beside.notes)


def test_each_pool_splits_its_own_memory(spec_of: Any) -> None:
    pools = [{"name": "a"}, {"name": "b", "resources": {"limits": {"memory": "256Mi"}}}]
    spec = spec_of(spec=first(cacheSpec={"memory": "1Gi"}, blockStore={"size": "64Mi"}, pools=pools))
    [complaint] = spec.complaints
    assert complaint.field == "spec.blockStore.size"
    assert complaint.problem == "64Mi needs 405Mi of spec.pools[1].resources.limits.memory, which is 256Mi"
