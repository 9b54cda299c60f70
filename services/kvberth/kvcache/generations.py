"""Where each generation of the KVCache keeps what describes a cache, and what of it has no effect.

First generation: `spec.cacheSpec`. Second: `spec.cache` with resources. Both at once is a contradiction.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from kvberth.kvcache.findings import Findings
from kvberth.kvcache.spec import DEFAULT_IMAGE
from kvberth_schemas.manifests import EnvVar, KVCacheFields
from kvberth_schemas.manifests.kvcache import CacheResources, CacheSpec, RuntimeSpec

_UNUSED: Final = (
    ("mode", "is read by no generation's controller"),
    ("etcdReplicas", "has no effect"),
    ("watcher", "belongs to other backends"),
    ("service.nodePort", "has no effect"),
    ("cacheSpec.replicas", "has no effect: spec.replicas turns the cache on"),
    ("cache.template", "has no effect"),
    ("cache.resources.claims", "has no effect"),
    ("metadata.redis", "belongs to other backends"),
    ("metadata.etcd.image", "has no effect: the image of etcd is a setting of kvberth"),
    ("metadata.etcd.replicas", "has no effect: etcd is sized per namespace"),
    ("metadata.etcd.resources", "has no effect"),
    ("metadata.etcd.storage", "has no effect"),
    ("metadata.etcd.runtime", "has no effect: etcd is one per namespace"),
    ("placement.affinity", "has no effect yet"),
)
_MAX_FAULTS: Final = 64


@dataclass(frozen=True, slots=True)
class Asked:
    """A quantity of a manifest and where it stands."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class CacheBlock:
    """What describes one cache, whichever generation it is from."""

    path: str
    limits: str
    """Path of the fields that name cpu and memory."""
    image: str
    image_pull_policy: str
    env: tuple[EnvVar, ...]
    cpu: Asked | None
    memory: Asked | None
    shared: Asked | None


def is_first_generation(fields: KVCacheFields) -> bool:
    """Tell whether a manifest was written for AIBrix v0.2: its engines are likely to need a metadata service."""
    if fields.cache is not None:
        return False
    port = fields.service is not None and fields.service.port is not None
    return fields.cache_spec is not None or fields.replicas is not None or fields.etcd_replicas is not None or port


def cache_block(fields: KVCacheFields, findings: Findings) -> CacheBlock:
    """Return what the manifest says about one cache. Both generations at once: the first is read, and it is said."""
    if fields.cache is not None and fields.cache_spec is not None:
        findings.complain("spec.cache", "says what spec.cacheSpec says, in another generation", "keep one of them")
    if fields.cache is not None and fields.cache_spec is None:
        return _second(fields.cache, findings)
    return _first(fields.cache_spec or CacheSpec(), findings)


def asked_of(resources: CacheResources | None, path: str, name: str) -> Asked | None:
    """Return what resources name of cpu or memory: the limit, else the request."""
    for kind, amounts in (("limits", resources and resources.limits), ("requests", resources and resources.requests)):
        if amounts and name in amounts:
            return Asked(f"{path}.{kind}.{name}", amounts[name])
    return None


def readable_fields(spec: object) -> KVCacheFields:
    """Return what can be read of a spec: fields with faults are left out, one after the other."""
    rest = copy.deepcopy(dict(spec)) if isinstance(spec, Mapping) else {}
    for _ in range(_MAX_FAULTS):
        try:
            return KVCacheFields.model_validate(rest)
        except ValidationError as error:
            _leave_out(rest, error.errors(include_url=False)[0]["loc"])
    return KVCacheFields()


def unused_fields(spec: object) -> Iterator[str]:
    """Yield a sentence for every field that is known and has no effect."""
    for path, why in _UNUSED:
        if _at(spec, path) not in (None, "", [], {}):
            yield f"spec.{path} {why}"
    if _at(spec, "service.type") not in (None, "ClusterIP"):
        yield "spec.service.type has no effect: the cache's Service is a ClusterIP"


def _first(block: CacheSpec, findings: Findings) -> CacheBlock:
    path = "spec.cacheSpec"
    return CacheBlock(
        path=path,
        limits=path,
        image=_image(block.image, findings),
        image_pull_policy=block.image_pull_policy or "IfNotPresent",
        env=block.env or (),
        cpu=Asked(f"{path}.cpu", block.cpu) if block.cpu is not None else None,
        memory=Asked(f"{path}.memory", block.memory) if block.memory is not None else None,
        shared=Asked(f"{path}.sharedMemorySize", block.shared_memory_size) if block.shared_memory_size else None,
    )


def _second(block: RuntimeSpec, findings: Findings) -> CacheBlock:
    path = "spec.cache"
    return CacheBlock(
        path=path,
        limits=f"{path}.resources.limits",
        image=_image(block.image, findings),
        image_pull_policy=block.image_pull_policy or "IfNotPresent",
        env=block.env or (),
        cpu=asked_of(block.resources, f"{path}.resources", "cpu"),
        memory=asked_of(block.resources, f"{path}.resources", "memory"),
        shared=None,
    )


def _image(image: str | None, findings: Findings) -> str:
    if image is None:
        findings.defaults.append(f"image {DEFAULT_IMAGE}, since the manifest names none")
    return image or DEFAULT_IMAGE


def _at(spec: object, path: str) -> object:
    value = spec
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _leave_out(rest: dict[str, Any], loc: tuple[int | str, ...]) -> None:
    """Remove what a fault is about; where a required part is missing, the object that lacks it."""
    holders: list[tuple[Any, Any]] = []
    value: Any = rest
    for step in loc:
        holders.append((value, step))
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            holders.pop()
            break
    if holders:
        holder, step = holders[-1]
        del holder[step]
    else:
        rest.clear()
