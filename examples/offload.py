"""An engine in thirty lines: offloads KV blocks into a cache, loses them, and has them back.

    offload.py DIRECTORY

DIRECTORY is a cache's own, in which a vineyardd (`vineyard.sock`) and its transfer worker (`kvberth.sock`) live:

    vineyardd --socket DIR/vineyard.sock --size 256Mi --meta local --rpc=false --deployment "$(uuidgen)"
    KVBERTH_DIRECTORY=DIR KVBERTH_ARENA_MIB=128 python -m kvberth.transfer_worker
"""

import sys

import numpy as np

from kvberth.client import Client, chain

LAYERS, BLOCKS, TOKENS, HEADS, SIZE = 2, 64, 16, 8, 64


def main(directory: str) -> None:
    layers = [np.zeros((2, BLOCKS, TOKENS, HEADS, SIZE), dtype=np.float16) for _ in range(LAYERS)]  # paged, as in vLLM
    regions = [layer[part] for layer in layers for part in (0, 1)]  # each counts blocks by its first axis
    facts = {"model": "example@1", "dtype": "float16", "layers": LAYERS, "block_tokens": TOKENS}
    with Client(directory, regions, facts) as cache:
        if not cache.wait_connected(10):
            sys.exit(f"There is no cache: {cache.why}.")

        keys = chain(range(200), TOKENS)  # twelve full blocks of a prompt of 200 tokens
        blocks = range(len(keys))
        for layer in layers:
            layer[:, : len(keys)] = np.random.default_rng(1).random(layer[:, : len(keys)].shape)
        before = [layer.copy() for layer in layers]

        ticket = cache.offload(keys, blocks)  # returns at once
        ticket.wait_released(5)  # from here on the blocks may be overwritten
        for layer in layers:
            layer[:] = 0
        ticket.wait(5)
        print("offloaded:", ", ".join(outcome.name.lower() if outcome else "unknown" for outcome in ticket.outcomes))

        found = cache.lookup(keys)  # the leading run that is there, leased
        loaded = cache.load(found, blocks)
        cache.release(found)
        same = all(np.array_equal(old, new) for old, new in zip(before, layers, strict=True))
        print(f"loaded: {loaded} of {len(keys)} blocks, {'the same bytes' if same else 'OTHER BYTES'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
