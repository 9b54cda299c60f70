"""A stranger with the official Vineyard client: `stranger.py SOCKET BLOB...` maps a store's blobs, the index first.

Without blobs he only asks the daemon for its memory.

Prints, as JSON, what lies there by its own count, and what the daemon says of its memory. A program, because the
official client may freeze the interpreter that it is in.
"""

import json
import sys

import vineyard

from kvberth.store.memory import StoreMemory
from kvberth.store.walk import walk


def main(socket: str, *blobs: str) -> None:
    client = vineyard.connect(socket)
    if not blobs:
        print(json.dumps({"memory_usage": client.status.memory_usage}))
        return
    views = [memoryview(client.get_blob(vineyard.ObjectID(int(blob)))) for blob in blobs]
    assert all(view.readonly for view in views)
    found = walk(StoreMemory.open(views[0], tuple(views[1:])))
    told = {
        "states": {state.name: [amount.blocks, amount.bytes] for state, amount in found.states.items()},
        "unlent_bytes": found.unlent_bytes,
        "keys": sorted(key.hex() for key in found.keys),
        "complaints": found.complaints,
        "memory_usage": client.status.memory_usage,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
