"""One internal spec out of a KVCache of either generation, with every contradiction and unknown field named.

Pure, and never raises: an object that the door would refuse gives a spec whose complaints hold the door's too.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kvberth.kvcache.annotations import GPU_TYPE, AnnotationValues, annotation_path, read_annotations
from kvberth.kvcache.depth import depth_complaint
from kvberth.kvcache.door import door_complaints, kind_of
from kvberth.kvcache.faults import stray_complaints, unknown_fields
from kvberth.kvcache.findings import Findings
from kvberth.kvcache.generations import CacheBlock, cache_block, readable_fields, unused_fields
from kvberth.kvcache.metadata import metadata_mode
from kvberth.kvcache.pools import read_pools
from kvberth.kvcache.sizes import cache_size
from kvberth.kvcache.spec import (
    DEFAULT_HUNG_RESTART_S,
    DEFAULT_LINGER_S,
    DEFAULT_MAX_REMOVALS_PER_MINUTE,
    DEFAULT_SERVICE_PORT,
    GateSpec,
    KVCacheSpec,
    PlacementSpec,
    Variable,
)
from kvberth_schemas.manifests import DEFAULT_NAMESPACE, Complaint, KVCacheFields, KVCacheManifest
from kvberth_schemas.manifests.kvcache import KIND

# Where people look for a field that stands elsewhere.
_LIVES_AT: Final = {
    "spec.nodeSelector": "spec.placement.nodeSelector",
    "spec.tolerations": "spec.placement.tolerations",
    "spec.affinity": "spec.placement.affinity",
    "spec.image": "spec.cacheSpec.image",
    "spec.cpu": "spec.cacheSpec.cpu",
    "spec.env": "spec.cacheSpec.env",
    "spec.resources": "spec.cache.resources",
    "spec.cacheSpec.resources": "spec.cacheSpec.cpu and spec.cacheSpec.memory",
    "spec.cache.memory": "spec.cache.resources.limits.memory",
    "spec.cache.cpu": "spec.cache.resources.limits.cpu",
    "spec.service.targetPort": "spec.service.port",
}


def normalise(raw: Mapping[str, Any]) -> KVCacheSpec:
    """Return what a KVCache asks for; `complaints` says why it can't be acted on, the first ones being the door's."""
    findings = Findings(complaints=door_complaints(raw))
    raw = {key: value for key, value in _map(raw).items() if depth_complaint(value) is None}
    if not findings.complaints and kind_of(raw) != KIND:
        findings.complain("kind", "is not KVCache", f"write {KIND}")
    metadata = _map(_map(raw).get("metadata"))
    annotations = read_annotations(_map(metadata.get("annotations")))
    findings.add(annotations.complaints)
    findings.notes.extend(annotations.notes)
    spec = _map(raw).get("spec")
    findings.add(_unknown(raw))
    findings.notes.extend(unused_fields(spec))
    namespace = _text(metadata.get("namespace")) or DEFAULT_NAMESPACE
    return _spec(namespace, _text(metadata.get("name")), readable_fields(spec), annotations, findings)


def _spec(
    namespace: str, name: str, fields: KVCacheFields, annotations: AnnotationValues, findings: Findings
) -> KVCacheSpec:
    block = cache_block(fields, findings)
    size = cache_size(block, fields, findings)
    placement = _placement(fields)
    pools = read_pools(fields, annotations, block, findings)
    mode, endpoint = metadata_mode(fields, findings)
    _against_annotations(annotations, placement, findings)
    return KVCacheSpec(
        namespace=namespace,
        name=name,
        backend=annotations.backend,
        paused=annotations.paused,
        replicas=_replicas(fields, findings),
        workload=annotations.workload,
        gpu_type=annotations.gpu_type,
        gpu_label_key=annotations.gpu_label_key,
        anti_affinity=annotations.anti_affinity,
        image=block.image,
        image_pull_policy=block.image_pull_policy,
        env=_env(block, findings),
        size=size,
        service_port=_service_port(fields, findings),
        metadata_mode=mode,
        metadata_endpoint=endpoint,
        pools=pools,
        placement=placement,
        linger_s=_or(fields.linger_seconds, DEFAULT_LINGER_S),
        hung_restart_s=_or(fields.hung_restart_seconds, DEFAULT_HUNG_RESTART_S),
        gate=GateSpec(fields.gate.policy, fields.gate.timeout_seconds) if fields.gate else GateSpec(),
        complaints=tuple(findings.complaints),
        defaults_taken=() if findings.complaints else tuple(findings.defaults),
        notes=() if findings.complaints else tuple(findings.notes),
    )


def _unknown(raw: object) -> Iterator[Complaint]:
    found = unknown_fields(KVCacheManifest, raw, "")
    return stray_complaints(found, "is no field of a KVCache, in any generation", _LIVES_AT)


def _replicas(fields: KVCacheFields, findings: Findings) -> int:
    first, second = fields.replicas, fields.cache.replicas if fields.cache else None
    if first is not None and second is not None and first != second:
        findings.complain("spec.cache.replicas", f"is {second}, but spec.replicas is {first}", "keep one of them")
    return _or(first, _or(second, 1))


def _service_port(fields: KVCacheFields, findings: Findings) -> int:
    service = fields.service
    if service is None:
        return DEFAULT_SERVICE_PORT
    first, second = service.port, service.ports[0].port if service.ports else None
    if first is not None and second is not None and first != second:
        findings.complain(
            "spec.service.ports[0].port", f"is {second}, but spec.service.port is {first}", "keep one of them"
        )
    return _or(first, _or(second, DEFAULT_SERVICE_PORT))


def _placement(fields: KVCacheFields) -> PlacementSpec:
    placement = fields.placement
    if placement is None:
        return PlacementSpec()
    return PlacementSpec(
        node_selector=tuple(sorted((placement.node_selector or {}).items())),
        tolerations=placement.tolerations or (),
        max_removals_per_minute=_or(placement.max_removals_per_minute, DEFAULT_MAX_REMOVALS_PER_MINUTE),
    )


def _against_annotations(annotations: AnnotationValues, placement: PlacementSpec, findings: Findings) -> None:
    native = dict(placement.node_selector).get(annotations.gpu_label_key)
    if annotations.gpu_type is not None and native is not None and native != annotations.gpu_type:
        problem = (
            f"is {annotations.gpu_type}, but spec.placement.nodeSelector asks for {annotations.gpu_label_key}={native}"
        )
        findings.complain(annotation_path(GPU_TYPE), problem, "keep one of them")


def _env(block: CacheBlock, findings: Findings) -> tuple[Variable, ...]:
    found: dict[str, Variable] = {}
    for index, item in enumerate(block.env):
        path, name = f"{block.path}.env[{index}]", item.name
        if name in found:
            findings.complain(f"{path}.name", f"{name} is set twice", "keep one of them")
        if item.value_from is not None and item.value:
            findings.complain(f"{path}.valueFrom", "stands beside a value", "keep one of them")
        if item.value_from is not None:
            where = "is resolved on Kubernetes only: on bare machines"
            findings.notes.append(f"{path}.valueFrom {where} {name} is left out")
        found[name] = Variable(name, item.value or "", item.value_from)
    return tuple(found.values())


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
