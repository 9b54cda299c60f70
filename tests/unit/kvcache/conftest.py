"""KVCaches as their users write them, in both generations."""

from collections.abc import Callable
from typing import Any

import pytest

from kvberth.kvcache import KVCacheSpec, normalise

AIBRIX = "kvcache.orchestration.aibrix.ai"


def kvcache(
    name: str = "kv", spec: dict[str, Any] | None = None, namespace: str = "default", **annotations: Any
) -> dict[str, Any]:
    """Return a KVCache; annotations are given by their short names, `_` for `-`."""
    return {
        "apiVersion": "orchestration.aibrix.ai/v1alpha1",
        "kind": "KVCache",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {f"{AIBRIX}/{key.replace('_', '-')}": value for key, value in annotations.items()},
        },
        "spec": spec if spec is not None else {"cacheSpec": {"image": "vineyardd:1", "cpu": "2", "memory": "8Gi"}},
    }


@pytest.fixture(name="kvcache")
def _kvcache() -> Callable[..., dict[str, Any]]:
    return kvcache


@pytest.fixture
def spec_of() -> Callable[..., KVCacheSpec]:
    """A KVCache, normalised."""
    return lambda *args, **kwargs: normalise(kvcache(*args, **kwargs))
