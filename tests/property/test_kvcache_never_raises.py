"""Whatever JSON an object is, it is judged, never an exception."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvberth.kvcache import KVCacheSpec, door_complaints, kind_of, normalise
from kvberth_schemas.manifests import Complaint, load_documents

_scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12))
_json = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)
_WORDS = """
replicas cacheSpec cache service metadata pools placement gate memory blockStore image env name value port ports
resources limits requests cpu etcd runtime mode endpoint nodeSelector tolerations template spec selector
containers matchLabels labels sharedMemorySize size reserve headroomFraction externalConnection address
"""
_keys = st.sampled_from(_WORDS.split())
_known = st.recursive(
    st.one_of(_scalars, st.sampled_from(["72Gi", "1", "external", "vineyard", "a"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_keys, inner, max_size=5)),
    max_leaves=20,
)
_annotation_keys = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["kvcache.orchestration.aibrix.ai/", "kvberth.dev/", "kvcache.orchestration.aibrix.io/", "x/y/z"]
    ).flatmap(
        lambda prefix: st.sampled_from(
            ["paused", "backend", "pod-affinity-workload", "node_affinity_key", "", "zzz"]
        ).map(prefix.__add__)
    ),
)
_metadata = st.one_of(
    _json,
    st.fixed_dictionaries({"name": _json, "namespace": _json, "annotations": st.dictionaries(_annotation_keys, _json)}),
)
_objects = st.fixed_dictionaries(
    {
        "apiVersion": st.one_of(_json, st.sampled_from(["apps/v1", "orchestration.aibrix.ai/v1alpha1"])),
        "kind": st.one_of(_json, st.sampled_from(["KVCache", "Deployment", "StatefulSet", "kvcaches"])),
        "metadata": _metadata,
        "spec": st.one_of(_json, _known),
    }
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(_objects, _json))
def test_any_json_is_judged_without_an_exception(raw: Any) -> None:
    door = door_complaints(raw)
    spec = normalise(raw)
    assert isinstance(spec, KVCacheSpec)
    assert all(isinstance(item, Complaint) and item.field and item.sentence() for item in (*door, *spec.complaints))
    assert {item.field for item in door} <= {item.field for item in spec.complaints}
    assert spec.accepted <= (kind_of(raw) == "KVCache" and not door)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.text(alphabet="-:{}[]&*!|>'\"#%@,? \nabk0\t")))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    for item in load_documents(text, "any"):
        assert isinstance(item.raw, Mapping)
        assert all(complaint.field and complaint.sentence() for complaint in item.complaints)
