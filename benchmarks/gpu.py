"""Put and get of blocks that lie on a GPU, by the client, against plain copies between it and pinned memory.

For a machine with a CUDA device and torch: `python -m benchmarks.gpu`; elsewhere it says so and measures nothing.
"""

import asyncio
import hashlib
import importlib.util
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.results import Result, append, machine
from benchmarks.transfer import BLOCK, LIMIT_S, TOTAL, cache
from kvberth.client import Client, Outcome

PINNED_AFTER_S = 5.0
"""Arenas are pinned while the client is idle."""
ROUNDS, LAYERS, BATCHES = 6, 32, (16, TOTAL // BLOCK)


def main() -> None:
    """Measure, print, append; the first round is cold and does not count."""
    if importlib.util.find_spec("torch") is None:
        sys.exit("torch is not installed: nothing was measured")
    import torch

    if not torch.cuda.is_available():
        sys.exit("there is no CUDA device: nothing was measured")
    for checksums in (False, True):
        for result in asyncio.run(measured(torch, checksums=checksums)):
            sys.stdout.write(f"{append(result)}\n")


async def measured(torch: Any, *, checksums: bool) -> list[Result]:  # noqa: ANN401 -- torch may not be there
    with tempfile.TemporaryDirectory(prefix="kvb-", dir="/tmp") as name:
        async with cache(Path(name), checksums=checksums):
            return await asyncio.to_thread(lambda: list(measure(torch, Path(name), checksums=checksums)))


def measure(torch: Any, directory: Path, *, checksums: bool) -> Iterator[Result]:  # noqa: ANN401 -- as above
    count, piece = TOTAL // BLOCK, BLOCK // (2 * LAYERS)
    context = {**machine(), "checksums": checksums, "block_bytes": BLOCK, "device": torch.cuda.get_device_name()}
    for layout, shapes in (("", [(count, BLOCK)]), ("_paged", [(count, piece)] * (2 * LAYERS))):
        regions = [torch.randint(0, 255, shape, dtype=torch.uint8, device="cuda") for shape in shapes]
        pinned = torch.empty((count, BLOCK), dtype=torch.uint8, pin_memory=True)
        plain = torch.randint(0, 255, (count, BLOCK), dtype=torch.uint8, device="cuda")
        with Client(directory, regions, {"bench": uuid.uuid4().hex}) as client:
            if not client.wait_connected(LIMIT_S):
                raise TimeoutError(f"there is no cache: {client.why}")
            time.sleep(PINNED_AFTER_S)
            for batch in BATCHES:
                for name, value in ratios(torch, client, (pinned, plain), batch).items():
                    told = f"gpu_{name}{layout}_batch{batch}" + "_checksum" * checksums
                    yield Result(name=told, value=value, unit="of a plain copy", context=context)


def ratios(torch: Any, client: Client, ruler: tuple[Any, Any], batch: int) -> dict[str, float]:  # noqa: ANN401
    pinned, plain = ruler
    found: dict[str, list[float]] = {"put_ratio": [], "get_ratio": []}
    for number in range(ROUNDS):
        keys = [hashlib.sha256(f"{number} {batch} {at}".encode()).digest() for at in range(len(plain))]
        out = timed(torch, lambda: pinned.copy_(plain, non_blocking=True))
        found["put_ratio"].append(out / timed(torch, lambda keys=keys: _put(client, keys, batch)))
        into = timed(torch, lambda: plain.copy_(pinned, non_blocking=True))
        found["get_ratio"].append(into / timed(torch, lambda keys=keys: _get(client, keys, batch)))
    return {name: statistics.median(values[1:]) for name, values in found.items()}


def timed(torch: Any, step: Callable[[], object]) -> float:  # noqa: ANN401
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def _put(client: Client, keys: list[bytes], batch: int) -> None:
    for start in range(0, len(keys), batch):
        ticket = client.offload(keys[start : start + batch], range(start, min(start + batch, len(keys))))
        if not ticket.wait(LIMIT_S) or set(ticket.outcomes) != {Outcome.STORED}:
            raise RuntimeError(f"not every block was stored: {ticket.outcomes}")


def _get(client: Client, keys: list[bytes], batch: int) -> None:
    at, until = 0, time.monotonic() + LIMIT_S
    while at < len(keys):
        found = client.lookup(keys[at : at + batch])
        loaded = client.load(found, range(at, at + len(found)))
        client.release(found)
        if loaded != len(found) or time.monotonic() > until:
            raise RuntimeError(f"{loaded} of {len(found)} blocks were loaded, {len(keys) - at} left")
        at += loaded


if __name__ == "__main__":
    main()
