"""Binds waiting pods to nodes: snapshot in, one decision per pod out. Pure.

Never over-commits GPUs, memory or cpu, never picks a cordoned or silent node. The order of the inputs is irrelevant:
older pods choose first; among nodes that fit, the one with most free GPUs, then the first by name.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from kvberth.bare.scheduler.fits import missing_label, unmet_affinity, untolerated
from kvberth.bare.scheduler.records import NodeRecord, PodShape
from kvberth_schemas.events import Resources
from kvberth_schemas.manifests import LabelSelector
from kvberth_schemas.quantity import format_bytes


@dataclass(frozen=True, slots=True)
class Guest:
    """A pod that is bound to a node already, as far as anti-affinity is concerned."""

    namespace: str
    labels: dict[str, str]
    anti_affinity: tuple[LabelSelector, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node, what is asked of it by pods and caches, and who is on it."""

    node: NodeRecord
    ready: bool
    requested: Resources
    guests: tuple[Guest, ...] = ()

    @property
    def free(self) -> Resources:
        """What nobody asked for; negative where a node shrank below what is on it."""
        have, asked = self.node.allocatable, self.requested
        return Resources(
            cpu_millis=have.cpu_millis - asked.cpu_millis,
            memory_bytes=have.memory_bytes - asked.memory_bytes,
            gpus=have.gpus - asked.gpus,
        )


@dataclass(frozen=True, slots=True)
class Ask:
    """A pod that waits for a node."""

    uid: str
    namespace: str
    name: str
    created: datetime
    shape: PodShape


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a pod goes, or (`node` None) why it goes nowhere, as Kubernetes would say it."""

    uid: str
    node: str | None
    why: str = ""


def bind(waiting: Iterable[Ask], candidates: Iterable[Candidate]) -> list[Binding]:
    """Return one binding per waiting pod."""
    nodes = {item.node.name: item for item in candidates}
    bindings = []
    for ask in sorted(waiting, key=lambda item: (item.created, item.namespace, item.name, item.uid)):
        obstacles = {name: _obstacle(ask, node) for name, node in nodes.items()}
        fitting = [nodes[name] for name, obstacle in obstacles.items() if obstacle is None]
        if not fitting:
            bindings.append(Binding(ask.uid, None, _sentence(obstacles)))
            continue
        chosen = min(fitting, key=lambda item: (-item.free.gpus, item.node.name))
        nodes[chosen.node.name] = _with(chosen, ask)
        bindings.append(Binding(ask.uid, chosen.node.name))
    return bindings


def add(first: Resources, second: Resources) -> Resources:
    """Return the sum of two amounts."""
    return Resources(
        cpu_millis=first.cpu_millis + second.cpu_millis,
        memory_bytes=first.memory_bytes + second.memory_bytes,
        gpus=first.gpus + second.gpus,
    )


def _with(candidate: Candidate, ask: Ask) -> Candidate:
    guest = Guest(ask.namespace, ask.shape.labels, ask.shape.anti_affinity)
    requested = add(candidate.requested, ask.shape.requests)
    return replace(candidate, requested=requested, guests=(*candidate.guests, guest))


def _obstacle(ask: Ask, candidate: Candidate) -> str | None:
    """Return why a node can't take a pod, worded so that `2 <obstacle>` reads well."""
    node, shape = candidate.node, ask.shape
    if not candidate.ready:
        return "not ready"
    if node.unschedulable:
        return "cordoned"
    missing = missing_label(node.labels, shape.node_selector) or unmet_affinity(
        node.name, node.labels, shape.node_affinity
    )
    if missing is not None:
        return f"without {missing}"
    taint = untolerated(node.taints, shape.tolerations)
    if taint is not None:
        return f"with the untolerated taint {taint.key}={taint.value or ''}:{taint.effect}"
    return _shortage(shape.requests, candidate.free) or _conflict(ask, candidate)


def _shortage(asked: Resources, free: Resources) -> str | None:
    # Who asks for nothing of a resource does not mind that a node has shrunk below what is on it.
    if asked.gpus and asked.gpus > free.gpus:
        return f"without {asked.gpus} free GPU{'s' if asked.gpus > 1 else ''}"
    if asked.memory_bytes and asked.memory_bytes > free.memory_bytes:
        return f"without {format_bytes(asked.memory_bytes)} of free memory"
    if asked.cpu_millis and asked.cpu_millis > free.cpu_millis:
        return f"without {asked.cpu_millis / 1000:g} free cpu"
    return None


def _conflict(ask: Ask, candidate: Candidate) -> str | None:
    for guest in candidate.guests:
        if guest.namespace != ask.namespace:
            continue
        if any(rule.matches(guest.labels) for rule in ask.shape.anti_affinity) or any(
            rule.matches(ask.shape.labels) for rule in guest.anti_affinity
        ):
            return "with a pod that anti-affinity keeps apart"
    return None


def _sentence(obstacles: dict[str, str | None]) -> str:
    if not obstacles:
        return "0/0 nodes: none is registered"
    counts = Counter(obstacle for obstacle in obstacles.values() if obstacle is not None)
    parts = [f"{count} {obstacle}" for obstacle, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return f"0/{len(obstacles)} nodes: {', '.join(parts)}"
