"""What every other request changes: delete, scale, cordon, drain, delete-node, register; and the live read. Pure."""

from datetime import datetime

from kvberth.bare.scheduler.known import instead
from kvberth.bare.scheduler.records import NodeRecord, PodRecord
from kvberth.bare.scheduler.results import accepted, ignored, of_manifest, refused
from kvberth.bare.scheduler.shape import HOSTNAME, replicas_of
from kvberth.bare.scheduler.state import WORKLOAD_KINDS, State
from kvberth_schemas.requests import (
    ObjectRequest,
    Outcome,
    RegisterRequest,
    Result,
    ScaleRequest,
    WorkloadReply,
    WorkloadRequest,
    known_kind,
)
from kvberth_schemas.wants import Why

Changed = tuple[State, list[Result]]


def delete(state: State, request: ObjectRequest, now: datetime) -> Changed:
    """Delete a workload with its pods, a KVCache (the user's word), or one pod."""
    after, results = _deleted(state, request, now)
    if request.has_effect or all(result.outcome is not Outcome.REFUSED for result in results):
        return after, results
    sentence = "'apply' ignores it, so there is nothing to delete"
    return state, [ignored(request.kind, request.namespace, request.name, sentence)]


def _deleted(state: State, request: ObjectRequest, now: datetime) -> Changed:
    kind = known_kind(request.kind)
    if kind == "Pod":
        return _delete_pod(state, request)
    if kind is None:
        known = "Deployment, StatefulSet, KVCache and Pod"
        return state, [refused(request.kind, request.namespace, request.name, f"{known} can be deleted")]
    record = state.manifest((kind, request.namespace, request.name))
    if record is None:
        return state, [_unknown(state, kind, request.namespace, request.name)]
    if kind == "KVCache":
        return state.put(record.model_copy(update={"gone": now})), [of_manifest(record, "deleted")]
    pods = [_wanting(0, mark_deleting(pod, Why.USER)) for pod in state.pods_of(record.key)]
    return state.put(*pods).without(manifests=[record.key]), [of_manifest(record, f"deleted with {_count(pods)}")]


def scale(state: State, request: ScaleRequest) -> Changed:
    """Set the number of replicas of a workload."""
    kind = known_kind(request.kind)
    record = state.manifest((kind or request.kind, request.namespace, request.name))
    if kind not in WORKLOAD_KINDS or record is None:
        return state, [_unknown(state, kind or request.kind, request.namespace, request.name)]
    before = replicas_of(record)
    if before == request.replicas:
        return state, [of_manifest(record, f"has {before} replicas already")]
    document = {**record.document, "spec": {**record.document["spec"], "replicas": request.replicas}}
    scaled = record.model_copy(update={"document": document, "generation": record.generation + 1})
    return state.put(scaled), [of_manifest(record, f"scaled from {before} to {request.replicas}")]


def cordon(state: State, name: str, cordoned: bool) -> Changed:
    """Keep new pods off a node, or let them come again."""
    node = state.nodes.get(name)
    if node is None:
        return state, [_no_node(state, name)]
    word = "cordoned" if cordoned else "uncordoned"
    if node.unschedulable == cordoned:
        return state, [accepted("Node", None, name, f"is {word} already")]
    return state.put(node.model_copy(update={"cordoned": cordoned})), [accepted("Node", None, name, word)]


def drain(state: State, name: str) -> Changed:
    """Cordon a node and delete its pods; their replacements go elsewhere."""
    if name not in state.nodes:
        return state, [_no_node(state, name)]
    state, _ = cordon(state, name, cordoned=True)
    pods = [mark_deleting(pod, Why.MOVED) for pod in state.pods_on(name) if not pod.deleting]
    return state.put(*pods), [accepted("Node", None, name, f"cordoned, {_count(pods)} deleted")]


def delete_node(state: State, name: str, now: datetime) -> Changed:
    """Forget a node: by the user's word it and what ran on it are gone, whatever its runner says later."""
    pods = state.pods_on(name)
    if name not in state.nodes and not pods:
        return state, [_no_node(state, name)]
    gone = [
        mark_deleting(pod, Why.MOVED).model_copy(
            update={"gone": now, "ready": False, "gone_why": f"its node {name} was deleted"}
        )
        for pod in pods
    ]
    return state.put(*gone).without_node(name), [accepted("Node", None, name, f"deleted with {_count(gone)}")]


def register(state: State, request: RegisterRequest) -> Changed:
    """Note what a runner says about its node; the user's cordon stays."""
    before = state.nodes.get(request.node)
    node = NodeRecord(
        name=request.node,
        labels={HOSTNAME: request.node, **request.labels},
        taints=request.taints,
        allocatable=request.allocatable,
        registered_unschedulable=request.unschedulable,
        cordoned=before.cordoned if before else None,
        boot_id=request.boot_id,
        root=request.root,
        resource_version=before.resource_version if before else 0,
    )
    return state.put(node), [accepted("Node", None, request.node, "registered again" if before else "registered")]


def workload(state: State, request: WorkloadRequest) -> WorkloadReply:
    """Tell what a workload wants and has at this moment."""
    key = (request.kind, request.namespace, request.name)
    record = state.manifest(key)
    pods = state.pods_of(key)
    return WorkloadReply(
        found=record is not None,
        wanted=replicas_of(record) if record else 0,
        bound=sum(pod.active and pod.node is not None for pod in pods),
        waiting=sum(pod.active and pod.node is None for pod in pods),
        deleting=sum(pod.deleting for pod in pods),
    )


def mark_deleting(pod: PodRecord, why: Why) -> PodRecord:
    """Return the pod as being deleted; the first reason stays."""
    return pod if pod.deleting else pod.model_copy(update={"deleting": True, "why": why})


def _delete_pod(state: State, request: ObjectRequest) -> Changed:
    named = [
        pod
        for pod in state.pods.values()
        if pod.alive and pod.namespace == request.namespace and request.name in {pod.name, pod.uid}
    ]
    if not named:
        return state, [_unknown(state, "Pod", request.namespace, request.name)]
    marked = [mark_deleting(pod, Why.USER) for pod in named]
    word = "is being deleted already" if all(pod.deleting for pod in named) else "is being deleted"
    return state.put(*marked), [accepted("Pod", request.namespace, request.name, word)]


def _wanting(replicas: int, pod: PodRecord) -> PodRecord:
    return pod.model_copy(update={"owner": pod.owner.model_copy(update={"wanted": replicas})})


def _unknown(state: State, kind: str, namespace: str, name: str) -> Result:
    pods = {(pod.namespace, pod.name) for pod in state.pods.values() if pod.alive}
    manifests = {key[1:] for key in state.manifests if key[0] == kind and state.manifest(key) is not None}
    remedy = instead(namespace, name, pods if kind == "Pod" else manifests)
    return refused(kind, namespace, name, f"no {kind} {name} is known in namespace {namespace}; {remedy}")


def _no_node(state: State, name: str) -> Result:
    remedy = instead("", name, {("", node) for node in state.nodes})
    return refused("Node", None, name, f"no node {name} is registered; {remedy}")


def _count(pods: list[PodRecord]) -> str:
    return "1 pod" if len(pods) == 1 else f"{len(pods)} pods"
