"""What there is on a cluster, to be compared before an install and after its uninstall: objects, and files of nodes."""

import json
import time
from collections.abc import Callable
from typing import Final

from tests.cluster.names import whole

GONE_WITHIN_S: Final = 60.0
"""The garbage collector ends what deleted objects owned."""
LOOKED_WITHIN_S: Final = 60.0
_POLL_S = 1.0
_PASSING: Final = frozenset({"events", "events.events.k8s.io", "componentstatuses"})
"""What expires by itself, and what is no object."""
_COLUMNS: Final = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name"
_ROOT: Final = "/var/run/vineyard-kubernetes"
_NAME: Final = "what-kvberth-left"

Kubectl = Callable[..., str]
"""Runs kubectl with these arguments, and gives its output."""


def objects(kubectl: Kubectl) -> frozenset[str]:
    """Give every object of every kind: kind, namespace, name."""
    kinds = set(kubectl("api-resources", "--verbs=list", "-o", "name").split()) - _PASSING
    found = kubectl("get", ",".join(sorted(kinds)), "--all-namespaces", "--no-headers", "-o", _COLUMNS)
    return frozenset(" ".join(line.split()) for line in found.splitlines() if line.strip())


def more_than(kubectl: Kubectl, before: frozenset[str]) -> list[str]:
    """Give the objects that came and do not go."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while more := sorted(objects(kubectl) - before):
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    return more


def on_nodes(kubectl: Kubectl, image: str) -> dict[str, list[str]]:
    """Give what lies below the caches' directory of each node: type (``d``, ``f``, ``s``) and path."""
    kubectl("apply", "-f", "-", text=json.dumps(_looking(whole(image))))
    try:
        kubectl("rollout", "status", f"--timeout={LOOKED_WITHIN_S:g}s", f"daemonset/{_NAME}")
        pods = json.loads(kubectl("get", "pods", "-l", f"app={_NAME}", "-o", "json"))["items"]
        return {pod["spec"]["nodeName"]: kubectl("logs", pod["metadata"]["name"]).splitlines() for pod in pods}
    finally:
        kubectl("delete", "daemonset", _NAME, "--cascade=foreground")


def no_cache_was_there(lines: list[str]) -> list[str]:
    """Give what is neither a namespace's nor a cache's directory, nor in one; pure."""
    return [line for line in lines if line.partition(" ")[2].count("/") < 2 and not line.startswith("d ")]


def _looking(image: str) -> dict[str, object]:
    labels = {"app": _NAME}
    container = {
        "name": "look",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        # Ready when it has looked; a pod that ends would be started again.
        "command": ["sh", "-c", f"find {_ROOT} -mindepth 1 -printf '%y %P\\n'; touch /tmp/done; exec sleep 3600"],
        "readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/done"]}, "periodSeconds": 1},
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "caches", "mountPath": _ROOT, "readOnly": True}],
    }
    pod = {
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "caches", "hostPath": {"path": _ROOT, "type": "DirectoryOrCreate"}}],
    }
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": _NAME}, "spec": spec}
