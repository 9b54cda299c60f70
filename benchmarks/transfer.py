"""What the way from an engine to the store and back adds to a copy, by the client, with a real vineyardd and worker.

Put is from `offload` to the last receipt, get from `lookup` to the last byte. The ruler is a plain numpy copy of the
same blocks by one thread, between the same kinds of memory (private to warm shared memory and back), in turns with what
is measured; 1 is the limit. The machine's load stands in each line: beside other work ratios of time say little, and
those of the engine's own CPU time (`…_cpu_ratio`) more. Arguments choose parts: see `PARTS`.
"""

import asyncio
import hashlib
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.results import Result, append, machine
from kvberth.client import Client, Outcome, Ticket
from kvberth.vineyard import BlockingClient, find_vineyardd

MIB = 1 << 20
ROUNDS, LAYERS = 9, 16
TOTAL, BLOCK = 512 * MIB, 2 * MIB
SIZES = {"256k": MIB // 4, "640k": 640 * 1024, "": BLOCK, "16m": 16 * MIB}
BATCH = 16
ALONE = 8
ARENA_MIB, BUDGET_MIB = 712, 640
AT_LEAST = {
    **dict.fromkeys(("put_ratio", "put_ratio_batch16"), 0.95),
    **dict.fromkeys(("get_ratio", "get_ratio_batch16"), 0.98),
    **dict.fromkeys(("put_ratio_checksum", "put_ratio_batch16_checksum"), 0.93),
    **dict.fromkeys(("get_ratio_checksum", "get_ratio_batch16_checksum"), 0.92),
    **dict.fromkeys(("client_put_ratio_busy", "client_get_ratio_busy"), 0.7),
    **dict.fromkeys(("client_put_ratio_paged16", "client_get_ratio_paged16"), 0.85),
}
AT_MOST = {"put_receipt_extra_us": 150.0, "worker_us_per_block": 5.0, "submit_batch16_p99_us": 50.0}
SATURATED_S = 3.0
LIMIT_S = 30.0
Array = np.ndarray


Measure = Callable[[Path, int, "Told"], Iterator[Result]]


def main() -> None:
    """Measure, print, append; the first round of each is cold and does not count.

    Each size has a store of its own: layouts in one store would take each other's room.
    """
    unknown = set(sys.argv[1:]) - set(PARTS)
    if unknown:
        sys.exit(f"There is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}.")
    for part in sys.argv[1:] or PARTS:
        show(*PARTS[part])


def show(measure: Measure, told: "Told") -> None:
    for result in asyncio.run(measured(measure, told)):
        sys.stdout.write(f"{append(result)}\n")
        sys.stdout.flush()


async def measured(measure: Measure, told: "Told") -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="kvb-", dir="/tmp") as name:
        async with cache(Path(name), checksums=told.checksums) as worker:
            return await asyncio.to_thread(lambda: list(measure(Path(name), worker, told)))


class Told(NamedTuple):
    """Names results, and says on what they depend."""

    size: int
    checksums: bool

    def __call__(self, name: str, value: float, unit: str = "of a plain copy") -> Result:
        context = {**machine(), "checksums": self.checksums, "block_bytes": self.size, "blocks": TOTAL // self.size}
        name += "_checksum" * self.checksums
        at_least = name in AT_LEAST
        target = AT_LEAST[name] if at_least else AT_MOST.get(name)
        return Result(name=name, value=value, unit=unit, target=target, at_least=at_least, context=context)


def of_a_size(directory: Path, worker: int, told: Told, name: str) -> Iterator[Result]:
    """All blocks in one go; more with the usual size."""
    with Engine(directory, [contiguous(told.size)]) as engine:
        spent, offered = cpu_of(worker), engine.offered
        for what, value in engine.ratios(engine.count).items():
            yield told(f"{what}_{name}".rstrip("_"), value)
        if told.size == BLOCK:
            yield told("worker_us_per_block", (cpu_of(worker) - spent) / (engine.offered - offered) * 1e6, "us")
            yield from of_two_mib(engine, told)
            time.sleep(1.5)
            spent = cpu_of(worker)
            time.sleep(2.0)
            yield told("worker_idle", (cpu_of(worker) - spent) / 2.0 * 1e3, "ms of CPU a second")


def paged(directory: Path, _worker: int, told: Told) -> Iterator[Result]:
    """Blocks whose pieces lie in 32 arrays, in no order."""
    piece = BLOCK // (2 * LAYERS)
    layers = [np.random.default_rng(at).integers(0, 255, (2, TOTAL // BLOCK, piece), np.uint8) for at in range(LAYERS)]
    with Engine(directory, [layer[part] for layer in layers for part in (0, 1)], shuffled=True) as engine:
        for what, value in engine.ratios(BATCH).items():
            yield told(f"client_{what}_paged16", value)


def of_two_mib(engine: "Engine", told: Told) -> Iterator[Result]:
    """What is measured with blocks of the usual size only."""
    for what, value in engine.ratios(BATCH).items():
        yield told(f"{what}_batch16", value)
    with busy_interpreter():
        for what, value in engine.ratios(BATCH).items():
            yield told(f"client_{what}_busy", value)
    with busy_core():
        for what, value in engine.ratios(BATCH).items():
            yield told(f"{what}_core_busy", value)
    extra, offer = engine.alone()
    yield told("put_receipt_extra_us", extra, "us")
    yield told("submit_us", offer, "us")
    p99, refused = engine.saturated()
    yield told("submit_batch16_p99_us", p99, "us")
    yield told("saturation_refused", refused, "of what was offered")


def contiguous(size: int, total: int = TOTAL) -> Array:
    return np.random.default_rng(1).integers(0, 255, (total // size, size), dtype=np.uint8)


@contextmanager
def busy_interpreter() -> Iterator[None]:
    """Another thread of this process runs Python all the time: beside the ruler, too."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            sum(range(1000))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def busy_core() -> Iterator[None]:
    """Another process keeps one core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def blob_per_block(directory: Path, _worker: int, told: Told) -> Iterator[Result]:
    """What a blob of Vineyard for each block costs, by our own client of the daemon: create, copy, seal; get, copy."""
    blocks, into = contiguous(BLOCK)[:32], np.zeros((32, BLOCK), np.uint8)
    plain = shared(blocks.size).reshape(blocks.shape)
    found: dict[str, list[float]] = defaultdict(list)
    with BlockingClient.connect(directory / "vineyard.sock") as client:
        for _ in range(ROUNDS):
            blobs: list[int] = []

            def put(blobs: list[int] = blobs) -> None:
                for block in blocks:
                    blob = client.create(BLOCK)
                    np.copyto(np.frombuffer(blob.buffer, np.uint8), block)
                    client.seal(blob.object_id)
                    blobs.append(blob.object_id)

            def get(blobs: list[int] = blobs) -> None:
                for at, blob in enumerate(blobs):
                    np.copyto(into[at], np.frombuffer(client.get(blob), np.uint8))

            for name, step, ends in (("put", put, (plain, blocks)), ("get", get, (into, plain))):
                ruler = timed(lambda ends=ends: [np.copyto(to, of) for to, of in zip(*ends, strict=True)])
                found[f"{name}_ratio"].append(ruler.wall_s / timed(step).wall_s)
            client.delete(blobs)
    for name, values in found.items():
        yield told(f"peer_vineyard_blob_{name}", statistics.median(values[1:]))


class Engine:
    """An engine whose blocks are these regions, and the shared memory that the ruler copies into."""

    def __init__(self, directory: Path, regions: Sequence[Array], *, shuffled: bool = False) -> None:
        self._client = Client(directory, regions, {"bench": uuid.uuid4().hex})
        self.count, self._size = len(regions[0]), sum(region[0].size for region in regions)
        before = shared_mib()
        if not self._client.wait_connected(LIMIT_S):
            raise TimeoutError(f"there is no cache: {self._client.why}")
        until = time.monotonic() + 5.0
        while shared_mib() - before < ARENA_MIB - 8 and time.monotonic() < until:
            time.sleep(0.01)  # the client has the arenas mapped page by page while it is idle
        self._regions = regions
        numbers = np.arange(self.count)
        self._blocks = [int(at) for at in (np.random.default_rng(7).permutation(numbers) if shuffled else numbers)]
        self._shared = shared(ALONE * self._size).reshape(ALONE, self._size)
        self._number = self.offered = 0
        self._ruler = ThreadPoolExecutor(1, "ruler")

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self._ruler.shutdown()
        self._client.close()

    def ratios(self, batch: int) -> dict[str, float]:
        """Put and get of all blocks, so many at once, as parts of the ruler's speed: medians of the rounds."""
        found: dict[str, list[float]] = defaultdict(list)
        for _ in range(ROUNDS):
            keys = self.keys()
            for name, step in ("put", self.put), ("get", self.get):
                spent = timed(lambda step=step, keys=keys: step(keys, batch))
                slots = self.slots(keys)
                ruler = self.ruled(lambda into=name == "put", slots=slots: self.rule(slots, into=into))
                del slots
                found[f"{name}_ratio"].append(ruler.wall_s / spent.wall_s)
                found[f"{name}_cpu_ratio"].append(ruler.cpu_s / spent.cpu_s)
        return {name: statistics.median(values[1:]) for name, values in found.items()}

    def alone(self) -> tuple[float, float]:
        """Microseconds that one block takes beside its copy, and of `offload` itself: medians."""
        extra, offers = [], []
        for number, key in enumerate(self.keys()):
            at = number % ALONE
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

    def ruled(self, step: Callable[[], object]) -> "Spent":
        """By a thread that has just been woken, as the client's is: on one of two virtual cores copies are slower."""
        return self._ruler.submit(timed, step).result()

    def slots(self, keys: list[bytes]) -> list[Array]:
        """Where these blocks lie: the ruler copies the same bytes there once more, or out of there."""
        mapping = self._client._desk.mapping  # noqa: SLF001 -- another memory than this may be 15 % faster or slower
        hits = [mapping.reader.find(self._client._names.stored(key)) for key in keys]  # noqa: SLF001
        return [np.frombuffer(mapping.data(hit), np.uint8) for hit in hits]

    def rule(self, slots: list[Array], *, into: bool) -> None:
        """The same pieces, one by one, into these slots or out of them."""
        for block, slot in zip(self._blocks, slots, strict=True):
            start = 0
            for region in self._regions:
                engine = region[block]
                part = slot[start : start + engine.size]
                np.copyto(*((part, engine) if into else (engine, part)))
                start += engine.size

    def put(self, keys: list[bytes], batch: int) -> None:
        for start in range(0, self.count, batch):
            ticket = self._client.offload(keys[start : start + batch], self._blocks[start : start + batch])
            if not ticket.wait(LIMIT_S) or set(ticket.outcomes) != {Outcome.STORED}:
                became = Counter(outcome and outcome.name for outcome in ticket.outcomes)
                raise RuntimeError(f"not every block was stored: {dict(became)} ({self._client.why})")

    def get(self, keys: list[bytes], batch: int) -> None:
        at, until = 0, time.monotonic() + LIMIT_S
        while at < self.count:  # a lookup ends after 2 ms, and may miss an entry that moves: on a loaded machine often
            found = self._client.lookup(keys[at : at + batch])
            loaded = self._client.load(found, self._blocks[at : at + len(found)])
            self._client.release(found)
            if loaded != len(found) or time.monotonic() > until:
                raise RuntimeError(f"{loaded} of {len(found)} blocks were loaded, {self.count - at} left")
            at += loaded

    def keys(self) -> list[bytes]:
        self._number += 1
        self.offered += self.count
        return [hashlib.sha256(f"{self._number} {at}".encode()).digest() for at in range(self.count)]


@asynccontextmanager
async def cache(directory: Path, *, checksums: bool, budget_mib: int = BUDGET_MIB) -> AsyncIterator[int]:
    """A vineyardd and a transfer worker, as processes of their own; the pid of the latter."""
    daemon = await asyncio.create_subprocess_exec(
        *(str(find_vineyardd()), "--socket", str(directory / "vineyard.sock"), "--size", "960Mi", "--meta", "local"),
        *("--rpc=false", "--compression=false", "--deployment", str(uuid.uuid4())),
        env={"PATH": "/nonexistent"},  # no etcd on it, which vineyardd would start
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    settings = {"DIRECTORY": directory, "STATE": directory / "state", "ARENA_MIB": ARENA_MIB, "CHECKSUMS": checksums}
    settings |= {"BUDGET_MIB": budget_mib, "LOG_LEVEL": "error"}
    environment = {f"KVBERTH_{name}": str(value) for name, value in settings.items()}
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kvberth.transfer_worker", env={**os.environ, **environment}
    )
    try:
        yield worker.pid
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


def shared_mib() -> float:
    """MiB of shared memory in this process's page tables."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssShmem"):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has had."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


PARTS: dict[str, tuple[Measure, Told]] = {
    f"{name or '2m'}{'_checksum' * checksums}": (partial(of_a_size, name=name), Told(size, checksums))
    for checksums in (False, True)
    for name, size in SIZES.items()
}
PARTS |= {"paged": (paged, Told(BLOCK, checksums=False)), "paged_checksum": (paged, Told(BLOCK, checksums=True))}
PARTS["blob"] = (blob_per_block, Told(BLOCK, checksums=False))

if __name__ == "__main__":
    sys.exit(main())
