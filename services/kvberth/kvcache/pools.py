"""The pools of a KVCache: its caches by kind of GPU node. Pure."""

from dataclasses import replace

from kvberth.kvcache.annotations import GPU_TYPE, AnnotationValues, annotation_path
from kvberth.kvcache.findings import Findings
from kvberth.kvcache.generations import CacheBlock, asked_of
from kvberth.kvcache.sizes import cache_size
from kvberth.kvcache.spec import PoolSpec
from kvberth_schemas.manifests import KVCacheFields
from kvberth_schemas.manifests.kvcache import Pool


def read_pools(
    fields: KVCacheFields, annotations: AnnotationValues, block: CacheBlock, findings: Findings
) -> tuple[PoolSpec, ...]:
    """Return the pools in the manifest's order; none where it names none (then the KVCache is its own only pool)."""
    pools = fields.pools or ()
    if pools and annotations.gpu_type is not None:
        findings.complain(
            annotation_path(GPU_TYPE), "names one GPU type, but spec.pools name their own", "keep one of them"
        )
    seen: dict[str, int] = {}
    for index, pool in enumerate(pools):
        if pool.name in seen:
            problem = f"{pool.name} is the name of spec.pools[{seen[pool.name]}] too"
            findings.complain(f"spec.pools[{index}].name", problem, "give each pool a name of its own")
        seen.setdefault(pool.name, index)
    return tuple(_pool(index, pool, fields, annotations, block, findings) for index, pool in enumerate(pools))


def _pool(
    index: int, pool: Pool, fields: KVCacheFields, annotations: AnnotationValues, block: CacheBlock, findings: Findings
) -> PoolSpec:
    path = f"spec.pools[{index}].resources"
    own = replace(
        block,
        cpu=asked_of(pool.resources, path, "cpu") or block.cpu,
        memory=asked_of(pool.resources, path, "memory") or block.memory,
        shared=None if asked_of(pool.resources, path, "memory") else block.shared,
    )
    quiet = Findings(complaints=findings.complaints)  # the defaults are said once, for the KVCache
    return PoolSpec(
        name=pool.name,
        on=pool.replicas != 0,
        gpu_type=pool.gpu_type,
        gpu_label_key=pool.gpu_label_key or annotations.gpu_label_key,
        node_selector=tuple(sorted((pool.node_selector or {}).items())),
        size=cache_size(own, fields, quiet),
    )
