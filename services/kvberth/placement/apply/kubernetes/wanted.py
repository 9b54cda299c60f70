"""Which objects a KVCache should have, given its manifest and what was asked for by node. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvberth.kube import Target
from kvberth.kube.resources import DAEMON_SETS
from kvberth.kvcache import HASH, KVCacheSpec, rpc_service_name
from kvberth.placement.apply.kubernetes.children import Live, Name
from kvberth.placement.apply.kubernetes.kinds import LiveSet
from kvberth.placement.apply.kubernetes.render import (
    POOL_LABEL,
    PRIORITY,
    CacheSet,
    Child,
    Owner,
    daemon_set,
    has_rpc,
    nodes_of,
    priority_of,
    rpc_service,
    set_name,
    sets_of,
    sizes_of,
    tolerations_of,
    with_nodes,
)
from kvberth.placement.apply.kubernetes.worker import WorkerProgram
from kvberth.placement.needs import highest
from kvberth.placement.states import Needs, Wanted
from kvberth.placement.tolerated import widest
from kvberth_schemas.wants import Why

Asked = Mapping[str, Wanted]
"""What was asked for, by node."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How a cluster's caches are reached and run, whatever their manifests say."""

    traffic_policy: str
    worker: WorkerProgram


def children(spec: KVCacheSpec, owner: Owner, asked: Asked, live: Mapping[Name, Live], ways: Ways) -> list[Child]:
    """Return the objects that should be; `live` are those that are there with the KVCache's label."""
    sets = [_filled(item, asked) for item in sets_of(spec, owner, ways.worker)]
    found = [daemon_set(item) for item in sets if item.nodes or _name(item) in live]
    pools = {item.pool for item in sets}
    found += [_left_over(item, asked) for item in live.values() if _is_left_over(item, pools, asked)]
    service = rpc_service(owner, spec.service_port, ways.traffic_policy)
    if any(item.rpc for item in sets) or ("Service", rpc_service_name(owner.name)) in live:
        found.append(service)
    return found


def adopted(item: LiveSet, said: Wanted, *, directory: bool) -> Wanted:
    """Return what an earlier life asked for on a node of its DaemonSet; `said` is what the directory's want says."""
    owner = next((one for one in item.metadata.owner_references if one.controller), None)
    size_bytes, memory_bytes, cpu_millis = sizes_of(item.spec)
    strangers = said.needs.strangers if said.needs is not None else frozenset[str]()
    return replace(
        said,
        run=True,
        why=Why.WANTED,
        uid=owner.uid if owner is not None else "",
        pool=item.metadata.labels.get(POOL_LABEL, ""),
        size_bytes=size_bytes,
        memory_bytes=memory_bytes,
        cpu_millis=cpu_millis,
        directory=directory,
        only_directory=False,
        started=said.started or item.metadata.creation_timestamp,
        needs=Needs(
            tolerations_of(item.spec),
            has_rpc(item.spec),
            strangers,
            priority_of(item.metadata.annotations, item.spec),
        ),
    )


def _filled(item: CacheSet, asked: Asked) -> CacheSet:
    here = {node: wanted for node, wanted in asked.items() if wanted.run and wanted.pool == item.pool}
    needs = [wanted.needs for wanted in here.values() if wanted.needs is not None]
    return replace(
        item,
        nodes=tuple(sorted(here)),
        tolerations=widest(toleration for one in needs for toleration in one.tolerations),
        rpc=any(one.rpc for one in needs),
        priority=highest(one.priority for one in needs),
    )


def _name(item: CacheSet) -> Name:
    return "DaemonSet", set_name(item.owner.name, item.pool)


def _is_left_over(item: Live, pools: set[str], asked: Asked) -> bool:
    """A set of a pool that the manifest no longer has, while a cache of it is still asked for."""
    return (
        isinstance(item, LiveSet)
        and item.metadata.labels.get(POOL_LABEL, "") not in pools
        and (bool(nodes_of(item.spec)) or bool(_nodes(item, asked)))
    )


def _left_over(item: Live, asked: Asked) -> Child:
    assert isinstance(item, LiveSet)
    target = Target(DAEMON_SETS, item.metadata.namespace, item.metadata.name)
    metadata = {
        "labels": dict(item.metadata.labels),
        "annotations": {key: value for key, value in item.metadata.annotations.items() if key in {HASH, PRIORITY}},
        "ownerReferences": [one.model_dump(by_alias=True) for one in item.metadata.owner_references],
    }
    return Child(target, {"metadata": metadata, "spec": with_nodes(item.spec, _nodes(item, asked))})


def _nodes(item: LiveSet, asked: Asked) -> tuple[str, ...]:
    pool = item.metadata.labels.get(POOL_LABEL, "")
    return tuple(sorted(node for node, wanted in asked.items() if wanted.run and wanted.pool == pool))
