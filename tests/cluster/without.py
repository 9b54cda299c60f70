"""Engines where kvberth was uninstalled: they start as if it had never been there, legacy or not."""

import json
import time
from typing import Any, Final

from tests.cluster.left import Kubectl

STARTS_WITHIN_S: Final = 30.0
_POLICY_HOLDS_S: Final = 15.0
"""What an API server still does by a policy that is deleted ends after seconds."""
_POLL_S = 0.5
_LEGACY: Final = [{"name": "AIBRIX_LLM_KV_CACHE", "value": "1"}]


def not_started(kubectl: Kubectl, image: str) -> list[str]:
    """Start an engine of each sort; give what is wrong with them, nothing where each runs without a gate."""
    pods = [_engine("engine-without-kvberth", image, []), _engine("legacy-engine-without-kvberth", image, _LEGACY)]
    _until_ungated(kubectl, pods[0])
    try:
        for pod in pods:
            kubectl("create", "-f", "-", text=json.dumps(pod))
        return [wrong for pod in pods if (wrong := _wrong(kubectl, pod["metadata"]["name"]))]
    finally:
        for pod in pods:
            kubectl("delete", "pod", pod["metadata"]["name"], "--ignore-not-found", "--grace-period=1")


def _until_ungated(kubectl: Kubectl, pod: dict[str, Any]) -> None:
    deadline = time.monotonic() + _POLICY_HOLDS_S
    while time.monotonic() < deadline:
        said = json.loads(kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", text=json.dumps(pod)))
        if not said["spec"].get("initContainers"):
            return
        time.sleep(_POLL_S)


def _wrong(kubectl: Kubectl, name: str) -> str:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while True:
        pod = json.loads(kubectl("get", "pod", name, "-o", "json"))
        if gates := [one["name"] for one in pod["spec"].get("initContainers") or ()]:
            return f"{name} has {', '.join(gates)}"
        statuses = pod["status"].get("containerStatuses") or ()
        if statuses and all(one.get("started") or one["restartCount"] for one in statuses):
            return ""
        if time.monotonic() > deadline:
            return f"{name} did not start within {STARTS_WITHIN_S:g} s: {json.dumps(pod['status'])}"
        time.sleep(_POLL_S)


def _engine(name: str, image: str, env: list[dict[str, str]]) -> dict[str, Any]:
    path = f"/var/run/vineyard-kubernetes/default/{name}"
    container = {
        "name": "vllm",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
        "env": env,
        "volumeMounts": [{"name": "kv", "mountPath": "/run/kv"}],
    }
    volume = {"name": "kv", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
    metadata = {"name": name, "labels": {"model.aibrix.ai/name": name}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "volumes": [volume]},
    }
