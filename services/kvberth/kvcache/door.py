"""What is refused at the door: what the schema of a KVCache, a Deployment or a StatefulSet would not let in.

Pure, and never raises, whatever the object is. What needs more than the schema is `normalise`'s to say.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel

from kvberth.kvcache.depth import depth_complaint
from kvberth.kvcache.faults import schema_faults, shown
from kvberth.kvcache.texts import unspeakable_texts
from kvberth.kvcache.workload_faults import workload_faults
from kvberth_schemas.manifests import Complaint, Deployment, KVCacheManifest, Node, StatefulSet, Workload
from kvberth_schemas.manifests.kvcache import API_GROUP, API_VERSION

Kind = Literal["KVCache", "Deployment", "StatefulSet"]

_WORKLOADS: Final[dict[str, type[Workload]]] = {"Deployment": Deployment, "StatefulSet": StatefulSet}
_MODELS: Final[dict[str, type[BaseModel]]] = {"KVCache": KVCacheManifest, **_WORKLOADS}
_VERSIONS: Final = {"KVCache": API_VERSION, "Deployment": "apps/v1", "StatefulSet": "apps/v1"}
_SPELLINGS: Final = {spelling: kind for kind in _MODELS for spelling in (kind.lower(), f"{kind.lower()}s")}
_ALIKE: Final = 0.85
# Where these kinds have lived, or are written by mistake; other groups have kinds of the same name of their own.
_WORKLOAD_GROUPS: Final = frozenset({"apps", "app", "extensions", ""})


def kind_of(raw: Mapping[str, Any]) -> Kind | None:
    """Tell which of the kinds that we act on an object means to be, misspellings included; None for other kinds."""
    if not isinstance(raw, Mapping):
        return None
    kind, version = raw.get("kind"), raw.get("apiVersion")
    group = version.rpartition("/")[0].lower() if isinstance(version, str) else ""
    meant = _meant(kind, group) if isinstance(kind, str) else None
    if meant is None:
        return None
    if meant != "KVCache" and group not in _WORKLOAD_GROUPS:
        return None
    return meant  # type: ignore[return-value]  # the keys of _MODELS are the kinds


def _meant(kind: str, group: str) -> str | None:
    word = kind.lower().replace("-", "").replace("_", "")
    if word in _SPELLINGS:
        return _SPELLINGS[word]
    # In a group where the kind lives, a word that is nearly its name is a slip; elsewhere it is somebody's own kind.
    close = difflib.get_close_matches(word[:64], list(_SPELLINGS), n=1, cutoff=_ALIKE)
    meant = _SPELLINGS[close[0]] if close else None
    return meant if meant is not None and _group(_VERSIONS[meant]) == group else None


def door_complaints(raw: Mapping[str, Any]) -> list[Complaint]:
    """Return why an object is refused; empty for one that is let in, and for kinds that are not ours to judge."""
    if not isinstance(raw, Mapping):
        return [Complaint("document", f"must be a map, not {shown(raw)}", "write apiVersion, kind, metadata and spec")]
    if (complaint := depth_complaint(raw)) is not None:  # all that follows goes as deep as the object is
        return [complaint]
    kind = kind_of(raw)
    if kind is None:
        return list(_identity_faults(raw))
    # The identity has sentences of its own; the schema then judges the rest under the right names.
    named = {**raw, "kind": kind, "apiVersion": _VERSIONS[kind]}
    faults = _each_field_once((*_misnamed(raw, kind), *unspeakable_texts(named), *schema_faults(_MODELS[kind], named)))
    if kind != "KVCache" and not faults:
        faults.extend(workload_faults(_WORKLOADS[kind].model_validate(named)))
    return faults


def node_complaints(raw: Mapping[str, Any]) -> list[Complaint]:
    """Return why an entry of a nodes file is refused."""
    if (complaint := depth_complaint(raw)) is not None:
        return [complaint]
    return _each_field_once((*unspeakable_texts(raw), *schema_faults(Node, raw)))


def _each_field_once(complaints: Iterable[Complaint]) -> list[Complaint]:
    """The first complaint about a field says what to do."""
    first: dict[str, Complaint] = {}
    for complaint in complaints:
        first.setdefault(complaint.field, complaint)
    return list(first.values())


def _identity_faults(raw: Mapping[str, Any]) -> Iterator[Complaint]:
    for field, example in (("apiVersion", API_VERSION), ("kind", "KVCache")):
        value = raw.get(field)
        if value is None or value == "":
            yield Complaint(field, "is missing", f"write it, such as {example}")
        elif not isinstance(value, str):
            yield Complaint(field, f"must be a text, not {shown(value)}", f"write it, such as {example}")


def _misnamed(raw: Mapping[str, Any], kind: Kind) -> Iterator[Complaint]:
    version, wanted = raw.get("apiVersion"), _VERSIONS[kind]
    if version is None:
        yield Complaint("apiVersion", "is missing", f"write {wanted}")
    elif version != wanted:
        words = (
            "is no version that is served" if _group(version) in {API_GROUP, "apps"} else f"is not where {kind} lives"
        )
        yield Complaint("apiVersion", f"{shown(version)} {words}", f"write {wanted}")
    if raw.get("kind") != kind:
        yield Complaint("kind", f"{shown(raw.get('kind'))} is no kind", f"write {kind}")


def _group(version: object) -> str:
    return version.rpartition("/")[0] if isinstance(version, str) else ""
