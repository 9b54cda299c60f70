"""The annotations of a KVCache: which we know, what they say, and which look like ours but are not.

Annotations of other people's prefixes are nobody's business. Pure.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kvberth.kvcache.spec import DEFAULT_GPU_LABEL_KEY
from kvberth_schemas.manifests import Complaint
from kvberth_schemas.manifests.base import is_label_key

AIBRIX: Final = "kvcache.orchestration.aibrix.ai"
OURS: Final = "kvberth.dev"
PAUSED: Final = f"{OURS}/paused"
WORKLOAD: Final = f"{AIBRIX}/pod-affinity-workload"
GPU_TYPE: Final = f"{AIBRIX}/node-affinity-gpu-type"
GPU_LABEL_KEY: Final = f"{AIBRIX}/node-affinity-key"
ANTI_AFFINITY: Final = f"{AIBRIX}/pod-anti-affinity"
BACKEND: Final = f"{AIBRIX}/backend"
MODE: Final = f"{AIBRIX}/mode"

OTHER_BACKENDS: Final = ("hpkv", "infinistore")
_KNOWN: Final = {
    AIBRIX: (
        "backend",
        "mode",
        "node-affinity-gpu-type",
        "node-affinity-key",
        "pod-affinity-workload",
        "pod-anti-affinity",
    ),
    OURS: ("fence", "hash", "paused"),
}
_ALIKE = 0.75


@dataclass(frozen=True, slots=True)
class AnnotationValues:
    """What the annotations of one KVCache say, and what is wrong with them."""

    workload: str | None
    gpu_type: str | None
    gpu_label_key: str
    anti_affinity: bool
    backend: str
    paused: bool
    complaints: tuple[Complaint, ...]
    notes: tuple[str, ...]


def annotation_path(key: str) -> str:
    """Return the field path of an annotation."""
    return f"metadata.annotations[{key}]"


def read_annotations(annotations: Mapping[str, str]) -> AnnotationValues:
    """Read the annotations of a KVCache. Values that are no text are left to the door's schema."""
    texts = {key: value for key, value in annotations.items() if isinstance(key, str) and isinstance(value, str)}
    complaints = (*_near_misses(annotations), *_bad_values(texts))
    return AnnotationValues(
        workload=texts.get(WORKLOAD) or None,
        gpu_type=texts.get(GPU_TYPE) or None,
        gpu_label_key=texts.get(GPU_LABEL_KEY) or DEFAULT_GPU_LABEL_KEY,
        anti_affinity=ANTI_AFFINITY in annotations,
        backend=texts.get(BACKEND, "vineyard"),
        paused=texts.get(PAUSED) == "true",
        complaints=complaints,
        notes=tuple(_notes(texts)),
    )


def _near_misses(annotations: Mapping[str, str]) -> Iterator[Complaint]:
    for key in annotations:
        if isinstance(key, str) and (suggestion := _meant(key)) is not None:
            problem = "is no annotation that kvberth knows"
            yield Complaint(annotation_path(key), problem, f"write {suggestion}" if suggestion else _list_of_known(key))


def _meant(key: str) -> str | None:
    """What a key probably means; empty when it bears our prefix and resembles nothing, None when it is not ours."""
    domain, _, name = key.rpartition("/")
    if domain in _KNOWN and name in _KNOWN[domain]:
        return None
    ours = domain if domain in _KNOWN else _closest(domain.lower().replace("_", "-"), _KNOWN)
    if not domain:
        # A known name without any prefix: only the long ones are unmistakable.
        return f"{AIBRIX}/{name}" if "-" in name and name in _KNOWN[AIBRIX] else None
    if ours is None or _is_other_backend(domain):
        return None
    close = _closest(name.lower().replace("_", "-"), _KNOWN[ours])
    if close is not None:
        return f"{ours}/{close}"
    return "" if domain == ours else None


def _closest(word: str, known: Mapping[str, object] | tuple[str, ...]) -> str | None:
    matches = difflib.get_close_matches(word[:253], list(known), n=1, cutoff=_ALIKE)
    return matches[0] if matches else None


def _is_other_backend(domain: str) -> bool:
    return any(domain == f"{backend}.{AIBRIX}" for backend in OTHER_BACKENDS)


def _list_of_known(key: str) -> str:
    domain = key.rpartition("/")[0]
    return f"remove it, or use one of {', '.join(_KNOWN[domain])}"


def _bad_values(texts: Mapping[str, str]) -> Iterator[Complaint]:
    for key in (WORKLOAD, GPU_TYPE, GPU_LABEL_KEY):
        if key in texts and not texts[key].strip():
            yield Complaint(annotation_path(key), "is empty", "give it a value or remove it")
    label_key = texts.get(GPU_LABEL_KEY, "")
    if label_key.strip() and not is_label_key(label_key):
        remedy = "write it as nodes carry it, such as nvidia.com/gpu.product"
        yield Complaint(annotation_path(GPU_LABEL_KEY), f"{label_key[:70]!r} can't be the key of a label", remedy)
    if texts.get(PAUSED, "true") not in {"true", "false"}:
        yield Complaint(annotation_path(PAUSED), f"is {texts[PAUSED][:40]!r}", 'write "true" or "false"')
    backend = texts.get(BACKEND, "vineyard")
    if backend in OTHER_BACKENDS:
        problem = f"{backend} is a backend of AIBrix that kvberth does not run"
        yield Complaint(annotation_path(BACKEND), problem, "write vineyard, or leave it out")
    elif backend != "vineyard":
        yield Complaint(annotation_path(BACKEND), f"{backend[:40]!r} is no backend", "write vineyard, or leave it out")


def _notes(texts: Mapping[str, str]) -> Iterator[str]:
    if MODE in texts:
        yield f"{annotation_path(MODE)} has no effect"
    if GPU_LABEL_KEY in texts and GPU_TYPE not in texts:
        yield f"{annotation_path(GPU_LABEL_KEY)} has no effect without {GPU_TYPE}"
    if texts.get(ANTI_AFFINITY, "true") != "true":
        yield f"{annotation_path(ANTI_AFFINITY)} counts by its presence, whatever its value"
    for key in texts:
        if _is_other_backend(key.rpartition("/")[0]):
            yield f"{annotation_path(key)} has no effect with the backend vineyard"
