"""Makes a scenario's manifests such as a cluster can run them in a scenario's time; everything else stays. Pure.

Each change has a reason: probes that wait for a real model to load, images that would be pulled anew over our own of
that name, tolerations and environment that carry a wait of the scenario, Secrets that a manifest names and nobody
brings, volumes that would bind a pod to its first node.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kvberth.scenario.durations import Timing
from kvberth.scenario.manifests import merged

Json = dict[str, Any]

MARK: Final = "kvberth.dev/scenario"
"""Label of what a scenario applied: what carries it may be changed and removed."""
_WORKLOADS: Final = frozenset({"Deployment", "StatefulSet"})
_DRAIN: Final = "KVBERTH_ENGINE_DRAIN_S"
_LOST_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def adapted(item: Mapping[str, Any], timing: Timing) -> Json:
    """Give the object that is applied in place of one."""
    found: Json = merged(item, {"metadata": {"labels": {MARK: "yes"}}})
    if found.get("kind") not in _WORKLOADS:
        return found
    spec = ((found.get("spec") or {}).get("template") or {}).get("spec")
    if not isinstance(spec, dict):
        return found
    claims = found["spec"].pop("volumeClaimTemplates", None) or ()
    return dict(merged(found, {"spec": {"template": {"spec": _pod_spec(spec, claims, timing)}}}))


def secrets_named(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give (Secret, key) that a workload's containers can't start without."""
    spec = ((item.get("spec") or {}).get("template") or {}).get("spec") or {}
    for container in _containers(spec):
        for entry in container.get("env") or ():
            chosen = (entry.get("valueFrom") or {}).get("secretKeyRef") if isinstance(entry, Mapping) else None
            if chosen and not chosen.get("optional"):
                yield chosen["name"], chosen["key"]


def secret(namespace: str, name: str, keys: Iterable[str]) -> Json:
    """Give a Secret that holds nothing of worth."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": {MARK: "yes"}},
        "stringData": dict.fromkeys(keys, "none"),
    }


def _pod_spec(spec: Json, claims: Iterable[Json], timing: Timing) -> Json:
    changed = {**spec, "containers": [_container(one, timing) for one in spec.get("containers") or ()]}
    if "initContainers" in spec:
        changed["initContainers"] = [_present(one) for one in spec["initContainers"] or ()]
    if names := [claim["metadata"]["name"] for claim in claims]:
        changed["volumes"] = [*(spec.get("volumes") or ()), *({"name": name, "emptyDir": {}} for name in names)]
    if "node_lost" in timing.written:
        lost = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int(timing.named["node_lost"])}
        changed["tolerations"] = [*(spec.get("tolerations") or ()), *({"key": key, **lost} for key in _LOST_TAINTS)]
    return changed


def _container(container: Any, timing: Timing) -> Any:  # noqa: ANN401 (what a user wrote)
    if not isinstance(container, Mapping):
        return container
    changed = dict(_present(container))
    for probe in ("readinessProbe", "startupProbe"):
        if isinstance(container.get(probe), Mapping):
            changed[probe] = {**container[probe], "initialDelaySeconds": 0, "periodSeconds": 1}
    if "engine_drain" in timing.written:
        drain = {"name": _DRAIN, "value": f"{timing.named['engine_drain']:g}"}
        changed["env"] = [*(container.get("env") or ()), drain]
    return changed


def _present(container: Any) -> Any:  # noqa: ANN401 (what a user wrote)
    """Take the image that the node has under that name: a pull would bring another one, or none."""
    always = isinstance(container, Mapping) and container.get("imagePullPolicy") == "Always"
    return {**container, "imagePullPolicy": "IfNotPresent"} if always else container


def _containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in ("initContainers", "containers"):
        for container in spec.get(key) or ():
            if isinstance(container, Mapping):
                yield container
