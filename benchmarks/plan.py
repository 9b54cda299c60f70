"""How long placement takes to plan everything once: 5,000 nodes, 50,000 engines, 500 KVCaches in 50 namespaces.

A pass plans every namespace. Between two passes one cache in a hundred changes: its daemon is another one. The first
pass of a process, which has nothing to remember, is told beside it, and so is what a pass costs while nothing changes.
Times are those of the processor: planning waits for nothing, and what else the machine does is not its cost.
"""

import gc
import os
import platform
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from benchmarks.results import Result, append
from kvberth.kvcache import GateSpec
from kvberth.placement.observe import Index
from kvberth.placement.plan import Policy, plan
from kvberth.placement.snapshot import AtRest, Cause, Freshness, Memory, Wanted
from kvberth.placement.steps import AnyStep, Place
from kvberth_schemas import subjects
from kvberth_schemas.events import (
    CacheHealthV1,
    HealthReason,
    KVCacheSpecV1,
    KVCacheStatusV1,
    NodeChangedV1,
    Owner,
    PodReadyV1,
    PodRole,
    ProcessRole,
    ProcessStartedV1,
    Resources,
    SocketReadyV1,
    Verdict,
)
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import EventSubject
from kvberth_schemas.wants import Why

NODES, NAMESPACES, KVCACHES, ENGINES_EACH = 5000, 50, 500, 100
PASSES = 20
TARGET_S = 0.1
NOW = datetime(2026, 11, 30, tzinfo=UTC)
GIB = 2**30


@dataclass
class Cluster:
    """Everything that was said, and what placement asked for and remembers."""

    index: Index = field(default_factory=Index)
    memory: dict[str, Memory] = field(default_factory=dict)
    freshness: Freshness = field(
        default_factory=lambda: Freshness(
            None, frozenset(map(_node, range(NODES))), frozenset(map(_node, range(NODES)))
        )
    )
    sequence: int = 0

    def say(self, subject: EventSubject, event: Event) -> None:
        self.sequence += 1
        self.index.take(subject, event, Cause(f"e{self.sequence}", None, self.sequence, NOW))

    def pass_s(self) -> tuple[float, list[tuple[str, AnyStep]]]:
        """Plan every namespace; return the seconds and the steps. What plans remember is kept for the next pass."""
        steps: list[tuple[str, AnyStep]] = []
        took = 0.0
        for namespace in sorted(self.index.namespaces):
            memory = self.memory.get(namespace, Memory())
            began = time.thread_time()
            snapshot = self.index.snapshot(namespace, term=1, freshness=self.freshness, memory=memory, live={})
            result = plan(snapshot, Policy(), NOW)
            took += time.thread_time() - began
            statuses: dict[str, KVCacheStatusV1] = {status.name: status for status in result.statuses}
            at_rest: dict[str, AtRest] = dict(result.at_rest)
            self.memory[namespace] = Memory(statuses=statuses, at_rest=at_rest, arrivals=result.arrivals)
            steps += [(namespace, step) for step in result.steps]
        return took, steps


def main() -> None:
    """Measure, and append the result."""
    cluster = _built()
    first_s, steps = cluster.pass_s()
    _carry_out(cluster, steps)
    settling_s, _ = cluster.pass_s()
    gc.collect()
    gc.freeze()  # what was built in one go for this measurement is no garbage of the passes
    quiet = [cluster.pass_s()[0] for _ in range(5)]
    changing = [_pass_after_changes(cluster, number) for number in range(PASSES)]
    result = Result(
        name="plan_pass_s",
        value=round(statistics.median(changing), 4),
        unit="s",
        target=TARGET_S,
        context={
            "nodes": NODES,
            "engines": KVCACHES * ENGINES_EACH,
            "kvcaches": KVCACHES,
            "namespaces": NAMESPACES,
            "changed_between_passes": KVCACHES * ENGINES_EACH // 100,
            "min_s": round(min(changing), 4),
            "max_s": round(max(changing), 4),
            "nothing_changed_s": round(statistics.median(quiet), 4),
            "nothing_remembered_s": round(settling_s, 4),
            "everything_placed_s": round(first_s, 4),
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
        },
    )
    sys.stdout.write(f"{append(result)}\n")


def _pass_after_changes(cluster: Cluster, number: int) -> float:
    """Let one cache in a hundred be another daemon; every pass plans all."""
    chosen = random.Random(number)  # noqa: S311 (the same changes in every run)
    for _ in range(KVCACHES * ENGINES_EACH // 100):
        _answer(cluster, chosen.randrange(KVCACHES), chosen.randrange(ENGINES_EACH), f"i{number}")
    return cluster.pass_s()[0]


def _built() -> Cluster:
    cluster = Cluster()
    for node in range(NODES):
        total = Resources(memory_bytes=2000 * GIB, cpu_millis=256_000, gpus=16)
        labels = {"kubernetes.io/hostname": _node(node), "nvidia.com/gpu.product": "NVIDIA-L20"}
        event = NodeChangedV1(
            name=_node(node), resource_version=1, ready=True, labels=labels, allocatable=total, requested=Resources()
        )
        cluster.say(subjects.node(_node(node)), event)
    for kvcache in range(KVCACHES):
        _kvcache(cluster, kvcache)
        for engine in range(ENGINES_EACH):
            _engine(cluster, kvcache, engine)
    return cluster


def _kvcache(cluster: Cluster, number: int) -> None:
    manifest = {
        "apiVersion": "orchestration.aibrix.ai/v1alpha1",
        "kind": "KVCache",
        "metadata": {
            "name": f"kv{number}",
            "namespace": _namespace(number),
            "annotations": {"kvcache.orchestration.aibrix.ai/pod-affinity-workload": f"m{number}"},
        },
        "spec": {"replicas": 1, "cacheSpec": {"memory": "72Gi", "cpu": "2"}},
    }
    event = KVCacheSpecV1(
        uid=f"uid-kv{number}",
        name=f"kv{number}",
        namespace=_namespace(number),
        generation=1,
        resource_version=1,
        created=NOW,
        manifest=manifest,
    )
    cluster.say(subjects.spec(_namespace(number), f"kv{number}"), event)


def _engine(cluster: Cluster, kvcache: int, engine: int) -> None:
    namespace, uid, node = _namespace(kvcache), f"u{kvcache}-{engine}", _place_of(kvcache, engine)
    event = PodReadyV1(
        uid=uid,
        name=f"m{kvcache}-{engine}",
        namespace=namespace,
        resource_version=1,
        role=PodRole.ENGINE,
        model=f"m{kvcache}",
        workload=Owner(kind="Deployment", name=f"m{kvcache}", uid=f"w{kvcache}", wanted=ENGINES_EACH),
        requests=Resources(memory_bytes=48 * GIB, gpus=1),
        node=node,
        ready=True,
    )
    cluster.say(subjects.pod(namespace, uid), event)
    _process(cluster, (namespace, uid, node), ProcessRole.ENGINE, f"m{kvcache}", None)


def _answer(cluster: Cluster, kvcache: int, engine: int, incarnation: str) -> None:
    """Runner and agent say that a cache runs, and answers."""
    namespace, name, node = _namespace(kvcache), f"kv{kvcache}", _place_of(kvcache, engine)
    _process(cluster, (namespace, name, node), ProcessRole.CACHE, None, incarnation)
    event = SocketReadyV1(
        cache=name,
        namespace=namespace,
        node=node,
        path=f"/run/kvberth/{namespace}/{name}/vineyard.sock",
        incarnation=incarnation,
        instance_id=0,
        version="0.24.2",
        memory_usage=0,
        memory_limit=68 * GIB,
    )
    cluster.say(subjects.socket(node, namespace, name), event)
    proven = CacheHealthV1(
        cache=name,
        namespace=namespace,
        node=node,
        incarnation=incarnation,
        verdict=Verdict.HEALTHY,
        reason=HealthReason.PROVEN.value,
        message="bytes went in and came back",
        last_proof=NOW,
    )
    cluster.say(subjects.health(node, namespace, name), proven)


def _process(
    cluster: Cluster, place: tuple[str, str, str], role: ProcessRole, model: str | None, incarnation: str | None
) -> None:
    namespace, owner, node = place
    event = ProcessStartedV1(
        node=node,
        namespace=namespace,
        owner=owner,
        name=owner,
        role=role,
        pid=1,
        started=NOW,
        ready=True,
        model=model,
        incarnation=incarnation,
    )
    cluster.say(subjects.process(node, namespace, owner, role), event)


def _carry_out(cluster: Cluster, steps: list[tuple[str, AnyStep]]) -> None:
    """Let every cache that is asked for run and answer."""
    for namespace, step in steps:
        if isinstance(step, Place):
            wanted = Wanted(
                run=True,
                why=Why.WANTED,
                uid=step.uid,
                pool=step.pool,
                size_bytes=step.size.size_bytes,
                memory_bytes=step.size.memory_bytes,
                cpu_millis=2000,
                gate=GateSpec(),
                directory=True,
                since=NOW,
                cause=step.cause,
                started=NOW,
            )
            cluster.index.set_wanted(namespace, step.kvcache, step.node, wanted)
    for kvcache in range(KVCACHES):
        for engine in range(ENGINES_EACH):
            _answer(cluster, kvcache, engine, "i")


def _node(number: int) -> str:
    return f"n{number:04}"


def _place_of(kvcache: int, engine: int) -> str:
    return _node((kvcache * ENGINES_EACH + engine) % NODES)


def _namespace(kvcache: int) -> str:
    return f"ns{kvcache % NAMESPACES}"


if __name__ == "__main__":
    main()
