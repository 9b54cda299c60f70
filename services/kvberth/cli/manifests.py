"""Reads the manifests that a user names, as requests to the scheduler. Judges nothing in them."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvberth.cli.errors import CommandError
from kvberth.kvcache import MODEL_LABEL, kind_of, mistyped_model_label
from kvberth.service.text_file import as_text, read_text
from kvberth_schemas.envelope import MAX_BODY_BYTES
from kvberth_schemas.manifests import load_documents
from kvberth_schemas.registry import encode
from kvberth_schemas.requests import ApplyRequest, ObjectRequest

STANDARD_INPUT = "standard input"


def apply_request(path: Path, namespace: str = "default") -> ApplyRequest:
    """Read a file, or standard input for `-`, as a request to apply it whole or not at all.

    Raises:
        ServiceError: it can't be read, is no text, or is too large for one request.
        CommandError: it is too large for one request as JSON.
    """
    request = ApplyRequest(text=_read(path), source=source_of(path), namespace=namespace, all_or_nothing=True)
    if len(encode(request)) > MAX_BODY_BYTES:
        raise CommandError(f"{request.source} is too large for one request; split it into several files")
    return request


def delete_requests(path: Path, namespace: str) -> list[ObjectRequest]:
    """Read a file, or standard input for `-`, as requests to delete what it holds.

    Raises:
        ServiceError: it can't be read, is no text, or is too large.
        CommandError: a document of it can't be read, or it holds none.
    """
    source = source_of(path)
    documents = load_documents(_read(path), source)
    for document in documents:
        if document.complaints:
            raise CommandError(f"nothing is deleted: {source}, {document.complaints[0].sentence()}")
    if not documents:
        raise CommandError(f"{source} holds no object to delete")
    return [
        ObjectRequest(
            kind=document.kind,
            namespace=own_namespace(document.raw) or namespace,
            name=document.name,
            has_effect=_has_effect(document.raw),
        )
        for document in documents
    ]


def _has_effect(raw: Mapping[str, Any]) -> bool:
    """Whether an object may be one of ours. It is none by its kind, or by labels among which no model is meant.

    A manifest that is as short as a deletion allows tells nothing about that.
    """
    kind = kind_of(raw)
    if kind in {None, "KVCache"}:
        return kind is not None
    part: Any = raw
    for name in ("spec", "template", "metadata", "labels"):
        part = part.get(name) if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not part:
        return True
    labels = {str(key): "" for key in part}
    return MODEL_LABEL in labels or mistyped_model_label(labels) is not None


def source_of(path: Path) -> str:
    """Name a file, or standard input, in sentences."""
    return STANDARD_INPUT if str(path) == "-" else str(path)


def own_namespace(raw: Mapping[str, Any]) -> str:
    """Give the namespace that a document itself names, or nothing."""
    metadata = raw.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return namespace if isinstance(namespace, str) else ""


def _read(path: Path) -> str:
    if str(path) == "-":
        return as_text(sys.stdin.buffer.read(MAX_BODY_BYTES + 1), STANDARD_INPUT, MAX_BODY_BYTES)
    return read_text(path, MAX_BODY_BYTES)
