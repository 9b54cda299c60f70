"""Live objects as an API server gave them, read as the watches read them, and small changes to them."""

import copy
import json
from pathlib import Path
from typing import Any, TypeVar

from kvberth.kube import Entry, Kind
from kvberth.pod_watcher.watches import KVCACHE, NODE, POD

CAPTURED = Path(__file__).with_name("captured")
KINDS: dict[str, Kind[Any]] = {"pod": POD, "node": NODE, "kvcache": KVCACHE}

T = TypeVar("T")


def raw(name: str, **changes: Any) -> dict[str, Any]:
    """A captured object; `changes` merge into `metadata`, `spec` and `status`, None removes."""
    value = json.loads((CAPTURED / f"{name}.json").read_text())
    for part, change in changes.items():
        value[part] = _merged(value.get(part), change)
    return value


def read(value: dict[str, Any]) -> Entry[Any]:
    """As a watch reads a frame's object."""
    entry = KINDS[value["kind"].lower()].read_bytes(json.dumps(value).encode())
    assert isinstance(entry, Entry), entry
    return entry


def live(name: str, **changes: Any) -> Any:
    """What is kept of a captured object."""
    return read(raw(name, **changes)).value


def _merged(value: Any, change: Any) -> Any:
    if not isinstance(change, dict) or not isinstance(value, dict):
        return copy.deepcopy(change)
    merged = {**value, **{key: _merged(value.get(key), item) for key, item in change.items()}}
    return {key: item for key, item in merged.items() if item is not None}
