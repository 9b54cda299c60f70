"""The cases' manifests with one value replaced by anything: judged, and what is accepted can be acted on."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvberth.kvcache import (
    children,
    door_complaints,
    engine_container,
    kind_of,
    normalise,
    requested_resources,
    socket_host_paths,
)
from kvberth_schemas.manifests import Workload, load_documents

MANIFESTS = Path(__file__).parents[1] / "manifests"
DOCUMENTS = [
    item.raw
    for path in sorted(MANIFESTS.glob("*.yaml"))
    for item in load_documents(path.read_text(), path.name)
    if kind_of(item.raw) is not None
]
_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(["1Gi", "0", ""])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=6), inner, max_size=2)),
    max_leaves=4,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*path, step)
        yield from _places(inner, (*path, step))


@st.composite
def _mutated(draw: st.DrawFn) -> dict[str, Any]:
    raw = copy.deepcopy(dict(draw(st.sampled_from(DOCUMENTS))))
    *steps, last = draw(st.sampled_from(list(_places(raw))))
    holder: Any = raw
    for step in steps:
        holder = holder[step]
    holder[last] = draw(_values)
    return raw


@settings(max_examples=400, deadline=None)
@given(_mutated())
def test_a_manifest_with_one_wrong_value_is_judged_and_what_is_accepted_is_usable(raw: dict[str, Any]) -> None:
    refused = door_complaints(raw)
    kind = kind_of(raw)
    if kind == "KVCache":
        spec = normalise(raw)
        assert {item.field for item in refused} <= {item.field for item in spec.complaints}
        if spec.accepted:
            assert 64 * 2**20 <= spec.size_bytes <= spec.memory_bytes
            assert children(spec)[0].name == spec.name
    elif kind is not None and not refused:
        pod = Workload.model_validate(raw).spec.template.spec
        assert all(amount >= 0 for amount in requested_resources(pod).values())
        assert engine_container(pod) in pod.containers
        assert all(mounted for pair in socket_host_paths(pod) for mounted in pair)
