"""How much of a cache's memory its store gets: limit minus headroom, or what the manifest asks for. Pure.

With a block store the memory is split and never doubled: the worker touches every page of the store, vineyardd has the
rest.
"""

from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from typing import Final

from kvberth.kvcache.findings import Findings
from kvberth.kvcache.generations import Asked, CacheBlock
from kvberth.kvcache.spec import CacheSize
from kvberth.store.errors import LayoutRefused
from kvberth.store.layout.sizing import MIN_BLOCK_BYTES, geometry_for
from kvberth_schemas.manifests import KVCacheFields
from kvberth_schemas.manifests.kvcache import MemorySpec
from kvberth_schemas.quantity import QuantityError, format_bytes, parse_bytes, parse_cpu, parse_quantity

DEFAULT_CPU: Final = "1"
DEFAULT_MEMORY: Final = "2Gi"
MIN_MEMORY_BYTES: Final = 128 * 2**20
MIN_STORE_BYTES: Final = 64 * 2**20
_MIN_HEADROOM_BYTES: Final = 64 * 2**20
_HEADROOM_FRACTION: Final = 0.05
_MIB: Final = 2**20
WORKER_OWN_BYTES: Final = 192 * _MIB
"""What the transfer worker needs beside the store."""
DAEMON_LEAST_BYTES: Final = 128 * _MIB
"""What vineyardd needs beside the store."""
OTHERS_BYTES: Final = 64 * _MIB
"""What vineyardd gives out beside the store: to proofs, and to engines that talk to it themselves."""
_BLOCK_STORE: Final = "spec.blockStore.size"


def cache_size(block: CacheBlock, fields: KVCacheFields, findings: Findings) -> CacheSize:
    """Return what one cache may use; what can't be is complained about, and the default stands in for it."""
    if block.cpu is None:
        findings.defaults.append(f"cpu {DEFAULT_CPU}, since the manifest names none")
    if block.memory is None:
        findings.defaults.append(f"memory {DEFAULT_MEMORY}, since the manifest names none")
    limit = _memory(block.memory, findings)
    store = _store(block, fields, limit, findings)
    size = CacheSize(
        parse_cpu(block.cpu.text if block.cpu else DEFAULT_CPU),
        limit,
        max(store, 0),
        memory_field=block.memory.field if block.memory else f"{block.limits}.memory",
        cpu_field=block.cpu.field if block.cpu else f"{block.limits}.cpu",
    )
    if fields.block_store is None:
        return size
    if block.shared is not None or fields.memory is not None:
        named = block.shared.field if block.shared is not None else "spec.memory"
        findings.notes.append(f"{named} has no effect beside spec.blockStore, from which the sizes follow")
    return _with_block_store(size, fields.block_store.size, findings)


def _store(block: CacheBlock, fields: KVCacheFields, limit: int, findings: Findings) -> int:
    """Return the bytes of the daemon's store, as long as no store of blocks decides them."""
    if fields.block_store is not None:
        return limit - _headroom(limit, None)
    store = limit - _headroom(limit, fields.memory)
    if store < MIN_STORE_BYTES and limit >= MIN_MEMORY_BYTES:
        problem = f"leaves {format_bytes(max(store, 0))} of {format_bytes(limit)} to the store"
        findings.complain("spec.memory", problem, f"leave at least {format_bytes(MIN_STORE_BYTES)} to it")
    return store if block.shared is None else _asked_store(block.shared, limit, store, findings)


def _with_block_store(size: CacheSize, asked: str, findings: Findings) -> CacheSize:
    """Return the size with a store of blocks in it; what can't be is complained about, and there is none."""
    try:
        block_bytes = parse_bytes(asked)
    except QuantityError as error:
        findings.complain(_BLOCK_STORE, error.problem, error.remedy)
        return size
    try:
        geometry = geometry_for(block_bytes)
    except LayoutRefused:
        findings.complain(
            _BLOCK_STORE, f"{asked} is no size for a store", f"write {format_bytes(MIN_BLOCK_BYTES)} to 1Ti"
        )
        return size
    store = geometry.arenas * geometry.arena_bytes + geometry.index_bytes
    worker = -(-(store + WORKER_OWN_BYTES) // _MIB) * _MIB
    if worker + DAEMON_LEAST_BYTES > size.memory_bytes:
        least = f"{(worker + DAEMON_LEAST_BYTES) // _MIB}Mi"
        problem = f"{asked} needs {least} of {size.memory_field}, which is {format_bytes(size.memory_bytes)}"
        findings.complain(_BLOCK_STORE, problem, "lower it or raise that")
        return size
    return replace(size, size_bytes=store + OTHERS_BYTES, block_bytes=block_bytes, worker_bytes=worker)


def _memory(memory: Asked | None, findings: Findings) -> int:
    if memory is None:
        return parse_bytes(DEFAULT_MEMORY)
    try:
        limit = parse_bytes(memory.text)
    except QuantityError as error:
        findings.complain(memory.field, error.problem, error.remedy)
        return parse_bytes(DEFAULT_MEMORY)
    if limit < MIN_MEMORY_BYTES:
        size = format_bytes(limit) if limit >= 1024 else f"{limit} bytes"
        shown = memory.text if memory.text == size else f"{memory.text} ({size})"
        problem = f"{shown} leaves no room for a store"
        findings.complain(memory.field, problem, f"write at least {format_bytes(MIN_MEMORY_BYTES)}, such as 72Gi")
    return limit


def _headroom(limit: int, memory: MemorySpec | None) -> int:
    fraction = _HEADROOM_FRACTION if memory is None or memory.headroom_fraction is None else memory.headroom_fraction
    reserve = _MIN_HEADROOM_BYTES
    if memory is not None and memory.reserve is not None:
        reserve = int(parse_quantity(memory.reserve).to_integral_value(ROUND_CEILING))
    return max(int(limit * Decimal(repr(fraction))), reserve)


def _asked_store(shared: Asked, limit: int, most: int, findings: Findings) -> int:
    """The first generation's sharedMemorySize, as far as the container has room for it."""
    try:
        asked = parse_bytes(shared.text)
    except QuantityError as error:
        findings.complain(shared.field, error.problem, error.remedy)
        return most
    if asked > limit:
        findings.complain(
            shared.field,
            f"{shared.text} is more than the memory of the cache, {format_bytes(limit)}",
            "lower it or raise memory",
        )
    elif asked < MIN_STORE_BYTES:
        findings.complain(
            shared.field, f"{shared.text} is too small for a store", f"write at least {format_bytes(MIN_STORE_BYTES)}"
        )
    elif asked > most:
        findings.notes.append(
            f"{shared.field} {shared.text} leaves less than the headroom below memory {format_bytes(limit)}: "
            f"the store gets {format_bytes(most)}"
        )
    else:
        return asked
    return most
