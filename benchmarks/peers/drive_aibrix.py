"""aibrix-kvcache: its cache manager with its first level, a pool of host memory in this process.

Versions that run without a GPU: aibrix-kvcache 0.8.0 with torch 2.13.0.
"""

import os

os.environ |= {"AIBRIX_KV_CACHE_OL_L1_CACHE_CAPACITY_GB": "1"}

import aibrix_kvcache.cache_manager
import numpy as np
import torch
from aibrix_kvcache import BaseKVCacheManager, KVCacheConfig, ModelSpec, TokenListView
from aibrix_kvcache.spec import KVCacheBlockLayout, KVCacheBlockSpec, KVCacheTensorSpec
from driver import BATCH, BLOCKS, HEADS, LAYERS, SHAPE, SIZE, TOKENS, Array, Memory, serve

aibrix_kvcache.cache_manager.TESTING_DISABLE_PIN_MEMORY = True  # pinning needs CUDA


class Aibrix:
    """Blocks go through handles: allocate, copy, put; acquire, copy, release."""

    def __init__(self, memory: Memory) -> None:
        self._source = torch.from_numpy(memory.source).view(torch.bfloat16).view((BLOCKS, *SHAPE))
        self._target = torch.from_numpy(memory.target).view(torch.bfloat16).view((BLOCKS, *SHAPE))
        shape = KVCacheTensorSpec(list(range(HEADS)), list(range(LAYERS)), SIZE)
        spec = KVCacheBlockSpec(TOKENS, torch.bfloat16, KVCacheBlockLayout.LCND, shape)
        self._manager = BaseKVCacheManager(KVCacheConfig(spec, ModelSpec(BLOCKS * TOKENS, 512)))

    def put(self, tokens: Array, first: int, last: int) -> None:
        before, these = _parts(tokens, first, last)
        handle = self._manager.allocate_for(before, these).get()
        for at, tensor in zip(range(first, last), handle.to_tensors(), strict=True):
            tensor.copy_(self._source[at])
        done = self._manager.put(before, these, handle)
        if not done.is_ok() or done.get() != (last - first) * TOKENS:
            raise RuntimeError(f"not every block was stored: {done}")

    def get(self, tokens: Array, first: int, last: int) -> None:
        count, handle = self._manager.acquire(*_parts(tokens, first, last)).get()
        if count != (last - first) * TOKENS:
            raise RuntimeError(f"{count} tokens were found")
        for at, tensor in zip(range(first, last), handle.to_tensors(), strict=True):
            self._target[at].copy_(tensor)
        handle.release()

    def forget(self, tokens: Array) -> None:
        for first in range(0, BLOCKS, BATCH):
            self._manager.delete(*_parts(tokens, first, min(first + BATCH, BLOCKS)))

    def close(self) -> None:
        self._manager.close()


def _parts(tokens: Array, first: int, last: int) -> tuple[TokenListView | None, TokenListView]:
    view = TokenListView(tokens.astype(np.int32))
    return view[: first * TOKENS] if first else None, view[first * TOKENS : last * TOKENS]


serve(Aibrix)
