"""What the way from an engine to the store and back adds to a copy, by the client, with a real vineyardd and worker.

Put is from `offload` to the last receipt, get from `lookup` to the last byte. The ruler is a plain numpy copy of the
same blocks by one thread, between the same kinds of memory (private to warm shared memory and back), in turns with what
is measured; 1 is the limit. The machine's load stands in each line: beside other work ratios of time say little, and
those of the engine's own CPU time (`…_cpu_ratio`) more.
"""

import asyncio
import hashlib
import mmap
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.results import Result, append, machine
from kvberth.client import Client, Outcome, Ticket
from kvberth.vineyard import find_vineyardd

MIB = 1 << 20
BLOCK, BLOCKS, ROUNDS, LAYERS = 2 * MIB, 64, 5, 16
BATCH = 16
SATURATED_S = 3.0
LIMIT_S = 30.0
Array = np.ndarray


def main() -> None:
    """Measure, print, append; the first round of each is cold and does not count."""
    for checksums in (False, True):
        for result in asyncio.run(measured(checksums=checksums)):
            sys.stdout.write(f"{append(result)}\n")


async def measured(*, checksums: bool) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="kvb-", dir="/tmp") as name:
        async with cache(Path(name), checksums=checksums):
            return await asyncio.to_thread(lambda: list(measure(Path(name), checksums=checksums)))


def measure(directory: Path, *, checksums: bool) -> Iterator[Result]:
    """Contiguous blocks in one go and in batches, one block alone, and paged blocks in batches."""
    suffix = "_checksum" if checksums else ""
    context = about(checksums=checksums)

    def told(name: str, value: float, unit: str = "of a plain copy") -> Result:
        return Result(name=name + suffix, value=value, unit=unit, context=context)

    plain = [np.random.default_rng(1).integers(0, 255, (BLOCKS, BLOCK), dtype=np.uint8)]
    with Engine(directory, plain, range(BLOCKS)) as engine:
        for name, value in engine.ratios(BLOCKS).items():
            yield told(name, value)
        for name, value in engine.ratios(BATCH).items():
            yield told(f"{name}_batch16", value)
        extra, offer = engine.alone()
        yield told("put_receipt_extra_us", extra, "us")
        yield told("submit_us", offer, "us")
        p99, refused = engine.saturated()
        yield told("submit_p99_us", p99, "us")
        yield told("saturation_refused", refused, "of what was offered")
    piece = BLOCK // (2 * LAYERS)
    paged = [np.random.default_rng(at).integers(0, 255, (2, BLOCKS, piece), dtype=np.uint8) for at in range(LAYERS)]
    shuffled = [int(block) for block in np.random.default_rng(7).permutation(BLOCKS)]
    with Engine(directory, [layer[part] for layer in paged for part in (0, 1)], shuffled) as engine:
        for name, value in engine.ratios(BATCH).items():
            yield told(f"client_{name}_paged16", value)


class Engine:
    """An engine whose blocks are these regions, and the shared memory that the ruler copies into."""

    def __init__(self, directory: Path, regions: Sequence[Array], blocks: Sequence[int]) -> None:
        self._client = Client(directory, regions, {"bench": uuid.uuid4().hex})
        if not self._client.wait_connected(LIMIT_S):
            raise TimeoutError(f"there is no cache: {self._client.why}")
        self._regions = regions
        self._blocks = blocks
        self._shared = shared(BLOCKS * BLOCK).reshape(BLOCKS, BLOCK)
        self._number = 0

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ratios(self, batch: int) -> dict[str, float]:
        """Put and get of all blocks, so many at once, as parts of the ruler's speed: medians of the rounds."""
        found: dict[str, list[float]] = defaultdict(list)
        for _ in range(ROUNDS):
            keys = self._keys()
            for name, step in ("put", self._put), ("get", self._get):
                ruler = timed(lambda into=name == "put": self._rule(into=into))
                spent = timed(lambda step=step, keys=keys: step(keys, batch))
                found[f"{name}_ratio"].append(ruler.wall_s / spent.wall_s)
                found[f"{name}_cpu_ratio"].append(ruler.cpu_s / spent.cpu_s)
        return {name: statistics.median(values[1:]) for name, values in found.items()}

    def alone(self) -> tuple[float, float]:
        """Microseconds that one block takes beside its copy, and of `offload` itself: medians."""
        extra, offers = [], []
        for at, key in enumerate(self._keys()):
            copy = timed(lambda at=at: np.copyto(self._shared[at], self._regions[0][at])).wall_s
            begin = time.perf_counter()
            ticket = self._client.offload([key], [at])
            offers.append(time.perf_counter() - begin)
            ticket.wait(LIMIT_S)
            extra.append(time.perf_counter() - begin - copy)
        return statistics.median(extra) * 1e6, statistics.median(offers) * 1e6

    def saturated(self) -> tuple[float, float]:
        """Offers batches for some seconds as fast as it can.

        Returns the 99th percentile of `offload`, in us a batch, and the part of the blocks that was refused.
        """
        before, took, until = self._client.counts(), [], time.perf_counter() + SATURATED_S
        tickets: list[Ticket] = []
        while time.perf_counter() < until:
            keys = [os.urandom(32) for _ in range(BATCH)]
            begin = time.perf_counter()
            tickets.append(self._client.offload(keys, self._blocks[:BATCH], within_s=1.0))
            took.append(time.perf_counter() - begin)
            tickets = [ticket for ticket in tickets if not ticket.settled]
        if not all(ticket.wait(LIMIT_S) for ticket in tickets):
            raise RuntimeError(f"not every block was answered within {LIMIT_S} s")
        after = self._client.counts()
        stored = after[1].get(Outcome.STORED, 0) - before[1].get(Outcome.STORED, 0)
        return statistics.quantiles(took, n=100)[98] * 1e6, 1 - stored / (after[0] - before[0])

    def _rule(self, *, into: bool) -> None:
        """The same pieces, one by one, into shared memory or out of it."""
        for block in self._blocks:
            start = 0
            for region in self._regions:
                engine = region[block]
                part = self._shared[block, start : start + engine.size]
                np.copyto(*((part, engine) if into else (engine, part)))
                start += engine.size

    def _put(self, keys: list[bytes], batch: int) -> None:
        for start in range(0, BLOCKS, batch):
            ticket = self._client.offload(keys[start : start + batch], self._blocks[start : start + batch])
            if not ticket.wait(LIMIT_S) or set(ticket.outcomes) != {Outcome.STORED}:
                raise RuntimeError(f"not every block was stored: {ticket.outcomes}")

    def _get(self, keys: list[bytes], batch: int) -> None:
        at = 0
        while at < BLOCKS:  # a lookup ends after 2 ms, and on a loaded machine before the batch does
            found = self._client.lookup(keys[at : at + batch])
            loaded = self._client.load(found, self._blocks[at : at + len(found)])
            self._client.release(found)
            if not loaded or loaded != len(found):
                raise RuntimeError(f"{loaded} of {len(found)} blocks that were found could be loaded")
            at += loaded

    def _keys(self) -> list[bytes]:
        self._number += 1
        return [hashlib.sha256(f"{self._number} {at}".encode()).digest() for at in range(BLOCKS)]


@asynccontextmanager
async def cache(directory: Path, *, checksums: bool) -> AsyncIterator[None]:
    """A vineyardd and a transfer worker, as processes of their own."""
    daemon = await asyncio.create_subprocess_exec(
        *(str(find_vineyardd()), "--socket", str(directory / "vineyard.sock"), "--size", "640Mi", "--meta", "local"),
        *("--rpc=false", "--compression=false", "--deployment", str(uuid.uuid4())),
        env={"PATH": "/nonexistent"},  # no etcd on it, which vineyardd would start
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    settings = {"DIRECTORY": directory, "STATE": directory / "state", "ARENA_MIB": 520, "CHECKSUMS": checksums}
    settings |= {"BUDGET_MIB": 256, "LOG_LEVEL": "error"}
    environment = {f"KVBERTH_{name}": str(value) for name, value in settings.items()}
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kvberth.transfer_worker", env={**os.environ, **environment}
    )
    try:
        yield
    finally:
        for process in (worker, daemon):
            if process.returncode is None:
                process.kill()
            await process.wait()


class Spent(NamedTuple):
    """Seconds, and seconds of this process's CPU."""

    wall_s: float
    cpu_s: float


def timed(step: Callable[[], object]) -> Spent:
    begin = time.perf_counter(), time.process_time()
    step()
    return Spent(time.perf_counter() - begin[0], time.process_time() - begin[1])


def shared(size: int) -> Array:
    """Shared memory of which every page has been written."""
    fd = os.memfd_create("kvberth-bench")
    os.ftruncate(fd, size)
    view = np.frombuffer(mmap.mmap(fd, size), dtype=np.uint8)
    os.close(fd)
    view[:: mmap.PAGESIZE] = 0
    return view


def about(*, checksums: bool) -> dict[str, object]:
    return {
        **machine(),
        "checksums": checksums,
        "block_bytes": BLOCK,
        "blocks": BLOCKS,
    }


if __name__ == "__main__":
    sys.exit(main())
