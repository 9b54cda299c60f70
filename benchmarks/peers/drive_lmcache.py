"""LMCache: its store of the standalone server, in this process (reserve, write, finish; prefetch, read, finish).

Runs without a GPU in version 0.5.6 with torch 2.13.0, installed without its CUDA packages.
"""

import hashlib
import os

os.environ |= {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_LOG_LEVEL": "ERROR"}

import torch
from driver import BLOCKS, HEADS, LAYERS, SIZE, TOKENS, Array, Memory, serve
from lmcache.v1.distributed.api import (
    GroupedObjectKeys,
    MemoryLayoutDesc,
    ObjectKey,
    PrefetchLockMode,
    PrefetchTaskSpec,
)
from lmcache.v1.distributed.config import EvictionConfig, L1ManagerConfig, L1MemoryManagerConfig, StorageManagerConfig
from lmcache.v1.distributed.storage_manager import StorageManager

LIMIT_S = 5


class LMCache:
    """Keys are a chain of hashes over a block's tokens and all before."""

    def __init__(self, memory: Memory) -> None:
        self._source = torch.from_numpy(memory.source).view(torch.bfloat16).view(BLOCKS, -1)
        self._target = torch.from_numpy(memory.target).view(torch.bfloat16).view(BLOCKS, -1)
        pool = L1MemoryManagerConfig(size_in_bytes=1 << 30, use_lazy=False, shm_name="")
        eviction = EvictionConfig("LRU", trigger_watermark=0.95)
        config = StorageManagerConfig(l1_manager_config=L1ManagerConfig(memory_config=pool), eviction_config=eviction)
        self._store = StorageManager(config)
        self._layout = MemoryLayoutDesc([torch.Size([2, LAYERS, TOKENS, HEADS * SIZE])], [torch.bfloat16])

    def put(self, tokens: Array, first: int, last: int) -> None:
        keys = _keys(tokens, first, last)
        places = self._store.reserve_write(keys, self._layout)
        if len(places) < len(keys):
            raise RuntimeError(f"{len(places)} of {len(keys)} blocks were let in")
        for at, key in zip(range(first, last), keys, strict=True):
            places[key].tensor.view(-1).copy_(self._source[at])
        self._store.finish_write(keys)

    def get(self, tokens: Array, first: int, last: int) -> None:
        keys = _keys(tokens, first, last)
        spec = PrefetchTaskSpec([GroupedObjectKeys(keys, 0, self._layout)], lock_mode=PrefetchLockMode.LOCK)
        task = self._store.submit_prefetch_task(spec, skip_l2=True)
        self._store.wait_prefetch_status(task, LIMIT_S)
        found = self._store.query_prefetch_status(task).l1_hit_count
        if found != len(keys):
            raise RuntimeError(f"{found} of {len(keys)} blocks were found")
        with self._store.read_prefetched_results(keys) as objects:
            for at, held in zip(range(first, last), objects, strict=True):
                self._target[at].copy_(held.tensor.view(-1))
        self._store.finish_read_prefetched(keys)

    def forget(self, _tokens: Array, /) -> None:
        self._store.clear(True)

    def close(self) -> None:
        self._store.close()


def _keys(tokens: Array, first: int, last: int) -> list[ObjectKey]:
    rank = ObjectKey.ComputeKVRank(1, 0, 1, 0)
    digest, keys = bytes(32), []
    for at in range(last):
        digest = hashlib.sha256(digest + tokens[at * TOKENS : (at + 1) * TOKENS].tobytes()).digest()
        keys.append(ObjectKey(chunk_hash=digest, model_name="bench", kv_rank=rank))
    return keys[first:]


serve(LMCache)
