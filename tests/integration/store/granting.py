"""Grants, publishes and removes in one slot again and again, for a reader in another process: path, rounds."""

import sys

from kvberth.store.blockstore import BlockStore
from kvberth.store.layout.geometry import PAGE
from kvberth.store.memory import StoreMemory
from support.store_memory import small_file

LAYOUT, HOLDER, KEY = 11, b"client number 1.", bytes(range(32))

if __name__ == "__main__":
    store = BlockStore(StoreMemory.open(*small_file(sys.argv[1])))
    store.register(LAYOUT, PAGE)
    for _ in range(int(sys.argv[2])):
        granted = store.grant(LAYOUT, HOLDER, 10**12)
        assert granted is not None
        store.commit(granted.slot, granted.generation, HOLDER, KEY, PAGE)
        store.remove([KEY])
