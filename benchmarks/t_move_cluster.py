"""How long a cache takes to follow its engine on real kubelets, and what of that is kvberth's.

T_move is the time from the binding of the engine's new pod, by the API server's audit log, until a witness that is not
ours was answered beside it. In the same run the same DaemonSet is moved by a bare PATCH, at the moment when such a pod
is bound, with nothing of ours running: what we add is the rest. `make test-cluster` runs this.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import cluster_stages
from benchmarks.cluster import KVCACHE, NAMESPACE, Cluster, brought_up, until
from benchmarks.cluster_stages import Move, Request
from benchmarks.results import Result, append
from benchmarks.stages import percentile
from kvberth.kube.resources import PODS
from kvberth.scenario.backend.kubernetes.api import Api, open_client

MOVES = 30
TARGET_S = 2.0
OVER_BARE = 1.25
Took = dict[str, float]
Read = Callable[[Sequence[Request], Move], Took | None]


@dataclass
class Bench:
    """Moves of one engine on one cluster."""

    cluster: Cluster
    audit: Path
    at: int = 0
    """On which of the two nodes the engine is."""

    async def moves(self, count: int, *, bare: bool) -> list[Took]:
        """Move the engine so often; give the seconds of each move's stages."""
        took = []
        for number in range(count):
            took.append(await self._move(bare=bare))
            name = "bare PATCH" if bare else "kvberth"
            said = f"move {number + 1} of {count} by {name}: {sum(took[-1].values()) * 1000:.0f} ms"
            sys.stdout.write(f"{said}\n")
            sys.stdout.flush()
        return took

    async def _move(self, *, bare: bool) -> Took:
        cluster, source, target = self.cluster, self.cluster.nodes[self.at], self.cluster.nodes[1 - self.at]
        former = await cluster.settled(source)
        known, offset = len(await cluster.answers(target)), self.audit.stat().st_size
        await cluster.cordon(target, cordoned=False)
        await cluster.cordon(source, cordoned=True)
        await cluster.api.delete(PODS, NAMESPACE, former)
        bound = await until(cluster.engine, "a new engine is bound")
        if bare:
            await cluster.patch(source, target)

        async def answered() -> float | None:
            return next(iter((await cluster.answers(target))[known:]), None)

        at = await until(answered, f"the witness on {target} is answered")
        if bare:
            await until(partial(self._is_gone, former), f"the engine {former} has ended")
            await cluster.patch(target)
        self.at = 1 - self.at
        await cluster.settled(target)
        move = Move(bound["metadata"]["name"], KVCACHE, at)
        took = (cluster_stages.bare if bare else cluster_stages.ours)(self._said(offset), move)
        if took is None:
            raise RuntimeError(f"{self.audit} does not hold the whole of the move of {move.engine} to {target}")
        return took

    async def _is_gone(self, pod: str) -> bool:
        return await self.cluster.api.get(PODS, NAMESPACE, pod) is None

    def _said(self, offset: int) -> list[Request]:
        with self.audit.open(encoding="utf-8") as log:
            log.seek(offset)
            return list(cluster_stages.requests(log))


async def measure(kubeconfig: Path, audit: Path, moves: int) -> tuple[list[Took], list[Took]]:
    """Move the engine so often by kvberth, and so often by a bare PATCH."""
    async with open_client(kubeconfig) as client, brought_up(Api(client)) as cluster:
        bench = Bench(cluster, audit)
        ours = await bench.moves(moves, bare=False)
        async with cluster.alone():
            bare = await bench.moves(moves, bare=True)
    return ours, bare


def results(ours: Sequence[Took], bare: Sequence[Took], context: Mapping[str, object]) -> list[Result]:
    """Give what was measured; pure."""
    totals, plain = ([sum(took.values()) for took in all_took] for all_took in (ours, bare))
    p50, p99 = percentile(totals, 50), percentile(totals, 99)
    whole = {**context, "moves": len(ours), "stages": _summary(ours), "bare_stages": _summary(bare)}
    found = [("t_move_cluster_p50_s", p50, "s", None), ("t_move_cluster_p99_s", p99, "s", TARGET_S)]
    found.append(("t_move_cluster_over_bare", p50 / percentile(plain, 50), "ratio", OVER_BARE))
    return [
        Result(name=name, value=round(value, 4), unit=unit, target=target, context=whole)
        for name, value, unit, target in found
    ]


def _summary(moves: Sequence[Took]) -> dict[str, dict[str, float]]:
    names = {"whole": lambda took: sum(took.values()), **{name: _one(name) for name in moves[0]}}
    return {
        name: {
            "p50_ms": round(statistics.median(map(read, moves)) * 1000, 1),
            "p99_ms": round(percentile(map(read, moves), 99) * 1000, 1),
        }
        for name, read in names.items()
    }


def _one(name: str) -> Callable[[Took], float]:
    return lambda took: took[name]


def main() -> None:
    """Measure, and append the results; what is over its target is said."""
    parser = argparse.ArgumentParser(description="Measure T_move on a Kubernetes cluster.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--audit", type=Path, required=True, help="the API server's audit log, readable here")
    parser.add_argument("--moves", type=int, default=MOVES)
    asked = parser.parse_args()
    began, load = time.monotonic(), os.getloadavg()[0]
    ours, bare = asyncio.run(measure(asked.kubeconfig, asked.audit, asked.moves))
    context = {"cpus": os.cpu_count(), "load_before": round(load, 1), "took_s": round(time.monotonic() - began, 1)}
    for result in results(ours, bare, context):
        over = f"OVER ITS TARGET of {result.target:g} {result.unit}: " if result.holds is False else ""
        sys.stdout.write(f"{over}{append(result)}\n")


if __name__ == "__main__":
    main()
