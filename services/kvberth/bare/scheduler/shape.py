"""Reads what the scheduler and a runner need out of a workload's pod template. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from kvberth.bare.scheduler.records import ManifestRecord, PodShape
from kvberth.kvcache import (
    as_resources,
    engine_container,
    env_names,
    is_legacy,
    model_of,
    requested_resources,
    socket_host_paths,
)
from kvberth_schemas.events import SocketMount, Toleration
from kvberth_schemas.manifests import Deployment, LabelSelector, PodSpec, StatefulSet, Workload
from kvberth_schemas.wants import RestartPolicy

HOSTNAME = "kubernetes.io/hostname"
_DEFAULT_GRACE_S = 30


def workload_of(document: Mapping[str, Any]) -> Workload:
    """Return the workload that a document of a Deployment or StatefulSet, which the door let in, describes."""
    model = Deployment if document.get("kind") == "Deployment" else StatefulSet
    return model.model_validate(document)


def replicas_of(record: ManifestRecord) -> int:
    """Return how many pods a workload wants."""
    return workload_of(record.document).replicas


def is_ordered(record: ManifestRecord) -> bool:
    """Tell whether a workload's pods come and go one by one: a StatefulSet's do unless it says Parallel."""
    return record.kind == "StatefulSet" and record.document["spec"].get("podManagementPolicy") != "Parallel"


def shape_of(document: Mapping[str, Any]) -> PodShape | None:
    """Return the shape of the pods that a workload makes now; None when its pods are no engines."""
    template = workload_of(document).spec.template
    model = model_of(template.labels)
    if model is None:
        return None
    spec = template.spec
    security = spec.security_context
    grace_s = spec.termination_grace_period_seconds
    return PodShape(
        model=model,
        labels=template.labels,
        requests=as_resources(requested_resources(spec)),
        node_selector=dict(spec.node_selector or {}),
        node_affinity=spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None,
        anti_affinity=tuple(_anti_affinity(document)),
        tolerations=tuple(Toleration.model_validate(item.model_dump()) for item in spec.tolerations or ()),
        priority_class=spec.priority_class_name,
        sockets=tuple(SocketMount(host_path=host, mount_path=mount) for host, mount in socket_host_paths(spec)),
        run_as_user=security.run_as_user if security else None,
        supplemental_groups=(security.supplemental_groups or ()) if security else (),
        legacy=is_legacy(env_names(spec)),
        env={item.name: item.value or "" for item in engine_container(spec).env or () if item.value_from is None},
        grace_s=_DEFAULT_GRACE_S if grace_s is None else grace_s,
        restart_policy=RestartPolicy(spec.restart_policy or RestartPolicy.ALWAYS),
        pretended=tuple(_pretended(spec)),
    )


def _pretended(spec: PodSpec) -> Iterator[str]:
    """Name what a person could take for running, although nothing of it does."""
    engine = engine_container(spec)
    yield from (f"init container {container.name}" for container in spec.init_containers or ())
    yield from (f"container {container.name}" for container in spec.containers if container.name != engine.name)
    if engine.lifecycle:
        yield f"lifecycle hooks of {engine.name}"
    if engine.startup_probe or engine.readiness_probe or engine.liveness_probe:
        yield f"probes of {engine.name}"


def _anti_affinity(document: Mapping[str, Any]) -> Iterator[LabelSelector]:
    """Yield the selectors of required anti-affinity between hosts.

    The door's schema lets pod affinity through unread, so a term that can't be read is passed over, as are terms over
    other topologies and namespaces.
    """
    path = ("spec", "template", "spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    value: Any = document
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    for term in value if isinstance(value, list) else ():
        if not isinstance(term, Mapping) or term.get("topologyKey") != HOSTNAME:
            continue
        if term.keys() & {"namespaces", "namespaceSelector"}:
            continue
        try:
            yield LabelSelector.model_validate(term.get("labelSelector"))
        except ValidationError:
            continue
