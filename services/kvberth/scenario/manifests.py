"""Makes the text that is applied from a scenario's `apply:`. Reads the files it names; sends nothing."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from kvberth.scenario.durations import Timing
from kvberth.scenario.format.manifests import Apply, Change
from kvberth_schemas.manifests import RawObject, load_documents

Object = dict[str, Any]


def texts(apply: Apply, folder: Path, linger_s: int | None) -> list[tuple[str, str]]:
    """Give what is applied, as (source, text), one after the other.

    Files that nothing changes are sent as they are, faults included.

    Raises:
        OSError, UnicodeDecodeError: a file can't be read.
        ValueError: a change, or a word of ``only``, is about no object.
    """
    found = [(path, (folder / path).read_text(encoding="utf-8")) for path in apply.file]
    found += [("text", apply.text)] if apply.text is not None else []
    if apply.objects:
        found.append(("objects", _dump(apply.objects)))
    if not apply.only and not apply.change and linger_s is None:
        return found
    _check(apply, [item for source, text in found for item in load_documents(text, source)])
    return [(source, _changed(text, source, apply, linger_s)) for source, text in found]


def objects_of(text: str, namespace: str) -> dict[tuple[str, str, str], Object]:
    """Give the readable objects of a text by kind, namespace and name."""
    return {
        (item.kind, _namespace(item, namespace), item.name): dict(item.raw)
        for item in load_documents(text, "")
        if item.kind and item.name
    }


def linger_seconds(timing: Timing) -> int | None:
    """Give what every applied KVCache gets as `spec.lingerSeconds`; None: what its manifest says."""
    return max(1, math.ceil(timing.named["linger"])) if "linger" in timing.written else None


def merged(value: Any, patch: Any) -> Any:  # noqa: ANN401 (any JSON)
    """Apply a JSON merge patch (RFC 7386); gives a new value."""
    if not isinstance(patch, Mapping):
        return patch
    base = dict(value) if isinstance(value, Mapping) else {}
    for key, inner in patch.items():
        if inner is None:
            base.pop(key, None)
        else:
            base[key] = merged(base.get(key), inner)
    return base


def _check(apply: Apply, items: list[RawObject]) -> None:
    there = ", ".join(f"{item.kind}/{item.name}" for item in items) or "no object"
    for word in apply.only:
        if not any(_chosen(item, [word]) for item in items):
            raise ValueError(f"'only: {word}' chooses nothing; there is {there}")
    for change in apply.change:
        if not any(_meant(change, item.raw) for item in items):
            raise ValueError(
                f"a change of {change.kind or 'any kind'}/{change.name or '*'} meets nothing; there is {there}"
            )


def _changed(text: str, source: str, apply: Apply, linger_s: int | None) -> str:
    kept = [dict(item.raw) for item in load_documents(text, source) if item.raw and _chosen(item, apply.only)]
    return _dump([_with_linger(_patched(item, apply.change), linger_s) for item in kept])


def _chosen(item: RawObject, only: list[str]) -> bool:
    return not only or item.kind in only or f"{item.kind}/{item.name}" in only


def _patched(item: Object, changes: Iterable[Change]) -> Object:
    for change in changes:
        if _meant(change, item):
            item = merged(item, change.merge)
    return item


def _meant(change: Change, item: Mapping[str, Any]) -> bool:
    named = (item.get("metadata") or {}).get("name")
    return change.kind in {None, item.get("kind")} and change.name in {None, named}


def _with_linger(item: Object, linger_s: int | None) -> Object:
    if linger_s is None or item.get("kind") != "KVCache":
        return item
    return dict(merged(item, {"spec": {"lingerSeconds": linger_s}}))


def _namespace(item: RawObject, default: str) -> str:
    named = (item.raw.get("metadata") or {}).get("namespace")
    return named if isinstance(named, str) and named else default


def _dump(items: Iterable[Object]) -> str:
    return str(yaml.safe_dump_all(items, sort_keys=False))
