"""A small world for placement: what the bus would say, as last states, and the steps of a plan taken in memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kvberth.placement import facts
from kvberth.placement.additions import cpu_millis
from kvberth.placement.arrivals import after
from kvberth.placement.memory import Arrivals, AtRest, Held, Memory
from kvberth.placement.observe import Index
from kvberth.placement.plan import Policy, plan
from kvberth.placement.snapshot import Freshness, LiveWorkload, Snapshot
from kvberth.placement.states import Cause, Wanted, WorkloadKey
from kvberth.placement.steps import AnyStep, Claim, Finish, Forget, Place, Plan, Release, Remove, Restart
from kvberth_schemas import subjects
from kvberth_schemas.events import (
    CacheHealthV1,
    Condition,
    HealthReason,
    KVCacheGoneV1,
    KVCacheSpecV1,
    KVCacheStatusV1,
    NodeChangedV1,
    NodeGoneV1,
    NodeRow,
    Owner,
    PodGoneV1,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodWaitingV1,
    ProcessEndedV1,
    ProcessRole,
    ProcessStartedV1,
    Resources,
    SocketGoneV1,
    SocketLostReason,
    SocketLostV1,
    SocketMount,
    SocketReadyV1,
    Verdict,
)
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import EventSubject
from kvberth_schemas.wants import CacheWantV1

NAMESPACE = "default"
MODEL = "llama"
START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
GI = 2**30
WORKLOAD: WorkloadKey = ("Deployment", "llama")


def manifest(name: str = "kv", **options: Any) -> dict[str, Any]:
    """A KVCache as a user writes it; options: workload, gpu_type, gpu_key, replicas, memory, linger, paused, spec."""
    annotations = {}
    if (workload := options.get("workload", MODEL)) is not None:
        annotations["kvcache.orchestration.aibrix.ai/pod-affinity-workload"] = workload
    if "gpu_type" in options:
        annotations["kvcache.orchestration.aibrix.ai/node-affinity-gpu-type"] = options["gpu_type"]
    if "gpu_key" in options:
        annotations["kvcache.orchestration.aibrix.ai/node-affinity-key"] = options["gpu_key"]
    if options.get("paused"):
        annotations["kvberth.dev/paused"] = "true"
    spec = {
        "replicas": options.get("replicas", 1),
        "cacheSpec": {"memory": options.get("memory", "72Gi"), "cpu": "2"},
        "lingerSeconds": options.get("linger", 300),
        **options.get("spec", {}),
    }
    metadata = {"name": name, "namespace": options.get("namespace", NAMESPACE), "annotations": annotations}
    return {"apiVersion": "orchestration.aibrix.ai/v1alpha1", "kind": "KVCache", "metadata": metadata, "spec": spec}


@dataclass
class World:
    """Last states by subject, what placement asked for, and what it remembers."""

    now: datetime = START
    states: dict[EventSubject, tuple[Event, Cause]] = field(default_factory=dict)
    wanted: dict[tuple[str, str, str], Wanted] = field(default_factory=dict)
    stale: str | None = None
    silent_runners: set[str] = field(default_factory=set)
    silent_agents: set[str] = field(default_factory=set)
    silent_since: dict[str, datetime] = field(default_factory=dict)
    unreadable: dict[EventSubject, str] = field(default_factory=dict)
    live: dict[WorkloadKey, LiveWorkload] = field(default_factory=dict)
    statuses: dict[str, KVCacheStatusV1] = field(default_factory=dict)
    removals: dict[str, tuple[datetime, ...]] = field(default_factory=dict)
    restarts: dict[str, tuple[datetime, ...]] = field(default_factory=dict)
    revisions: dict[str, dict[str, str]] = field(default_factory=dict)
    idle_since: dict[tuple[str, str], datetime] = field(default_factory=dict)
    at_rest: Mapping[str, AtRest] = field(default_factory=dict)
    arrivals: Mapping[str, Arrivals] = field(default_factory=dict)
    held: dict[tuple[str, str], Held] = field(default_factory=dict)
    sequence: int = 0
    jumped_s: float = 0.0
    """By how much the wall clock was set ahead."""

    @property
    def steady_s(self) -> float:
        """What the steady clock of placement shows."""
        return (self.now - START).total_seconds() - self.jumped_s

    # --- what others say ----------------------------------------------------------------------------------------------

    def say(self, subject: EventSubject, event: Event) -> Cause:
        """Make an event the last of its subject."""
        self.sequence += 1
        cause = Cause(f"event-{self.sequence}", f"trace-{self.sequence}", self.sequence, self.now, self.steady_s)
        self.states[subject] = (event, cause)
        return cause

    def node(
        self,
        name: str,
        *,
        free: float = 500,
        requested: float = 0,
        ready: bool = True,
        cordoned: bool = False,
        **labels: str,
    ) -> None:
        total = Resources(memory_bytes=int((free + requested) * GI), cpu_millis=64_000, gpus=8)
        event = NodeChangedV1(
            name=name,
            resource_version=self.sequence,
            ready=ready,
            unschedulable=cordoned,
            labels={key.replace("__", "/"): value for key, value in labels.items()},
            allocatable=total,
            requested=Resources(memory_bytes=int(requested * GI)),
        )
        self.say(subjects.node(name), event)

    def node_gone(self, name: str) -> None:
        self.say(subjects.node(name), NodeGoneV1(name=name, why="deleted"))

    def kvcache(self, name: str = "kv", *, uid: str | None = None, deleting: bool = False, **options: Any) -> None:
        namespace = options.get("namespace", NAMESPACE)
        event = KVCacheSpecV1(
            uid=uid or f"uid-{name}",
            name=name,
            namespace=namespace,
            generation=1,
            resource_version=self.sequence,
            created=START + timedelta(seconds=options.pop("age", 0)),
            paused=bool(options.get("paused")),
            deleting=deleting,
            manifest=manifest(name, **options),
        )
        self.say(subjects.spec(namespace, name), event)

    def kvcache_gone(self, name: str = "kv", *, by_user: bool = True) -> None:
        event = KVCacheGoneV1(uid=f"uid-{name}", name=name, namespace=NAMESPACE, by_user=by_user, why="not found")
        self.say(subjects.spec(NAMESPACE, name), event)

    def engine(self, uid: str, node: str | None, **options: Any) -> Cause:
        """An engine's pod; `options` are those that are read below."""
        namespace = options.get("namespace", NAMESPACE)
        kind, name = options.get("workload", WORKLOAD)
        common: dict[str, Any] = {
            "uid": uid,
            "name": options.get("name", f"pod-{uid}"),
            "namespace": namespace,
            "resource_version": self.sequence,
            "role": PodRole.ENGINE,
            "model": options.get("model", MODEL),
            "workload": Owner(kind=kind, name=name, uid=f"uid-{name}", wanted=options.get("wanted")),
            "requests": Resources(memory_bytes=48 * GI),
            "sockets": tuple(
                SocketMount(host_path=f"/var/run/vineyard-kubernetes/{namespace}/{cache}", mount_path="/var/run")
                for cache in options.get("mounts", ())
            ),
            "deleting": options.get("deleting", False),
            "gate": options.get("gate"),
            "legacy": options.get("legacy", False),
            "run_as_user": options.get("run_as_user"),
            "restarts": options.get("restarts", 0),
        }
        if node is None:
            event: Event = PodWaitingV1(**common, why=options.get("why", "Insufficient nvidia.com/gpu"))
        elif options.get("ready"):
            event = PodReadyV1(**common, node=node, ready=True)
        else:
            event = PodScheduledV1(**common, node=node)
        return self.say(subjects.pod(namespace, uid), event)

    def engine_gone(self, uid: str, node: str | None, *, workload: WorkloadKey = WORKLOAD, model: str = MODEL) -> Cause:
        event = PodGoneV1(
            uid=uid,
            name=f"pod-{uid}",
            namespace=NAMESPACE,
            node=node,
            role=PodRole.ENGINE,
            model=model,
            workload=Owner(kind=workload[0], name=workload[1], uid=f"uid-{workload[1]}"),
            why="ended",
        )
        return self.say(subjects.pod(NAMESPACE, uid), event)

    def pod_gone(self, uid: str, node: str, name: str = "kv") -> None:
        """The pod of a cache has ended."""
        event = PodGoneV1(
            uid=uid, name=f"{name}-{uid}", namespace=NAMESPACE, node=node, role=PodRole.CACHE, why="ended"
        )
        self.say(subjects.pod(NAMESPACE, uid), event)

    def engine_process(self, uid: str, node: str, *, directories: Iterable[str] = (), model: str = MODEL) -> None:
        self._process(node, uid, ProcessRole.ENGINE, model=model, directories=tuple(directories))

    def engine_process_ended(self, uid: str, node: str) -> None:
        self._process_ended(node, uid, ProcessRole.ENGINE)

    def cache_runs(self, node: str, name: str = "kv", *, incarnation: str = "i1", answers: bool = True) -> None:
        """Runner and agent say that a cache runs, and answers."""
        self._process(node, name, ProcessRole.CACHE, incarnation=incarnation)
        if answers:
            self.socket_ready(node, name, incarnation=incarnation)
            self.health(node, name, incarnation=incarnation)

    def health(self, node: str, name: str = "kv", reason: HealthReason = HealthReason.PROVEN, **options: Any) -> None:
        """What the agent proved; options: incarnation, last_proof, memory_limit, verdict."""
        verdict = Verdict.HEALTHY if reason is HealthReason.PROVEN else Verdict.FAILED
        event = CacheHealthV1(
            cache=name,
            namespace=NAMESPACE,
            node=node,
            reason=reason.value,
            message=f"it is {reason.value}",
            **{"incarnation": "i1", "verdict": verdict, "last_proof": self.now, **options},
        )
        self.say(subjects.health(node, NAMESPACE, name), event)

    def socket_ready(self, node: str, name: str = "kv", *, incarnation: str = "i1") -> None:
        event = SocketReadyV1(
            cache=name,
            namespace=NAMESPACE,
            node=node,
            path=f"/tmp/{node}/{NAMESPACE}/{name}/vineyard.sock",
            incarnation=incarnation,
            instance_id=0,
            version="0.24.2",
            memory_usage=0,
            memory_limit=68 * GI,
        )
        self.say(subjects.socket(node, NAMESPACE, name), event)

    def socket_lost(self, node: str, name: str = "kv", reason: SocketLostReason = SocketLostReason.REFUSED) -> None:
        event = SocketLostV1(
            cache=name, namespace=NAMESPACE, node=node, path="/s", reason=reason, message="nobody listens"
        )
        self.say(subjects.socket(node, NAMESPACE, name), event)

    def cache_ended(self, node: str, name: str = "kv", *, dropped: bool = True, restarting: bool = False) -> None:
        """Runner and agent say that a cache has ended and that its directory is no longer kept."""
        self._process_ended(node, name, ProcessRole.CACHE, restarting=restarting)
        if dropped:
            event = SocketGoneV1(cache=name, namespace=NAMESPACE, node=node)
            self.say(subjects.socket(node, NAMESPACE, name), event)

    def _process(self, node: str, owner: str, role: ProcessRole, **options: Any) -> None:
        event = ProcessStartedV1(
            node=node,
            namespace=NAMESPACE,
            owner=owner,
            name=owner,
            role=role,
            pid=1,
            started=self.now,
            ready=True,
            **options,
        )
        self.say(subjects.process(node, NAMESPACE, owner, role), event)

    def _process_ended(self, node: str, owner: str, role: ProcessRole, *, restarting: bool = False) -> None:
        event = ProcessEndedV1(
            node=node, namespace=NAMESPACE, owner=owner, name=owner, role=role, exit_code=0, restarting=restarting
        )
        self.say(subjects.process(node, NAMESPACE, owner, role), event)

    def answer(self, wanted: int, bound: int, workload: WorkloadKey = WORKLOAD, *, found: bool = True) -> None:
        """What the live read of a workload says."""
        self.live[workload] = LiveWorkload(found, wanted, bound)

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # --- what placement does ------------------------------------------------------------------------------------------

    def snapshot(
        self, order: Iterable[EventSubject] | None = None, *, namespace: str = NAMESPACE, live: bool = True
    ) -> Snapshot:
        """What placement knows, after it took the states in `order`."""
        return self.snapshot_of(self.index(order), namespace=namespace, live=live)

    def index(self, order: Iterable[EventSubject] | None = None) -> Index:
        """Placement's index, after it took the states in `order`."""
        index = Index()
        for subject in self.states if order is None else order:
            event, cause = self.states[subject]
            index.take(subject, event, cause)
        for key, wanted in self.wanted.items():
            index.set_wanted(*key, wanted)
        for name, revisions in self.revisions.items():
            index.set_revisions(NAMESPACE, name, revisions)
        index.set_unreadable(self.unreadable)
        return index

    def snapshot_of(self, index: Index, *, namespace: str = NAMESPACE, live: bool = True) -> Snapshot:
        """What an index knows of a namespace, together with what placement remembers."""
        return index.snapshot(
            namespace,
            term=1,
            freshness=self.freshness(),
            memory=Memory(
                self.statuses,
                self.removals,
                self.restarts,
                self.idle_since,
                self.at_rest,
                self.arrivals,
                self.held,
            ),
            live=self.live if live else {},
            steady_s=self.steady_s,
        )

    def freshness(self) -> Freshness:
        nodes = {
            node
            for subject, (event, _) in self.states.items()
            for node in (event.name if isinstance(event, NodeChangedV1) else subject.node,)
            if node is not None
        }
        agents = frozenset(nodes - self.silent_agents)
        return Freshness(self.stale, frozenset(nodes - self.silent_runners), agents, self.silent_since)

    def plan(self, **options: Any) -> Plan:
        """Plan, and remember what placement would, but take no step."""
        result = plan(self.snapshot(**options), Policy(), self.now)
        if self.stale is None:
            self.at_rest = result.at_rest
            self.arrivals = result.arrivals
            self.idle_since = {key: self.idle_since.get(key, self.now) for key in result.idle}
        self.statuses.update({status.name: status for status in result.statuses})
        return result

    def act(self, **options: Any) -> Plan:
        """Plan, and take the steps."""
        result = self.plan(**options)
        self.take(result)
        return result

    def restart(self) -> None:
        """Be the next life of placement: it has what it asked for and what it said last, and no more."""
        self.at_rest, self.arrivals, self.removals, self.restarts = {}, {}, {}, {}
        self.idle_since, self.held = {}, {}

    def take(self, result: Plan) -> None:
        self.arrivals = after(self.arrivals, result.steps)
        for step in result.steps:
            self.take_step(step)

    def take_step(self, step: AnyStep) -> None:
        key = (NAMESPACE, step.kvcache, step.node)
        if isinstance(step, Place):
            self.wanted[key] = _placed(step, self.wanted.get(key), self.now)
        elif isinstance(step, Claim):
            self.wanted[key] = facts.claimed(step.gate, step.uid, None, self.now)
        elif isinstance(step, Release):
            self.wanted[key] = facts.released(self.wanted[key], self.now)
        elif isinstance(step, Remove):
            self.wanted[key] = _stopped(step, self.wanted.get(key), self.now)
            self.removals[step.kvcache] = (*self.removals.get(step.kvcache, ()), self.now)
        elif isinstance(step, Restart):
            self.restarts[step.kvcache] = (*self.restarts.get(step.kvcache, ()), self.now)
        elif isinstance(step, Finish | Forget):
            self.wanted.pop(key, None)

    def status(self, name: str = "kv") -> KVCacheStatusV1:
        return self.statuses[name]

    def condition(self, kind: str, name: str = "kv") -> Condition:
        return next(item for item in self.statuses[name].conditions if item.type == kind)

    def row(self, node: str, name: str = "kv") -> NodeRow:
        return next(item for item in self.statuses[name].nodes if item.node == node)


def told(result: Plan) -> list[str]:
    """A plan's steps in short, such as `place a`."""
    return [f"{type(step).__name__.lower()} {step.node}" for step in result.steps]


def _placed(step: Place, old: Wanted | None, now: datetime) -> Wanted:
    again = old is not None and old.run
    return Wanted(
        run=True,
        why=facts.Why.WANTED,
        uid=step.uid,
        pool=step.pool,
        size_bytes=step.size.size_bytes,
        memory_bytes=step.size.memory_bytes,
        cpu_millis=cpu_millis(step.size),
        gate=step.gate,
        directory=True,
        since=old.since if old is not None and again else now,
        cause=step.cause,
        started=old.started if old is not None and again else now,
    )


def _stopped(step: Remove, old: Wanted | None, now: datetime) -> Wanted:
    cache = CacheWantV1(
        term=1,
        state="stop",
        why=step.why,
        namespace=NAMESPACE,
        kvcache=step.kvcache,
        kvcache_uid=step.uid,
        size_bytes=old.size_bytes if old is not None else 0,
    )
    return replace(facts.stopped(old, cache, now), cause=step.cause)
