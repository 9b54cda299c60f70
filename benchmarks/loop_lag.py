"""How late the loops of the bare services run while a cache's daemon is frozen, by their own metric.

A whole stack serves one engine; its daemon is stopped until it was said to hang and ten seconds more, and let go on.
"""

import asyncio
import json
import os
import re
import signal
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Result, append
from benchmarks.t_move import Bench, bench
from kvberth_schemas.events import CacheHealthV1, HealthReason, ProcessRole, ProcessStartedV1

INTERVAL_S = 0.01
FROZEN_S = 10.0
P99_MS, WORST_MS = 50.0, 250.0
_SERVICES = ("node_agent", "placement", "runner", "scheduler")
_BUCKET = re.compile(rb'kvberth_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)')

Lags = Mapping[float, float]
"""How many looks found at most so many seconds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds of what one loop was late, in seconds."""

    looks: int
    p99_s: float
    worst_s: float


def bounds(before: Lags, after: Lags) -> Bounds:
    """Give what the looks between two scrapes found; ValueError where there were none."""
    grown = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
    looks = max(grown.values(), default=0.0)
    if looks <= 0:
        raise ValueError("no look at the loop was counted")
    p99 = min(bound for bound, count in grown.items() if count >= 0.99 * looks)
    return Bounds(int(looks), p99, min(bound for bound, count in grown.items() if count >= looks))


async def main() -> None:
    """Measure, and append the result."""
    load = os.getloadavg()[0]
    async with bench({"KVBERTH_LAG_INTERVAL_S": str(INTERVAL_S)}) as made:
        engine = await made.first()
        await made.until(lambda: _says(made, HealthReason.PROVEN))
        found = await _frozen(made, engine.node)
    context = {
        "every_s": INTERVAL_S,
        "frozen_s": FROZEN_S,
        "bounds_ms": {name: {"p99": 1000 * one.p99_s, "worst": 1000 * one.worst_s} for name, one in found.items()},
        "looks": {name: one.looks for name, one in found.items()},
        "cpus": os.cpu_count(),
        "load_before": round(load, 1),
    }
    p99_ms = 1000 * max(one.p99_s for one in found.values())
    worst_ms = 1000 * max(one.worst_s for one in found.values())
    for result in (
        Result(name="loop_lag_p99_ms", value=p99_ms, unit="ms", target=P99_MS, context=context),
        Result(name="loop_lag_worst_ms", value=worst_ms, unit="ms", target=WORST_MS, context=context),
    ):
        sys.stdout.write(f"{append(result)}\n")


async def _frozen(made: Bench, node: str) -> dict[str, Bounds]:
    """Every service's lag from the SIGSTOP until the daemon has answered again."""
    daemon = _daemon(made, node)
    before = await asyncio.to_thread(_scraped, made.layout.state)
    made.heard.clear()
    os.kill(daemon, signal.SIGSTOP)
    try:
        await made.until(lambda: _says(made, HealthReason.HUNG))
        await asyncio.sleep(FROZEN_S)
        made.heard.clear()
    finally:
        os.kill(daemon, signal.SIGCONT)
    await made.until(lambda: _says(made, HealthReason.PROVEN))
    after = await asyncio.to_thread(_scraped, made.layout.state)
    return {name: bounds(before[name], after[name]) for name in before}


def _daemon(made: Bench, node: str) -> int:
    for message in (one.message for one in reversed(made.heard)):
        if isinstance(message, ProcessStartedV1) and message.role is ProcessRole.CACHE and message.node == node:
            return message.pid
    raise RuntimeError(f"no daemon was started on {node}")


def _says(made: Bench, reason: HealthReason) -> bool:
    said = [one.message for one in made.heard if isinstance(one.message, CacheHealthV1)]
    return bool(said) and said[-1].reason == reason


def _scraped(state: Path) -> dict[str, Lags]:
    """The lags of all services, by the names of their address files."""
    files = [file for file in sorted((state / "services").glob("*.json")) if file.stem.startswith(_SERVICES)]
    addresses = {file.stem: json.loads(file.read_text(encoding="utf-8"))["http"] for file in files}
    return {name: _lags(address.removeprefix("http://")) for name, address in addresses.items()}


def _lags(address: str) -> Lags:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
        return {float(bound): float(count) for bound, count in _BUCKET.findall(answer.read())}


if __name__ == "__main__":
    asyncio.run(main())
