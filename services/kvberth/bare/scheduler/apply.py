"""What becomes of applied documents: accepted, ignored or refused, each by itself. Pure.

Where the request asks for all or nothing, one refused document holds back the others.
What is accepted is stored as it was written (with its namespace); an unchanged document changes nothing. As in
Kubernetes a new `spec` is a new generation, new metadata is not.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from kvberth.bare.scheduler.records import ManifestRecord
from kvberth.bare.scheduler.results import accepted, fitting, held_back, ignored, refused, refused_for
from kvberth.bare.scheduler.shape import shape_of, workload_of
from kvberth.bare.scheduler.state import State
from kvberth.kvcache import (
    MODEL_LABEL,
    Complaint,
    door_complaints,
    host_directory,
    kind_of,
    map_host_path,
    mistyped_model_label,
    normalise,
    socket_path,
    socket_path_complaint,
    workload_strays,
)
from kvberth_schemas.manifests import DEFAULT_NAMESPACE, RawObject, load_documents
from kvberth_schemas.requests import ApplyRequest, Outcome, Result

MAX_DOCUMENT_BYTES: Final = 256 * 1024
"""A larger one would not fit on the bus beside its envelope."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a decision may not make up by itself: the time, and ids that nobody had before."""

    now: datetime
    new_uid: Callable[[], str]


def apply(state: State, request: ApplyRequest, moment: Moment) -> tuple[State, list[Result]]:
    """Return the state after a request to apply documents, and what became of each of them."""
    found = load_documents(request.text, request.source)
    if not found:
        sentence = "holds no object; write apiVersion, kind, metadata and spec"
        return state, [refused("", None, request.source, sentence)]
    after, results = state, []
    for item in found:
        after, own = _one(after, item, request.namespace, moment)
        results.extend(own)
    if request.all_or_nothing and any(result.outcome is Outcome.REFUSED for result in results):
        return state, fitting([held_back(result, request.source) for result in results])
    return after, fitting(results)


def _one(state: State, item: RawObject, namespace: str, moment: Moment) -> tuple[State, list[Result]]:
    raw = _placed(item.raw, namespace)
    kind = kind_of(raw) or item.kind
    where = _namespace(raw["metadata"], namespace) if item.namespace else None
    complaints = item.complaints or tuple(door_complaints(raw))
    if not complaints and kind == "KVCache":
        complaints = tuple(_path_complaints(state, where or DEFAULT_NAMESPACE, item.name))
    if not complaints and len(json.dumps(raw)) > MAX_DOCUMENT_BYTES:
        complaints = (Complaint("document", "is too large", f"keep it below {MAX_DOCUMENT_BYTES // 1024} KiB"),)
    if complaints:
        return state, refused_for(kind, where, item.name, complaints)
    reason = _without_effect(raw, kind)
    if reason is not None:
        return state, [ignored(kind, where, item.name, reason)]
    record, what = _stored(state, raw, (kind, where or DEFAULT_NAMESPACE, item.name), moment)
    warnings = _warnings(raw, kind)
    return state.put(record), [accepted(kind, where, item.name, "; ".join((what, *item.notes)), warnings)]


def _warnings(raw: Mapping[str, Any], kind: str) -> Iterable[Complaint]:
    """Why a KVCache will not be acted on, and what of a workload is no field: Kubernetes, too, takes it with a word."""
    if kind == "KVCache":
        return normalise(raw).complaints
    return workload_strays(raw, "StatefulSet" if kind == "StatefulSet" else "Deployment")


def _placed(raw: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """The document with its namespace written out, where it has metadata to hold it."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("namespace"):
        return {**raw, "metadata": metadata if metadata is not None else {}}
    return {**raw, "metadata": {**metadata, "namespace": namespace}}


def _namespace(metadata: object, default: str) -> str:
    """Where an object would be; what holds no metadata is refused there."""
    return str(metadata.get("namespace", default)) if isinstance(metadata, Mapping) else default


def _path_complaints(state: State, namespace: str, name: str) -> list[Complaint]:
    """Why the socket of a cache of this name would not fit on a node that is known."""
    found = []
    for node in state.nodes.values():
        directory = map_host_path(host_directory(namespace, name), Path(node.root)) if node.root else None
        complaint = socket_path_complaint(socket_path(directory)) if directory else None
        if complaint is not None:
            found.append(Complaint(complaint.field, f"on node {node.name} {complaint.problem}", complaint.remedy))
    return found


def _without_effect(raw: Mapping[str, Any], kind: str) -> str | None:
    if kind_of(raw) is None:
        return f"{kind} has no effect on the bare backend"
    if kind != "KVCache" and shape_of(raw) is None:
        mistyped = mistyped_model_label(workload_of(raw).spec.template.labels)
        meant = f"; did you mean it by {mistyped}?" if mistyped else ""
        return f"its pods are no engines: spec.template.metadata.labels has no {MODEL_LABEL}{meant}"
    return None


def _stored(state: State, raw: dict[str, Any], key: tuple[str, str, str], moment: Moment) -> tuple[ManifestRecord, str]:
    before = state.manifest(key)
    if before is None:
        record = ManifestRecord(
            kind=key[0],
            namespace=key[1],
            name=key[2],
            uid=moment.new_uid(),
            generation=1,
            created=moment.now,
            document=raw,
        )
        return record, "created"
    document = _keeping_scale(raw, before.document)
    if document == before.document:
        return before, "unchanged"
    generation = before.generation + (document.get("spec") != before.document.get("spec"))
    return before.model_copy(update={"document": document, "generation": generation}), "configured"


def _keeping_scale(raw: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """A workload's document that leaves `replicas` out leaves them as they were scaled."""
    replicas = before["spec"].get("replicas") if isinstance(before.get("spec"), Mapping) else None
    if raw["kind"] == "KVCache" or replicas is None or raw["spec"].get("replicas") is not None:
        return raw
    return {**raw, "spec": {**raw["spec"], "replicas": replicas}}
