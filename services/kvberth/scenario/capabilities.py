"""Which abilities scenarios may ask for, what they mean, and what is skipped where one is missing. Pure.

`needs:` is about kvberth itself and lists what later work brings; `requires:` is about the backend. A backend declares
what it has in one place; what it has is never skipped.
"""

from collections.abc import Collection
from typing import Final

PRODUCT: Final = {
    "gate": "engines wait at a gate until their cache answers",
    "health": "the health of caches is proven by bytes that go in and come back",
    "metadata": "KVCaches share an etcd per namespace",
    "transfer": "blocks are offloaded through the transfer worker",
    "rollout": "a changed template rolls running engines over by the workload's strategy",
}
"""Abilities of kvberth, by name: for `needs:`."""

BACKEND: Final = {
    "bare": "the backend runs on one machine, its processes can be looked at and signalled",
    "kubernetes": "the backend is a Kubernetes API server",
    "kubelet": "the backend has real kubelets, so pods really run",
    "budgets": "the backend honours PodDisruptionBudgets",
    "quota": "the backend honours ResourceQuotas",
    "prestop": "the backend runs preStop hooks",
}
"""Abilities of a backend, by name: for `requires:`."""


def missing(needs: Collection[str], requires: Collection[str], has: Collection[str]) -> str | None:
    """Say in a few words what is missing; None where nothing is."""
    words = [f"needs {name}" for name in needs if name not in has]
    words += [f"requires {name}" for name in requires if name not in has]
    return ", ".join(words) or None
