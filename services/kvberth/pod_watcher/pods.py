"""What a live pod says: trimmed on entry to what the bus needs, and turned into its event. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvberth.kube import Meta, OwnerReference
from kvberth.kvcache import (
    HASH,
    KVCACHE_LABEL,
    as_resources,
    env_names,
    is_legacy,
    model_of,
    requested_resources,
    socket_host_paths,
)
from kvberth.pod_watcher.gate import gate_result, waits_at_gate
from kvberth.pod_watcher.objects import Condition, Container, ContainerStatus, PodObject, PodSpec, PodStatus
from kvberth_schemas.events import (
    Owner,
    PodGoneV1,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodState,
    PodWaitingV1,
    Resources,
    SocketMount,
    Toleration,
)
from kvberth_schemas.quantity import parse_quantity

_NOT_LOOKED_AT = "the scheduler has not looked at it yet"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is said about a pod that matters to kvberth."""

    state: PodState
    controller: OwnerReference | None
    why_waiting: str


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as kept: every one counts on its node, few are spoken of."""

    node: str | None
    requests: Resources
    finished: str
    """Why its processes have ended for good, in a sentence; empty while they have not."""
    subject: Subject | None
    """None: it is neither an engine nor a cache."""


def trim_pod(item: PodObject) -> Pod:
    """Return what is kept of a pod. Raises ValueError where a quantity can't be read."""
    role = _role(item)
    return Pod(
        node=item.spec.node_name or None,
        requests=_requests(item.spec),
        finished=_finished(item.status),
        subject=None if role is None else _subject(item, role),
    )


def pod_event(pod: Pod, workload: Owner | None, *, was_ready: bool) -> PodScheduledV1 | PodReadyV1 | PodWaitingV1:
    """Return how a pod that is spoken of is now; `was_ready`: it was ready at some time, not necessarily now."""
    subject = _spoken_of(pod)
    fields: dict[str, Any] = {**dict(subject.state), "workload": workload}
    if pod.node is None:
        return PodWaitingV1.model_validate({**fields, "why": subject.why_waiting})
    model = PodReadyV1 if was_ready or subject.state.ready else PodScheduledV1
    return model.model_validate({**fields, "node": pod.node})


def pod_gone(pod: Pod, workload: Owner | None, why: str) -> PodGoneV1:
    """Return that a pod that was spoken of is gone."""
    state = _spoken_of(pod).state
    return PodGoneV1(
        uid=state.uid,
        name=state.name,
        namespace=state.namespace,
        node=pod.node,
        role=state.role,
        model=state.model,
        workload=workload,
        why=why,
        resource_version=state.resource_version,
    )


def _spoken_of(pod: Pod) -> Subject:
    if pod.subject is None:
        raise ValueError("nothing is said about a pod that is neither an engine nor a cache")
    return pod.subject


def _role(item: PodObject) -> PodRole | None:
    if KVCACHE_LABEL in item.metadata.labels:
        return PodRole.CACHE
    if model_of(item.metadata.labels) is not None or socket_host_paths(item.spec):
        return PodRole.ENGINE
    return None


def _subject(item: PodObject, role: PodRole) -> Subject:
    return Subject(_state(item, role), _controller(item.metadata), _why_waiting(item.status))


def _state(item: PodObject, role: PodRole) -> PodState:
    meta, spec, status = item.metadata, item.spec, item.status
    sockets = socket_host_paths(spec)
    return PodState(
        uid=meta.uid,
        name=meta.name,
        namespace=meta.namespace,
        resource_version=int(meta.resource_version),
        role=role,
        model=model_of(meta.labels),
        kvcache=meta.labels.get(KVCACHE_LABEL) or None,
        requests=_requests(spec),
        tolerations=tuple(Toleration.model_validate(dict(one)) for one in spec.tolerations or ()),
        priority_class=spec.priority_class_name,
        priority=spec.priority,
        sockets=tuple(SocketMount(host_path=host, mount_path=mount) for host, mount in sockets),
        run_as_user=_run_as_user(spec, {mount for _, mount in sockets}),
        supplemental_groups=_groups(spec),
        legacy=role is PodRole.ENGINE and is_legacy(env_names(spec)),
        ready=_condition(status.conditions, "Ready").status == "True",
        restarts=sum(one.restart_count for one in status.container_statuses or ()),
        deleting=meta.deleting,
        revision=meta.annotations.get(HASH) if role is PodRole.CACHE else None,
        gate=gate_result(_endings(status.init_container_statuses or ())),
        at_gate=waits_at_gate(_running(status.init_container_statuses or ())),
    )


def _controller(meta: Meta) -> OwnerReference | None:
    return next((owner for owner in meta.owner_references if owner.controller), None)


def _why_waiting(status: PodStatus) -> str:
    scheduled = _condition(status.conditions, "PodScheduled")
    if scheduled.status != "False":
        return _NOT_LOOKED_AT
    return scheduled.message or scheduled.reason or _NOT_LOOKED_AT


def _finished(status: PodStatus) -> str:
    if status.phase not in {"Succeeded", "Failed"}:
        return ""
    told = ": ".join(part for part in (status.reason, status.message) if part)
    return f"its phase is {status.phase}" + (f" ({told})" if told else "")


def _run_as_user(spec: PodSpec, socket_mounts: set[str]) -> int | None:
    """The uid of the container that uses the cache: it wins over the pod's."""
    own = _user_of(spec.containers, socket_mounts)
    if own is not None:
        return own
    return spec.security_context.run_as_user if spec.security_context else None


def _user_of(containers: tuple[Container, ...], socket_mounts: set[str]) -> int | None:
    using = (one for one in containers if any(mount.mount_path in socket_mounts for mount in one.volume_mounts or ()))
    engine = next(using, containers[0])
    return engine.security_context.run_as_user if engine.security_context else None


def _groups(spec: PodSpec) -> tuple[int, ...]:
    """The kubelet adds fsGroup to the supplementary groups."""
    security = spec.security_context
    if security is None:
        return ()
    groups = (*(security.supplemental_groups or ()), *(() if security.fs_group is None else (security.fs_group,)))
    return tuple(dict.fromkeys(groups))


def _requests(spec: PodSpec) -> Resources:
    """What the scheduler counts: the containers' sum, the pod's own word where it has one, and the overhead."""
    asked = requested_resources(spec)
    own = spec.resources
    asked |= _parsed({**((own and own.limits) or {}), **((own and own.requests) or {})})
    for name, amount in _parsed(spec.overhead or {}).items():
        asked[name] = asked.get(name, amount * 0) + amount
    return as_resources(asked)


def _parsed(texts: Mapping[str, str]) -> dict[str, Any]:
    return {name: parse_quantity(text) for name, text in texts.items()}


def _condition(conditions: tuple[Condition, ...] | None, kind: str) -> Condition:
    found = (one for one in conditions or () if one.type == kind)
    return next(found, Condition(type=kind, status="Unknown"))


def _endings(statuses: tuple[ContainerStatus, ...]) -> Iterator[str]:
    for one in statuses:
        if one.state is not None and one.state.terminated is not None:
            yield one.state.terminated.message


def _running(statuses: tuple[ContainerStatus, ...]) -> Iterator[str]:
    return (one.name for one in statuses if one.state is not None and one.state.running is not None)
