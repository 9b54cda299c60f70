"""Whether two engines at one cache copy as fast as two plain copies do that run beside each other, without checksums.

Each of two processes has a client and blocks of its own. They put and get at the same time, and then do the ruler's
plain copies at the same time, into the very slots that they were given and out of them. A ratio is that of the sums of
both. With two cores, the worker and the daemon need some of what the copies need.
"""

import multiprocessing
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.results import Result
from benchmarks.transfer import BLOCK, MIB, Engine, Spent, Told, contiguous, show, timed

ENGINES, ROUNDS, FILLING = 2, 7, 6
EACH = 128 * MIB


def pair(directory: Path, _worker: int, told: Told) -> Iterator[Result]:
    """Put and get of both, as parts of the speed of their plain copies."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(ENGINES)
    pipes = [context.Pipe(duplex=False) for _ in range(ENGINES)]
    engines = [context.Process(target=engine, args=(directory, barrier.wait, into)) for _, into in pipes]
    for process in engines:
        process.start()
    for _, into in pipes:
        into.close()
    spent: dict[str, list[list[float]]] = defaultdict(lambda: [[0.0, 0.0] for _ in range(ROUNDS)])
    for out, _ in pipes:
        for at in range(ROUNDS):
            for name, (took, ruler) in out.recv().items():
                spent[name][at][0] += took
                spent[name][at][1] += ruler
    for process in engines:
        process.join()
    for name, rounds in spent.items():
        yield told(f"two_{name}_ratio", statistics.median(ruler / took for took, ruler in rounds[1:]))


def engine(directory: Path, together: Callable[[], int], told: Connection) -> None:
    """One of them: tells, for each round, how long put and get took, and the plain copies."""
    with Engine(directory, [contiguous(BLOCK, EACH)]) as one:
        for _ in range(FILLING):  # until both have their share of the store: one takes whole extents of the other
            together()
            one.put(one.keys(), one.count)
        for _ in range(ROUNDS):
            keys, found = one.keys(), {}
            for name, step in (("put", one.put), ("get", one.get)):
                together()
                took = timed(lambda step=step, keys=keys: step(keys, one.count)).wall_s
                slots = one.slots(keys)
                together()
                ruler: Spent = one.ruled(lambda into=name == "put", slots=slots: one.rule(slots, into=into))
                del slots
                found[name] = took, ruler.wall_s
            told.send(found)


def main() -> None:
    """Measure, print, append; the first round is cold and does not count."""
    show(pair, Told(BLOCK, checksums=False))


if __name__ == "__main__":
    sys.exit(main())
