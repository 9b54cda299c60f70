"""An engine in a process of its own: `engine.py DIRECTORY` does what it is told, a line each, and answers in JSON.

Its blocks are 64 KiB in two regions, one for keys and one for values, as paged attention has them. Each source is
overwritten as soon as its ticket is released. With `SHARD` and `SHARDS` it is one rank of several, each of which has
smaller blocks than the one before, or such as `CUT` says; with `SHARDS` alone it is their scheduler.
"""

import json
import os
import signal
import sys
import threading
import time
from collections import Counter

import numpy as np

from kvberth.client import Client, Found, Parts, Ticket
from kvberth.client.host import HostRegions
from support.store_memory import content, key_of
from support.transfer_worker import BLOCK

BLOCKS = 128
AT_ONCE = 16
SHARD, SHARDS = os.environ.get("SHARD"), int(os.environ.get("SHARDS", "1"))
SIZE = BLOCK >> int(os.environ.get("CUT", SHARD or 0))
HALF = SIZE // 2


def data_of(number: int) -> bytes:
    """What a block holds: made from its key, and of each shard something else."""
    return content(key_of(number) if SHARD is None else SHARD.encode() + key_of(number), SIZE)


class Engine:
    """Knows what each block must hold: what is made from its key."""

    def __init__(self, directory: str) -> None:
        self.pages = np.zeros((2, BLOCKS, HALF // 4), dtype=np.float32)
        self.bytes = self.pages.view(np.uint8)
        facts = {"model": os.environ.get("MODEL", "m"), "dtype": "float32"}
        HostRegions.lingers = "LINGERS" in os.environ  # as if a GPU copied
        scheduler = SHARDS > 1 and SHARD is None
        regions = [] if scheduler else list(self.pages)
        self.client = Client(directory, regions, facts, shard=int(SHARD or 0), shards=SHARDS)
        self.seen = Found()

    def fill(self, block: int, number: int) -> None:
        data = np.frombuffer(data_of(number), dtype=np.uint8)
        self.bytes[0, block], self.bytes[1, block] = data[:HALF], data[HALF:]

    def right(self, block: int, number: int) -> bool:
        data = b"".join(self.bytes[part, block].tobytes() for part in (0, 1))
        return data == data_of(number)

    def connect(self, seconds: str = "20") -> dict[str, object]:
        return {"connected": self.client.wait_connected(float(seconds)), "why": self.client.why}

    def put(self, first: str, count: str, within: str = "20") -> dict[str, int]:
        told: Counter[str] = Counter()
        for start in range(int(first), int(first) + int(count), AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, int(first) + int(count)))
            ticket = self.offload(numbers, float(within))
            ticket.wait(60)
            told.update(str(outcome and outcome.name) for outcome in ticket.outcomes)
        return dict(told)

    def offload(self, numbers: range, within_s: float = 20.0) -> Ticket:
        for block, number in enumerate(numbers):
            self.fill(block, number)
        ticket = self.client.offload([key_of(number) for number in numbers], range(len(numbers)), within_s=within_s)
        ticket.wait_released(60)
        self.bytes[:] = 0xEE
        return ticket

    def computed(self, microseconds: str) -> dict[str, object]:
        """Says what a block costs to compute."""
        self.client.computed(1, float(microseconds) / 1e6)
        return {"why": self.client.why_shed}

    def get(self, first: str, count: str) -> dict[str, int]:
        found = right = wrong = 0
        for start in range(int(first), int(first) + int(count)):
            run = self.client.lookup([key_of(start)])
            loaded = self.client.load(run, [0])
            good = loaded and self.right(0, start)
            found, right, wrong = found + len(run), right + bool(good), wrong + (loaded and not good)
            self.client.release(run)
        return {"found": found, "right": right, "wrong": wrong}

    def run(self, first: str, count: str) -> dict[str, int]:
        """The leading run; asks again where a lookup ended with its time."""
        numbers = range(int(first), int(first) + int(count))
        found = loaded = 0
        while run := self.client.lookup([key_of(number) for number in numbers[found:]]):
            loaded += self.client.load(run, range(found, found + len(run)))
            found += len(run)
            self.client.release(run)
        wrong = sum(not self.right(block, number) for block, number in zip(range(loaded), numbers, strict=False))
        return {"found": found, "loaded": loaded, "wrong": wrong}

    def find(self, first: str, count: str) -> dict[str, object]:
        """Looks up for ranks, and holds what it found until the next time."""
        self.client.release(self.seen)
        self.seen = self.client.lookup([key_of(int(first) + number) for number in range(int(count))])
        return {"found": len(self.seen), "parts": bytes(self.seen.parts).hex()}

    def take(self, parts: str, first: str) -> dict[str, int]:
        """Loads its shard of what its scheduler has found."""
        run = self.client.lease(Parts.from_bytes(bytes.fromhex(parts)))
        loaded = self.client.load(run, range(len(run)))
        self.client.release(run)
        wrong = sum(not self.right(block, int(first) + block) for block in range(loaded))
        return {"leased": len(run), "loaded": loaded, "wrong": wrong}

    def hold(self, first: str, count: str) -> dict[str, int]:
        """Leases, and never releases."""
        return {"found": len(self.client.lookup([key_of(int(first) + number) for number in range(int(count))]))}

    def pause(self, first: str, count: str) -> dict[str, int]:
        """Stops itself in the middle of its next copy."""
        copy = HostRegions.store

        def store(regions: HostRegions, blocks: list[int], arenas: list[np.ndarray], places: list) -> None:
            half = len(blocks) // 2
            copy(regions, blocks[:half], arenas, places[:half])
            HostRegions.store = copy
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread: another one would stop it late
            copy(regions, blocks[half:], arenas, places[half:])

        HostRegions.store = store
        return self.put(first, count)

    def storm(self, seconds: str, first: str) -> dict[str, object]:
        """Offers as fast as it can, without waiting for anything but its own memory."""
        until, number = time.monotonic() + float(seconds), int(first)
        tickets, took = [], []
        while time.monotonic() < until:
            keys = [key_of(number + at) for at in range(16)]
            number += 16
            begin = time.perf_counter()
            tickets.append(self.client.offload(keys, range(16), within_s=0.5))
            took.append(time.perf_counter() - begin)
            if len(tickets) > 64:
                tickets = [ticket for ticket in tickets if not ticket.settled]
        settled = all(ticket.wait(20) for ticket in tickets)
        return {"offered": number - int(first), "settled": settled, "p99_us": sorted(took)[len(took) * 99 // 100] * 1e6}

    def name(self) -> dict[str, str]:
        return {"name": self.client.id}

    def cancel(self, first: str, count: str) -> dict[str, int]:
        """Offers, and takes it back at once; its blocks are its own again before anybody has answered."""
        numbers = range(int(first), int(first) + int(count))
        for block, number in enumerate(numbers):
            self.fill(block, number)
        ticket = self.client.offload([key_of(number) for number in numbers], range(len(numbers)))
        ticket.cancel()
        released = ticket.wait_released(5)
        if released:
            self.bytes[:] = 0xEE
        known = Counter(str(outcome and outcome.name) for outcome in ticket.outcomes)
        return {"released": released, **known}

    def misuse(self, number: str) -> dict[str, str]:
        """Asks with a key that is none after one that is there, and keeps the error with all its frames."""
        try:
            self.client.lookup([key_of(int(number)), b"short"])
        except ValueError as error:
            self.kept = error
            return {"error": str(error)}
        return {}

    def peek(self) -> dict[str, str]:
        """Keeps a view of the store's memory, as no engine should."""
        self.kept = self.client._desk.mapping.memory.index[:8]
        return {}

    def damage(self, number: str) -> dict[str, int]:
        """Changes a byte of a block in the store, as no engine should."""
        while not (run := self.client.lookup([key_of(int(number))])):
            pass  # its time was over: it asks again
        hit = run.hits[0]
        with self.client._desk.using() as (mapping, _):
            mapping.memory.data(hit.slot, hit.slot_bytes, hit.length)[7] ^= 1
            del mapping
        self.client.release(run)
        return {}

    def let_go(self) -> dict[str, str]:
        del self.kept
        return {}

    def reset(self) -> dict[str, int]:
        self.client.reset()
        return {}

    def counts(self) -> dict[str, object]:
        admitted, outcomes = self.client.counts()
        return {"admitted": admitted} | {outcome.name: count for outcome, count in outcomes.items()}

    def fork(self) -> dict[str, object]:
        """A child that lives on must neither keep the lock nor have a cache."""
        child = os.fork()
        if child == 0:
            found = len(self.client.lookup([key_of(0)]))
            os._exit(7 if found == 0 else 8)
        return {"status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}

    def close(self) -> dict[str, int]:
        self.client.close()
        return {}


def main(directory: str) -> None:
    engine = Engine(directory)
    for line in sys.stdin:
        name, *words = line.split()
        print(json.dumps(getattr(engine, name)(*words)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
