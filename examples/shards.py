"""An engine of two ranks and a scheduler: each rank offloads its shard of the KV blocks, loses it, and has it back.

    shards.py DIRECTORY

DIRECTORY is a cache's own, as for `offload.py`. The ranks are processes of their own, as with tensor parallelism; each
holds half of the heads. What the scheduler finds goes to them through a pipe: slots and generations.
"""

import multiprocessing
import sys
from multiprocessing.connection import Connection

import numpy as np

from kvberth.client import Client, chain

RANKS, BLOCKS, TOKENS, HEADS, SIZE = 2, 64, 16, 16, 128
FACTS = {"model": "example@1", "dtype": "float16", "tp": RANKS, "block_tokens": TOKENS}
KEYS = chain(range(200), TOKENS)  # twelve full blocks of a prompt of 200 tokens


def rank(directory: str, shard: int, scheduler: Connection) -> None:
    cache = np.random.default_rng(shard).random((2, BLOCKS, TOKENS, HEADS // RANKS, SIZE)).astype(np.float16)
    before, blocks = cache.copy(), range(len(KEYS))
    with Client(directory, list(cache), FACTS, shard=shard, shards=RANKS) as client:
        if not client.wait_connected(30):  # not before all ranks are there
            sys.exit(f"There is no cache: {client.why}.")
        scheduler.send("ready")
        scheduler.recv()  # engines begin together: a shard waits two seconds for the others, no longer
        ticket = client.offload(KEYS, blocks)
        ticket.wait_released(30)
        cache[:] = 0
        ticket.wait(30)  # stored: all ranks have brought their shards
        scheduler.send([outcome and outcome.name.lower() for outcome in ticket.outcomes])

        found = client.lease(scheduler.recv())  # each rank leases its own shard of what the scheduler found
        loaded = client.load(found, blocks)
        client.release(found)
        same = np.array_equal(before[:, : len(KEYS)], cache[:, : len(KEYS)])
        scheduler.send(f"rank {shard}: {loaded} of {len(KEYS)} blocks, {'the same bytes' if same else 'OTHER BYTES'}")


def schedule(directory: str, ranks: list[Connection]) -> None:
    with Client(directory, [], FACTS, shards=RANKS) as client:  # without regions: it looks up for the ranks
        if not client.wait_connected(30):
            sys.exit(f"There is no cache: {client.why}.")
        for here in ranks:
            here.recv()
        for here in ranks:
            here.send("begin")
        for here in ranks:
            print("offloaded:", ", ".join(here.recv()))
        for _ in range(100):  # a lookup ends after two milliseconds: beside a busy machine it asks again
            found = client.lookup(KEYS)
            if len(found) == len(KEYS):
                break
            client.release(found)
        for here in ranks:
            here.send(found.parts)
        for here in ranks:
            print(here.recv())
        client.release(found)  # the ranks had leases of their own


def main(directory: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(RANKS)]
    ranks = [spawn.Process(target=rank, args=(directory, shard, pipes[shard][1])) for shard in range(RANKS)]
    for process in ranks:
        process.start()
    for _, there in pipes:
        there.close()
    schedule(directory, [here for here, _ in pipes])
    for process in ranks:
        process.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
