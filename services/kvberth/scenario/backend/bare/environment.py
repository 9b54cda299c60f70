"""What a scenario's stack is told: its nodes as v1 objects, and its waits as settings. Pure."""

from collections.abc import Sequence
from typing import Any, Final

import yaml

from kvberth.scenario.durations import Timing
from kvberth.scenario.format.verbs import NodeSpec

_SETTINGS: Final = {
    "node_lost": "KVBERTH_NOT_READY_EVICTION_S",
    "node_not_ready": "KVBERTH_NOT_READY_AFTER_S",
    "empty_directory": "KVBERTH_EMPTY_AFTER_S",
    "engine_backoff": "KVBERTH_ENGINE_BACKOFF_S",
    "engine_drain": "KVBERTH_ENGINE_DRAIN_S",
}
"""Which setting a wait of `time:` is; `linger` is no setting but a field of KVCaches."""


def settings(timing: Timing) -> dict[str, str]:
    """Give the environment that sets a scenario's waits."""
    return {_SETTINGS[name]: f"{value:g}" for name, value in timing.named.items() if name in _SETTINGS}


def node_object(spec: NodeSpec) -> dict[str, Any]:
    """Give a node as a v1 object."""
    taints = [taint.model_dump(exclude_none=True) for taint in spec.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": dict(spec.labels)},
        "spec": {"taints": taints, "unschedulable": spec.unschedulable},
        "status": {"allocatable": {"cpu": spec.cpu, "memory": spec.memory, "nvidia.com/gpu": str(spec.gpus)}},
    }


def nodes_text(specs: Sequence[NodeSpec]) -> str:
    """Give the nodes file."""
    return str(yaml.safe_dump_all([node_object(spec) for spec in specs], sort_keys=False))
