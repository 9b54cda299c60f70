"""Says why no engine is bound beside which a KVCache could have a cache, and what to do about it. Pure."""

import difflib
from collections.abc import Iterable
from functools import lru_cache

from kvberth.kvcache import MODEL_LABEL, WORKLOAD, KVCacheSpec, host_directory
from kvberth.placement.membership import Following
from kvberth.placement.snapshot import Snapshot
from kvberth.placement.states import Engine, KVCache
from kvberth.placement.words import more, some
from kvberth_schemas.quantity import format_bytes

_ALIKE = 0.75


def waiting_engines(following: Following) -> str | None:
    """Say how many engines wait for a node, and what the first of them waits for."""
    if not following.waiting:
        return None
    first: Engine = min(following.waiting, key=lambda engine: engine.name)
    count = len(following.waiting)
    return f"{count} {'engine waits' if count == 1 else 'engines wait'} for a node: {first.name}: {first.why_waiting}"


def no_engine(item: KVCache, following: Following, snapshot: Snapshot) -> str:
    """Say that no engine is bound: who waits or ends, else where one with that label is, or which was meant."""
    ending = sorted(node for node in following.ending if node in snapshot.cluster.nodes)
    if ending:
        return f"no engine: {sum(len(following.ending[node]) for node in ending)} ending on {some(ending)}"
    waits = waiting_engines(following)
    if waits is not None:
        return waits
    workload = item.spec.workload if item.spec is not None else None
    if workload is None:
        directory = host_directory(snapshot.namespace, item.name)
        return (
            f"no engine in namespace {snapshot.namespace} mounts the directory of {item.name}, {directory}, "
            f"and no annotation {WORKLOAD} names one"
        )
    text = f"no engine with label {MODEL_LABEL}={workload} in namespace {snapshot.namespace}"
    hint = _elsewhere(workload, snapshot) or _meant(workload, snapshot)
    return f"{text}; {hint}" if hint else text


def too_large(spec: KVCacheSpec, snapshot: Snapshot) -> str | None:
    """Say that no node could ever hold a cache of this size; None where one could, or where no node is known."""
    largest = snapshot.cluster.largest_memory
    for size in [pool.size for pool in spec.pools if pool.on] or [spec.size]:
        if largest is not None and size.memory_bytes > largest:
            needs = f"no node can ever hold a cache: it needs {format_bytes(size.memory_bytes)}"
            return f"{needs}, the largest has {format_bytes(largest)} in all; lower {size.memory_field}"
    return None


def _elsewhere(workload: str, snapshot: Snapshot) -> str:
    counts = snapshot.cluster.engines_elsewhere.get(workload, {})
    others = {name: count for name, count in sorted(counts.items()) if name != snapshot.namespace and count}
    if not others:
        return ""
    found = [f"found {count} in {name}" for name, count in others.items()]
    remedy = f"a KVCache serves engines of its own namespace: apply it in {some(others)}"
    return "; ".join((*more(found), remedy))


def _meant(workload: str, snapshot: Snapshot) -> str:
    models = frozenset(group.model for group in snapshot.engines) - {workload}
    close = _closest(workload, models)
    return f"did you mean {close}, which engines there are labelled with? write it in {WORKLOAD}" if close else ""


@lru_cache(maxsize=1024)
def _closest(word: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word, sorted(known), n=1, cutoff=_ALIKE)), None)
