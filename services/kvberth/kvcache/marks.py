"""What is written on the objects that are made for a KVCache (Kubernetes), as far as more than one service reads it."""

from typing import Final

from kvberth.kvcache.annotations import OURS

KVCACHE_LABEL: Final = f"{OURS}/kvcache"
"""On everything that is made for a KVCache: its name."""
HASH: Final = f"{OURS}/hash"
"""An annotation of caches: what they were made from."""
