"""What is said on the bus about what the scheduler remembers. Pure."""

from kvberth.bare.scheduler.records import ManifestRecord, NodeRecord, PodRecord
from kvberth.kvcache import normalise
from kvberth_schemas.events import (
    KVCacheGoneV1,
    KVCacheSpecV1,
    NodeChangedV1,
    NodeGoneV1,
    PodGoneV1,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodState,
    PodWaitingV1,
    Resources,
)
from kvberth_schemas.model import Event
from kvberth_schemas.wants import EngineWantV1

_NOT_FOUND = "the scheduler does not know it"


def pod_event(pod: PodRecord) -> Event:
    """Return the event that says how a pod is now."""
    if not pod.alive:
        return _pod_gone(pod)
    fields = {
        "uid": pod.uid,
        "name": pod.name,
        "namespace": pod.namespace,
        "resource_version": pod.resource_version,
        "role": PodRole.ENGINE,
        "model": pod.shape.model or None,
        "workload": pod.owner,
        "requests": pod.shape.requests,
        "tolerations": pod.shape.tolerations,
        "priority_class": pod.shape.priority_class,
        "sockets": pod.shape.sockets,
        "run_as_user": pod.shape.run_as_user,
        "supplemental_groups": pod.shape.supplemental_groups,
        "legacy": pod.shape.legacy,
        "pretended": pod.shape.pretended,
        "at_gate": pod.at_gate,
        "gate": pod.gate,
        "ready": pod.ready,
        "restarts": pod.restarts,
        "last_end": pod.last_end,
        "log": pod.log,
        "deleting": pod.deleting,
    }
    if pod.node is None:
        return PodWaitingV1.model_validate({**fields, "why": pod.waiting_for or "it was not looked at yet"})
    model = PodReadyV1 if pod.was_ready else PodScheduledV1
    return model.model_validate({**fields, "node": pod.node})


def node_event(node: NodeRecord, requested: Resources, silent_s: float | None, version: int) -> NodeChangedV1:
    """Return the event that says how a node is now; `silent_s`: seconds of silence if it is not ready, else None."""
    return NodeChangedV1(
        name=node.name,
        resource_version=version,
        ready=silent_s is None,
        unschedulable=node.unschedulable,
        taints=node.taints,
        labels=node.labels,
        allocatable=node.allocatable,
        requested=requested,
        why="" if silent_s is None else f"its runner has given no sign of life for more than {silent_s:g} s",
    )


def spec_event(record: ManifestRecord) -> Event:
    """Return the event that says what a KVCache asks for, or that the user deleted it."""
    if record.gone is not None:
        return KVCacheGoneV1(
            uid=record.uid,
            name=record.name,
            namespace=record.namespace,
            by_user=True,
            why="deleted by request",
            resource_version=record.resource_version,
        )
    return KVCacheSpecV1(
        uid=record.uid,
        name=record.name,
        namespace=record.namespace,
        generation=record.generation,
        resource_version=record.resource_version,
        created=record.created,
        paused=normalise(record.document).paused,
        manifest=record.document,
    )


def engine_want(pod: PodRecord, term: int) -> EngineWantV1 | None:
    """Return what the runner of a pod's node is asked for; None when nothing is asked."""
    stopping = pod.deleting or not pod.alive
    if pod.node is None or pod.ended or (pod.adopted and not stopping):
        return None
    return EngineWantV1(
        term=term,
        state="stop" if stopping else "run",
        why=pod.why,
        namespace=pod.namespace,
        pod_uid=pod.uid,
        pod_name=pod.name,
        model=pod.shape.model,
        workload=f"{pod.owner.kind}/{pod.owner.name}",
        env=pod.shape.env,
        sockets=pod.shape.sockets,
        grace_s=pod.shape.grace_s,
        restart_policy=pod.shape.restart_policy,
        gate=bool(pod.shape.sockets),  # as the policy on Kubernetes; a pod that mounts no cache's directory has none
        cpu_millis=pod.shape.requests.cpu_millis,
        memory_bytes=pod.shape.requests.memory_bytes,
        gpus=pod.shape.requests.gpus,
    )


def gone_event(found: Event) -> Event | None:
    """Return the end of something that the bus holds and the scheduler does not know; None for an end.

    Never the user's word: only that it was not found.
    """
    if isinstance(found, PodState):
        return PodGoneV1.after(found, _NOT_FOUND)
    if isinstance(found, NodeChangedV1):
        return NodeGoneV1(name=found.name, why=_NOT_FOUND)
    if isinstance(found, KVCacheSpecV1):
        return KVCacheGoneV1(
            uid=found.uid,
            name=found.name,
            namespace=found.namespace,
            by_user=False,
            why=_NOT_FOUND,
            resource_version=found.resource_version,
        )
    return None


def _pod_gone(pod: PodRecord) -> PodGoneV1:
    return PodGoneV1(
        uid=pod.uid,
        name=pod.name,
        namespace=pod.namespace,
        node=pod.node,
        role=PodRole.ENGINE,
        model=pod.shape.model or None,
        workload=pod.owner,
        why=pod.gone_why,
        resource_version=pod.resource_version,
    )
