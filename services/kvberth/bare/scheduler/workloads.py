"""Which pods a workload gains and loses: what it wants and what it has in, names and uids out. Pure.

A Deployment's replacement is made as soon as its pod is being deleted, a StatefulSet's when it is gone (names are
kept). Fewer replicas remove pods without a node first, then those that are not ready, then the newest. An ordered
StatefulSet (Kubernetes' OrderedReady) makes and loses one pod at a time, in the order of its ordinals.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kvberth.bare.scheduler.records import PodRecord


@dataclass(frozen=True, slots=True)
class PodPlan:
    """What to do: names of new pods (None: a Deployment's, named by whoever makes it), uids of pods to delete."""

    create: tuple[str | None, ...] = ()
    delete: tuple[str, ...] = ()


def plan_pods(kind: str, name: str, replicas: int, pods: Sequence[PodRecord], *, ordered: bool = False) -> PodPlan:
    """Return what brings a workload's pods (those that are not gone) to `replicas`; `ordered`: of a StatefulSet."""
    if kind == "StatefulSet":
        wanted = [f"{name}-{ordinal}" for ordinal in range(replicas)]
        return _next_in_order(wanted, pods) if ordered else _all_at_once(wanted, pods)
    active = [pod for pod in pods if pod.active]
    if len(active) <= replicas:
        return PodPlan(create=(None,) * (replicas - len(active)))
    least_useful_first = sorted(active, key=_usefulness)
    return PodPlan(delete=tuple(pod.uid for pod in least_useful_first[: len(active) - replicas]))


def _usefulness(pod: PodRecord) -> tuple[bool, bool, float, str]:
    return pod.node is not None, pod.ready, -pod.created.timestamp(), pod.uid


def _all_at_once(wanted: Sequence[str], pods: Sequence[PodRecord]) -> PodPlan:
    taken = {pod.name for pod in pods}
    surplus = [pod for pod in pods if pod.active and pod.name not in set(wanted)]
    return PodPlan(
        create=tuple(pod_name for pod_name in wanted if pod_name not in taken),
        delete=tuple(pod.uid for pod in surplus),
    )


def _next_in_order(wanted: Sequence[str], pods: Sequence[PodRecord]) -> PodPlan:
    """The first step only; the next one follows when this pod is ready, or gone."""
    present = {pod.name: pod for pod in pods}
    for name in wanted:
        pod = present.get(name)
        if pod is None:
            return PodPlan(create=(name,))
        if pod.deleting or not pod.ready:
            return PodPlan()
    surplus = sorted((pod for pod in pods if pod.name not in set(wanted)), key=_ordinal)
    if not surplus or surplus[-1].deleting:
        return PodPlan()
    return PodPlan(delete=(surplus[-1].uid,))


def _ordinal(pod: PodRecord) -> tuple[int, str]:
    number = pod.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0, pod.uid
