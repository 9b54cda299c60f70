"""A reader in a process of its own: `client.py SOCKET JOURNAL CLIENT SECONDS KEYS` reads random blocks and compares.

Ends with 1 at the first wrong byte; else prints how many copies were right, and how many were not that block any more.
"""

import json
import random
import sys
import time
from pathlib import Path

from kvberth.store.errors import EpochEnded
from kvberth.store.reader import Reader
from kvberth.store.vineyard_memory import attach
from support.store_memory import content, key_of


def main(socket: str, journal: str, client: str, seconds: str, keys: str) -> None:
    store = attach(Path(socket), Path(journal), writable=client != "-")
    reader = Reader(store.memory, client=None if client == "-" else int(client))
    chance = random.Random(client)
    into = memoryview(bytearray(1 << 20))
    right = void = 0
    print("ready", flush=True)
    until = time.monotonic() + float(seconds)
    ended = False
    while time.monotonic() < until and not ended:
        key = key_of(chance.randrange(int(keys)))
        try:
            hits = reader.lookup([key]) if client != "-" else [hit for hit in [reader.find(key)] if hit]
        except EpochEnded:
            ended = True
            continue
        for hit in hits:
            good = reader.copy(hit, into, verify=False)
            if good and into[: hit.length] != content(key, hit.length):
                sys.exit(1)
            right, void = right + good, void + (not good)
            reader.release(hit)
    print(json.dumps({"right": right, "void": void, "ended": ended}))


if __name__ == "__main__":
    main(*sys.argv[1:])
