"""Reads manifests: YAML of several documents, JSON, Kubernetes' List. Never raises for what a user wrote.

One bad document is one entry with a complaint; the others are read all the same. Knows no kind's fields.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kvberth_schemas.manifests.complaint import Complaint
from kvberth_schemas.manifests.documents import DocumentError, parse_document

CLUSTER_KINDS: Final = frozenset(
    {
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)
DEFAULT_NAMESPACE: Final = "default"

_MARKER = re.compile(r"^---(?=\s|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RawObject:
    """One object of a text. With `complaints` it can't be used; what is missing or no text is empty."""

    source: str
    index: int
    """Which document of the text, from 0; the items of a List share their document's."""
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict)
    complaints: tuple[Complaint, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences that refuse nothing, such as an earlier document of the same name that this one replaces."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes two documents the same object: group, kind, namespace, name."""
        group = self.api_version.rpartition("/")[0]
        return group, self.kind, self.namespace, self.name


def load_documents(text: str, source: str) -> list[RawObject]:
    """Return the objects of a text in order. The last of several documents about one object counts, and says so."""
    found: list[RawObject] = []
    for index, (line, part) in enumerate(_documents(text)):
        try:
            value = parse_document(part, line)
        except DocumentError as error:
            found.append(RawObject(source, index, complaints=(_at(index, error),)))
        else:
            found.extend(_objects(value, source, index))
    return _last_wins(found)


def raw_object(value: Mapping[str, Any], source: str = "", index: int = 0) -> RawObject:
    """Return an object that is at hand as plain JSON."""
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    kind = _text(value.get("kind"))
    namespace = "" if kind in CLUSTER_KINDS else _text(metadata.get("namespace")) or DEFAULT_NAMESPACE
    return RawObject(source, index, _text(value.get("apiVersion")), kind, namespace, _text(metadata.get("name")), value)


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """Split at `---` at the beginning of a line, which no YAML can hold otherwise: (first line from 0, text)."""
    starts = [0, *(match.start() for match in _MARKER.finditer(text))]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part = text[start:end]
        if _says_something(part):
            yield text.count("\n", 0, start), part


def _says_something(part: str) -> bool:
    lines = (line.strip().removeprefix("---").strip() for line in part.lstrip("\ufeff").splitlines())
    return any(line and not line.startswith("#") and line != "..." for line in lines)


def _objects(value: object, source: str, index: int) -> Iterator[RawObject]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        complaint = Complaint(f"document {index + 1}", "is no object", "write apiVersion, kind, metadata and spec")
        yield RawObject(source, index, complaints=(complaint,))
        return
    items = value.get("items")
    if _text(value.get("kind")).endswith("List") and isinstance(items, list):
        for item in items:
            yield from _objects(item if item is not None else "", source, index)
        return
    yield raw_object(value, source, index)


def _last_wins(found: list[RawObject]) -> list[RawObject]:
    last = {item.key: place for place, item in enumerate(found)}
    earlier: dict[int, list[int]] = {}
    kept: list[RawObject] = []
    for place, item in enumerate(found):
        if item.name and item.kind and last[item.key] != place:
            earlier.setdefault(last[item.key], []).append(item.index)
            continue
        kept.append(replace(item, notes=(*item.notes, _again(item, earlier[place]))) if place in earlier else item)
    return kept


def _again(item: RawObject, indexes: list[int]) -> str:
    documents = ", ".join(str(index + 1) for index in indexes)
    name = f"{item.namespace}/{item.name}" if item.namespace else item.name
    return f"{item.kind} {name} stands in document {documents} too; the last one, document {item.index + 1}, counts"


def _at(index: int, error: DocumentError) -> Complaint:
    place = f", line {error.line}, column {error.column}" if error.line else ""
    return Complaint(f"document {index + 1}{place}", error.problem, error.remedy)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
