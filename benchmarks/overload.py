"""An engine that offers far more than the store takes, for a minute: what that costs, what is in use, what is kept.

Each block is overwritten as soon as its ticket is released, and what is stored at the end is read and compared. The
bytes in use are looked at by a third process's means: the words of the client's page and the headers of all slots,
mapped read-only, while the worker is stopped, so that all headers are of one moment.
"""

import asyncio
import os
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.results import Result, append, machine
from benchmarks.transfer import LIMIT_S, MIB, cache
from kvberth.client import Client, Outcome, Ticket
from kvberth.store.layout import pages
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.slots import SlotState
from kvberth.store.memory import StoreMemory
from kvberth.store.vineyard_memory import attach

BLOCK, BUDGET_MIB = MIB // 2, 256
SOURCES = 2 * BUDGET_MIB * MIB // BLOCK
"""More than the budget lets wait: the rest is refused."""
IN_USE = (SlotState.GRANTED, SlotState.QUARANTINED, SlotState.COMMITTED)
SECONDS = float(os.environ.get("OVERLOAD_S", "60"))
RSS_FROM_S = 10.0
MOST_TIMES = 1_000_000
"""Of `offload`: written anew after so many; made before, so that this process does not grow by them."""
SPREAD = 512
"""One word of so many is written and compared: a source is overwritten faster than it is copied."""


def main() -> None:
    """Measure, print, append. `OVERLOAD_S` is the time, in seconds."""
    for result in asyncio.run(overloaded()):
        sys.stdout.write(f"{append(result)}\n")


async def overloaded() -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="kvb-", dir="/tmp") as name:
        async with cache(Path(name), checksums=True, budget_mib=BUDGET_MIB) as worker:
            return await asyncio.to_thread(lambda: list(measure(Path(name), worker)))


def measure(directory: Path, worker: int) -> Iterator[Result]:
    engine, watch, series = Storm(directory), Watch(directory, worker), Series()
    begin = time.monotonic()
    while (now := time.monotonic() - begin) < SECONDS:
        engine.offer()
        if watch.look(now):
            series.note(now, watch.in_use, engine)
    engine.wait()
    offered, outcomes = engine.client.counts()
    context = {**machine(), "seconds": SECONDS, "block_bytes": BLOCK, "offered": offered}
    context |= {outcome.name.lower(): count for outcome, count in outcomes.items()}

    def told(name: str, value: float, unit: str, target: float | None = None) -> Result:
        return Result(name=name, value=value, unit=unit, target=target, context=context)

    yield told("submit_p99_us", float(np.percentile(engine.took[1 : engine.offered + 1], 99)) * 1e6, "us", 50.0)
    yield told("saturation_bytes_over_budget", watch.over, "bytes", 0.0)
    yield told("saturation_most_in_use", watch.most / MIB, "MiB")
    yield told("saturation_untold", offered - sum(outcomes.values()), "blocks", 0.0)
    yield told("saturation_wrong_blocks", engine.wrong(), "blocks", 0.0)
    for who, grown in watch.grown().items():
        yield told(f"saturation_rss_growth_{who}", grown, "MiB")
    context = context | {"series": series.all()}
    yield told("saturation_series", len(series.at_s), "moments")
    engine.client.close()
    watch.close()


class Storm:
    """Offers a block of its own pattern whenever one is free, and overwrites it when its ticket is released."""

    def __init__(self, directory: Path) -> None:
        self._blocks = np.full((SOURCES, BLOCK), 1, np.uint8)
        self._words = self._blocks.view(np.uint64)[:, ::SPREAD]
        self.client = Client(directory, [self._blocks], {"bench": uuid.uuid4().hex})
        if not self.client.wait_connected(LIMIT_S):
            raise TimeoutError(f"there is no cache: {self.client.why}")
        self._free = deque(range(len(self._blocks)))
        self._held: deque[tuple[Ticket, int, int]] = deque()
        self._stored: deque[tuple[Ticket, int]] = deque(maxlen=512)
        self._number = 0
        self.took = np.ones(MOST_TIMES)

    def offer(self) -> None:
        while self._held and self._held[0][0].released:
            ticket, block, number = self._held.popleft()
            self._words[block] = 0xEEEE
            self._free.append(block)
            if ticket.outcomes[0] in (None, Outcome.STORED):
                self._stored.append((ticket, number))
        if not self._free:
            self._held[0][0].wait_released(0.001)
            return
        block = self._free.popleft()
        self._number += 1
        self._words[block] = self._number
        begin = time.perf_counter()
        ticket = self.client.offload([_key(self._number)], [block], within_s=1.0)
        self.took[self._number % MOST_TIMES] = time.perf_counter() - begin
        self._held.append((ticket, block, self._number))

    @property
    def offered(self) -> int:
        return self._number

    def wait(self) -> None:
        for ticket, _, _ in self._held:
            ticket.wait(LIMIT_S)

    def wrong(self) -> int:
        """Blocks among the last stored ones that hold anything but their pattern."""
        wrong = 0
        for ticket, number in self._stored:
            found = self.client.lookup([_key(number)]) if ticket.outcomes[0] is Outcome.STORED else ()
            if found and self.client.load(found, [0]):
                wrong += bool((self._words[0] != number).any())
            if found:
                self.client.release(found)
        return wrong


class Series:
    """What was seen at each look, for a plot."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self._in_use: list[float] = []
        self._submits: dict[int, list[float]] = {50: [], 99: []}
        self._counts: list[dict[Outcome, int]] = []
        self._offered = 0

    def note(self, now: float, in_use: int, engine: Storm) -> None:
        took = engine.took[self._offered + 1 : engine.offered + 1]
        self._offered = engine.offered
        if not len(took):
            return
        self.at_s.append(round(now, 2))
        self._in_use.append(round(in_use / MIB, 1))
        self._counts.append(engine.client.counts()[1])
        for part, values in self._submits.items():
            values.append(round(float(np.percentile(took, part)) * 1e6, 1))

    def all(self) -> dict[str, object]:
        outcomes = sorted({outcome for counts in self._counts for outcome in counts})
        return {
            "at_s": self.at_s,
            "in_use_mib": self._in_use,
            "budget_mib": BUDGET_MIB,
            **{f"submit_p{part}_us": values for part, values in self._submits.items()},
            "outcomes": {
                outcome.name.lower(): [counts.get(outcome, 0) for counts in self._counts] for outcome in outcomes
            },
        }


class Watch:
    """Looks twice a second, as a stranger, at the bytes in use, and at the memory of each process."""

    def __init__(self, directory: Path, worker: int) -> None:
        self._worker = worker
        self._held = attach(directory / "vineyard.sock", directory / "store.json")
        self._next = 0.0
        self._rss: dict[str, list[float]] = {"engine": [], "worker": []}
        self.most = self.over = self.in_use = 0

    def look(self, now: float) -> bool:
        """Whether it was time to."""
        if now < self._next:
            return False
        self._next = now + 0.5
        os.kill(self._worker, signal.SIGSTOP)
        try:
            while not _stopped(self._worker):
                time.sleep(0.0005)
            in_use = _in_use(self._held.memory)
        finally:
            os.kill(self._worker, signal.SIGCONT)
        self.in_use = in_use
        self.most, self.over = max(self.most, in_use), max(self.over, in_use - BUDGET_MIB * MIB)
        if now > RSS_FROM_S:
            for who, pid in (("engine", os.getpid()), ("worker", self._worker)):
                self._rss[who].append(_rss_mib(pid))
        return True

    def grown(self) -> dict[str, float]:
        """MiB of anonymous memory more at the end than ten seconds after the start."""
        return {who: seen[-1] - seen[0] for who, seen in self._rss.items() if seen}

    def close(self) -> None:
        self._held.close()


def _in_use(memory: StoreMemory) -> int:
    """Bytes that wait in clients' queues, and that clients may write into or have committed."""
    queued = sum(int(memory.client_page(at)[:PAGE].cast("Q")[pages.QUEUED]) for at in range(memory.geometry.clients))
    states = Counter(memory.header(slot).state for slot in range(memory.geometry.slots))
    return queued + BLOCK * sum(states[state] for state in IN_USE)


def _stopped(pid: int) -> bool:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return all((task / "stat").read_text().rsplit(")", 1)[1].split()[0] == "T" for task in tasks)


def _key(number: int) -> bytes:
    return number.to_bytes(32, "little")


def _rss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


if __name__ == "__main__":
    sys.exit(main())
