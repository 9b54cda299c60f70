"""A worker in a process of its own, made to be killed: `worker.py SOCKET JOURNAL SEED KEYS`.

Takes the store over, checks what it found, then puts, removes and evicts at random for ever. Says how many blocks it
found, once it has begun to work.
"""

import random
import sys
from pathlib import Path

from kvberth.store.blockstore import BlockStore
from kvberth.store.vineyard_memory import VineyardMemory
from kvberth.store.walk import walk
from support.store_memory import LAYOUTS, SIZES, content, key_of


def main(socket: str, journal: str, seed: str, keys: str) -> None:
    held = VineyardMemory.open(Path(socket), Path(journal), SIZES)
    store = BlockStore(held.memory)
    books, found = store.books(), walk(held.memory)
    complaints = [*books.complaints(SIZES.data_bytes), *found.complaints]
    if complaints or books.states != found.states:
        sys.exit(f"taken over badly: {complaints}")
    for layout, size in LAYOUTS.items():
        store.register(layout, size)
    chance = random.Random(seed)
    print("ready", books.attached.blocks, flush=True)
    while True:
        key = key_of(chance.randrange(int(keys)))
        layout = 31 + key[1] % 2
        match chance.randrange(10):
            case 0:
                store.remove([key])
            case 1:
                store.evict(layout, 4)
            case 2:
                store.grant(layout, b"a silent client.", 10**6)
                store.expire()
                store.drop_holder(b"a silent client.")
            case _:
                store.put(layout, key, content(key, LAYOUTS[layout] - key[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
