"""What a live KVCache says: its manifest without what the API server added, turned into its event. Pure."""

from datetime import UTC, datetime
from typing import Any, Final

from kvberth.kube import Meta
from kvberth.kube.resources import KVCACHES
from kvberth.kvcache import depth_complaint, normalise
from kvberth.pod_watcher.objects import KVCacheObject
from kvberth_schemas.events import KVCacheGoneV1, KVCacheSpecV1

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_THE_USERS: Final = frozenset({"status"})


def trim_kvcache(item: KVCacheObject) -> KVCacheSpecV1:
    """Return what a KVCache asks for. Raises ValueError where its outline can't be read, or no message can carry it."""
    meta, manifest = item.metadata, _manifest(item)
    if (complaint := depth_complaint(manifest)) is not None:
        raise ValueError(complaint.sentence())
    return KVCacheSpecV1(
        uid=meta.uid,
        name=meta.name,
        namespace=meta.namespace,
        generation=meta.generation,
        resource_version=int(meta.resource_version),
        created=meta.creation_timestamp or datetime.fromtimestamp(0, UTC),
        paused=_paused(manifest),
        deleting=meta.deleting,
        manifest=manifest,
    )


def kvcache_gone(spec: KVCacheSpecV1, why: str, *, by_user: bool) -> KVCacheGoneV1:
    """Return that a KVCache is gone; `by_user`: its live object was deleted while it was watched."""
    return KVCacheGoneV1(
        uid=spec.uid,
        name=spec.name,
        namespace=spec.namespace,
        by_user=by_user,
        why=why,
        resource_version=spec.resource_version,
    )


def _manifest(item: KVCacheObject) -> dict[str, Any]:
    others = {key: value for key, value in item.others.items() if key not in _NOT_THE_USERS}
    kind = {"apiVersion": KVCACHES.api_version, "kind": KVCACHES.kind}  # a list may leave them out
    return {**kind, **others, "metadata": _metadata(item.metadata), "spec": item.spec}


def _metadata(meta: Meta) -> dict[str, Any]:
    annotations = {key: value for key, value in meta.annotations.items() if key != _LAST_APPLIED}
    written = {"name": meta.name, "namespace": meta.namespace, "labels": meta.labels, "annotations": annotations}
    return {key: value for key, value in written.items() if value}


def _paused(manifest: dict[str, Any]) -> bool:
    try:
        return normalise(manifest).paused
    except Exception:  # noqa: BLE001 - no manifest may stop the others; who acts on it reads it again and says what is wrong
        return False
