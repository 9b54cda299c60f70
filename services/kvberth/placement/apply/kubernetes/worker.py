"""The container of a cache's transfer worker, beside vineyardd in the same pod. Pure.

Memory is charged to whoever touches a page first, which is the worker: so the cache's memory is split between the two,
and what both may use together stays what the manifest names.
"""

from dataclasses import dataclass
from typing import Any, Final

from kvberth.kvcache import CacheSize

CONTAINER: Final = "transfer-worker"
PORT: Final = 9601
"""Of its probes and metrics."""
_DIRECTORY: Final = "/cache"
_STATE: Final = "/var/lib/kvberth"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WorkerProgram:
    """What every transfer worker of a cluster is run as."""

    image: str = ""
    nats_url: str = ""
    """Where it says what became of blocks; empty: nowhere."""


def millis(size: CacheSize) -> tuple[int, int]:
    """Thousandths of a core for vineyardd and for the worker: halves, where there is one."""
    cpu = int(size.cpu * 1000)
    return (cpu - cpu // 2, cpu // 2) if size.block_bytes else (cpu, 0)


def container(program: WorkerProgram, namespace: str, kvcache: str, size: CacheSize) -> Json:
    """Return the container. It can't make its cache unready: who connects to vineyardd alone needs no worker."""
    amounts = {"cpu": f"{millis(size)[1]}m", "memory": str(size.worker_bytes)}
    env = {
        "KVBERTH_DIRECTORY": _DIRECTORY,
        "KVBERTH_NAMESPACE": namespace,
        "KVBERTH_KVCACHE": kvcache,
        "KVBERTH_BLOCK_BYTES": str(size.block_bytes),
        "KVBERTH_STATE": _STATE,
        "KVBERTH_HTTP_PORT": str(PORT),
        "KVBERTH_LOG_FORMAT": "json",
        **({"KVBERTH_NATS_URL": program.nats_url} if program.nats_url else {}),
    }
    own = {"KVBERTH_NODE": "spec.nodeName", "KVBERTH_HTTP_HOST": "status.podIP"}
    return {
        "name": CONTAINER,
        "image": program.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "kvberth.transfer_worker"],
        "env": [
            *({"name": name, "value": value} for name, value in env.items()),
            *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in own.items()),
        ],
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 10, "failureThreshold": 6},
        "volumeMounts": [
            {"name": "cache", "mountPath": _DIRECTORY},
            {"name": "worker-state", "mountPath": _STATE},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def state_volume() -> Json:
    """Return the volume for the little that it writes besides its cache's directory."""
    return {"name": "worker-state", "emptyDir": {"sizeLimit": "16Mi"}}
