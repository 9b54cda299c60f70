"""One turn of the scheduler: what it remembers and what it sees in, what it remembers next out. Pure.

Level-triggered: every turn reads the whole of both, in this order: take over what is unknown, believe the runners,
evict from lost nodes, bring workloads to what they want, bind, forget what is long gone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from kvberth.bare.scheduler.apply import Moment
from kvberth.bare.scheduler.binding import Ask, Candidate, Guest, add, bind
from kvberth.bare.scheduler.commands import mark_deleting
from kvberth.bare.scheduler.lifecycle import Evidence, after, caches_on, unknown_nodes, unknown_pods
from kvberth.bare.scheduler.records import ManifestRecord, PodRecord
from kvberth.bare.scheduler.shape import is_ordered, replicas_of, shape_of
from kvberth.bare.scheduler.state import State
from kvberth.bare.scheduler.workloads import plan_pods
from kvberth_schemas.events import NodeChangedV1, Owner, ProcessStartedV1, Resources
from kvberth_schemas.wants import Why

REMEMBERED_FOR: Final = timedelta(hours=12)
"""How long what is gone is remembered, so that its end outlives a crash, a wiped bus and a late message."""

REMEMBERED_AT_MOST: Final = 1000
"""How many gone pods are remembered, the last ones: each costs a file, and some kilobytes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a node may be silent, in seconds."""

    not_ready_after_s: float = 3.0
    eviction_after_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the bus says: processes, seconds of silence per node, and (once, at the start) nodes of an earlier life."""

    processes: tuple[Evidence, ...] = ()
    silence: Mapping[str, float] = field(default_factory=dict)
    earlier_nodes: tuple[NodeChangedV1, ...] = ()
    living_nodes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Turn:
    """The state after a turn, what caused the change of a pod (by uid), and sentences for the log."""

    state: State
    causes: Mapping[str, Evidence]
    notes: tuple[str, ...]


def turn(state: State, seen: Seen, limits: Limits, moment: Moment) -> Turn:
    """Return what the scheduler remembers next. Called again with the same input it changes nothing."""
    notes: list[str] = []
    causes: dict[str, Evidence] = {}
    state = _take_over(state, seen, moment, notes)
    state = _believe(state, seen, moment, causes)
    state = _evict(state, seen, limits, notes)
    for workload in list(state.workloads()):
        state = _reconcile(state, workload, moment)
    state = _bury_the_unborn(state, moment)
    state = _bind(state, seen, limits)
    return Turn(_forget(state, seen, moment), causes, tuple(notes))


def requested_on(state: State, node: str, caches: Mapping[str, list[Resources]]) -> Resources:
    """Return what pods and caches ask of a node."""
    total = Resources()
    for amount in (*(pod.shape.requests for pod in state.pods_on(node)), *caches.get(node, ())):
        total = add(total, amount)
    return total


def is_ready(silence: Mapping[str, float], node: str, limits: Limits) -> bool:
    """Tell whether a node's runner gives signs of life."""
    return silence.get(node, 0.0) <= limits.not_ready_after_s


def _take_over(state: State, seen: Seen, moment: Moment, notes: list[str]) -> State:
    for node in unknown_nodes(state, seen.earlier_nodes, seen.living_nodes):
        notes.append(f"Node {node.name} is not in the state directory; it is taken over from the bus.")
        state = state.put(node)
    for pod in unknown_pods(state, seen.processes, moment.now):
        notes.append(
            f"Pod {pod.namespace}/{pod.name} ({pod.uid}) runs on {pod.node} and is not in the state directory; "
            f"it is taken over as one of {pod.owner.kind}/{pod.owner.name}."
        )
        state = state.put(pod)
    return state


def _believe(state: State, seen: Seen, moment: Moment, causes: dict[str, Evidence]) -> State:
    changed: dict[str, PodRecord] = {}
    for item in seen.processes:
        uid = item.event.owner
        pod = changed.get(uid) or state.pods.get(uid)
        following = after(pod, item.event, moment.now) if pod is not None else None
        if following is not None and following is not pod:
            changed[uid], causes[uid] = following, item
    return state.put(*changed.values()) if changed else state


def _evict(state: State, seen: Seen, limits: Limits, notes: list[str]) -> State:
    for node in sorted(state.nodes):
        silent_s = seen.silence.get(node, 0.0)
        if silent_s < limits.eviction_after_s:
            continue
        pods = [pod for pod in state.pods_on(node) if not pod.deleting]
        if pods:
            names = ", ".join(pod.name for pod in pods)
            notes.append(f"Node {node} has been silent for {silent_s:.0f} s; its pods go elsewhere: {names}.")
            state = state.put(*(mark_deleting(pod, Why.MOVED) for pod in pods))
    return state


def _reconcile(state: State, workload: ManifestRecord, moment: Moment) -> State:
    pods = state.pods_of(workload.key)
    replicas = replicas_of(workload)
    plan = plan_pods(workload.kind, workload.name, replicas, pods, ordered=is_ordered(workload))
    owned = (_owned(pod, workload, replicas) for pod in pods)
    kept = [mark_deleting(pod, Why.SCALED) if pod.uid in plan.delete else pod for pod in owned]
    made = [_new_pod(workload, name, moment) for name in plan.create]
    changed = [pod for pod, before in zip(kept, pods, strict=True) if pod is not before]
    return state.put(*changed, *(pod for pod in made if pod is not None)) if changed or made else state


def _owned(pod: PodRecord, workload: ManifestRecord, replicas: int) -> PodRecord:
    uid = pod.owner.uid if pod.owner.uid and not pod.adopted else workload.uid
    owner = Owner(kind=workload.kind, name=workload.name, uid=uid, wanted=replicas)
    return pod if pod.owner == owner else pod.model_copy(update={"owner": owner})


def _new_pod(workload: ManifestRecord, name: str | None, moment: Moment) -> PodRecord | None:
    shape = shape_of(workload.document)
    if shape is None:
        return None
    uid = moment.new_uid()
    return PodRecord(
        uid=uid,
        name=name or f"{workload.name}-{uid.replace('-', '')[-5:]}",
        namespace=workload.namespace,
        owner=Owner(kind=workload.kind, name=workload.name, uid=workload.uid, wanted=replicas_of(workload)),
        created=moment.now,
        shape=shape,
    )


def _bury_the_unborn(state: State, moment: Moment) -> State:
    """A deleted pod that never had a node has no process whose end could be reported."""
    unborn = [pod for pod in state.pods.values() if pod.alive and pod.deleting and pod.node is None]
    gone = {"gone": moment.now, "gone_why": "it was deleted before it had a node", "ended": True}
    return state.put(*(pod.model_copy(update=gone) for pod in unborn)) if unborn else state


def _bind(state: State, seen: Seen, limits: Limits) -> State:
    waiting = [pod for pod in state.pods.values() if pod.active and pod.node is None]
    if not waiting:
        return state
    asks = [Ask(pod.uid, pod.namespace, pod.name, pod.created, pod.shape) for pod in waiting]
    bindings = bind(asks, _candidates(state, seen, limits))
    changed = []
    for binding in bindings:
        pod = state.pods[binding.uid]
        if (pod.node, pod.waiting_for) != (binding.node, binding.why):
            changed.append(pod.model_copy(update={"node": binding.node, "waiting_for": binding.why}))
    return state.put(*changed) if changed else state


def _candidates(state: State, seen: Seen, limits: Limits) -> Iterator[Candidate]:
    caches = caches_on(seen.processes)
    for name, node in state.nodes.items():
        guests = tuple(Guest(pod.namespace, pod.shape.labels, pod.shape.anti_affinity) for pod in state.pods_on(name))
        yield Candidate(node, is_ready(seen.silence, name, limits), requested_on(state, name, caches), guests)


def _forget(state: State, seen: Seen, moment: Moment) -> State:
    """Drop what is long gone, except pods whose process still runs somewhere: they would look unknown."""
    running = {item.event.owner for item in seen.processes if isinstance(item.event, ProcessStartedV1)}
    limit = moment.now - REMEMBERED_FOR
    manifests = [key for key, item in state.manifests.items() if item.gone is not None and item.gone < limit]
    gone = sorted(((pod.gone, uid) for uid, pod in state.pods.items() if pod.gone and uid not in running), reverse=True)
    pods = [uid for number, (since, uid) in enumerate(gone) if since < limit or number >= REMEMBERED_AT_MOST]
    return state.without(manifests, pods) if manifests or pods else state
