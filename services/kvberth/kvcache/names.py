"""Names of a KVCache's children, and why two KVCaches, or one long name, can't have theirs. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kvberth.kvcache.spec import KVCacheSpec
from kvberth_schemas.manifests import Complaint

MAX_NAME: Final = 63


@dataclass(frozen=True, slots=True)
class Child:
    """One object that a KVCache needs, and the field that its name comes from."""

    kind: str
    name: str
    field: str


def cache_set_name(kvcache: str, pool: str | None = None) -> str:
    """Return the name of the caches of a pool (on Kubernetes a DaemonSet)."""
    return kvcache if pool is None else f"{kvcache}-{pool}"


def rpc_service_name(kvcache: str) -> str:
    """Return the Service that legacy engines name as their RPC endpoint."""
    return f"{kvcache}-rpc"


def etcd_service_name(kvcache: str) -> str:
    """Return the Service name of etcd that engines know."""
    return f"{kvcache}-etcd-service"


def children(spec: KVCacheSpec) -> tuple[Child, ...]:
    """Return the objects that a KVCache needs, by kind and name."""
    pools = [
        Child("DaemonSet", cache_set_name(spec.name, pool.name), f"spec.pools[{index}].name")
        for index, pool in enumerate(spec.pools)
    ]
    services = [rpc_service_name(spec.name), etcd_service_name(spec.name)]
    sets = pools or [Child("DaemonSet", cache_set_name(spec.name), "metadata.name")]
    return (*sets, *(Child("Service", name, "metadata.name") for name in services))


def name_complaints(specs: Sequence[KVCacheSpec]) -> dict[str, tuple[Complaint, ...]]:
    """Return, for the KVCaches of one namespace in their order of age, what is wrong with their children's names.

    Of two that want one name the older keeps it; the younger gets the complaint, which names both.
    """
    owners: dict[tuple[str, str], str] = {}
    result: dict[str, tuple[Complaint, ...]] = {}
    for spec in specs:
        wanted = children(spec)
        found = (*_too_long(wanted), *_taken(spec.name, wanted, owners))
        if found:
            result[spec.name] = found
        for child in wanted:
            owners.setdefault((child.kind, child.name), spec.name)
    return result


def _too_long(wanted: Iterable[Child]) -> Iterator[Complaint]:
    longest: dict[str, Child] = {}
    for child in sorted(wanted, key=lambda child: len(child.name)):
        longest[child.field] = child
    for field, child in longest.items():
        over = len(child.name) - MAX_NAME
        if over > 0:
            problem = f"makes the {child.kind} {child.name} of {len(child.name)} characters; {MAX_NAME} are allowed"
            yield Complaint(field, problem, f"shorten the name by {over}")


def _taken(name: str, wanted: Iterable[Child], owners: dict[tuple[str, str], str]) -> Iterator[Complaint]:
    for child in wanted:
        owner = owners.get((child.kind, child.name))
        if owner is not None and owner != name:
            problem = f"makes the {child.kind} {child.name}, which is KVCache {owner}'s"
            yield Complaint(child.field, problem, f"rename {name} or {owner}")
