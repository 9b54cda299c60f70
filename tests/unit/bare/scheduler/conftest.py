"""Builders for the scheduler's unit tests: a moment with countable ids, the cases' manifests, nodes."""

import itertools
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from kvberth.bare.scheduler.apply import Moment, apply
from kvberth.bare.scheduler.commands import register
from kvberth.bare.scheduler.state import State
from kvberth_schemas.events import Resources
from kvberth_schemas.requests import ApplyRequest, RegisterRequest

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GPU_NAME = "machine.cluster.vke.volcengine.com/gpu-name"
GI = 2**30

ENGINE = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  {replicas}
  selector: {{matchLabels: {{model.aibrix.ai/name: {name}}}}}
  template:
    metadata: {{labels: {{model.aibrix.ai/name: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 7
      containers:
        - name: vllm
          image: "vllm/vllm-openai:v0.8.5"
          env:
            - {{name: AIBRIX_LLM_KV_CACHE_SOCKET, value: /var/run/vineyard.sock}}
            - {{name: TOKEN, valueFrom: {{secretKeyRef: {{name: a, key: b}}}}}}
          resources: {{limits: {{nvidia.com/gpu: 1, memory: 8Gi, cpu: 500m}}}}
          volumeMounts: [{{name: kv, mountPath: /run/kv}}]
      volumes: [{{name: kv, hostPath: {{path: /var/run/vineyard-kubernetes/{namespace}/{name}-kv}}}}]
"""


def engine(name="llama", kind="Deployment", namespace="default", replicas=1):
    """One engine workload that asks for one GPU, 8Gi and half a core."""
    line = "" if replicas is None else f"replicas: {replicas}"
    return ENGINE.format(name=name, kind=kind, namespace=namespace, replicas=line)


def kvcache(name="llama-kv", memory="8Gi", namespace="default"):
    """One small KVCache."""
    return f"""
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: KVCache
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{replicas: 1, cacheSpec: {{image: "aibrix/vineyardd:20241120", cpu: "1", memory: {memory}}}}}
"""


def node(name, gpus=1, memory=192 * GI, cpu_millis=60_000, root="/tmp/r", **more):
    """A registration of an L20 node."""
    return RegisterRequest(
        node=name,
        labels={GPU_NAME: "NVIDIA-L20"},
        allocatable=Resources(cpu_millis=cpu_millis, memory_bytes=memory, gpus=gpus),
        boot_id="boot",
        root=root,
        **more,
    )


@pytest.fixture
def moment():
    """A fixed time, and uids that count."""
    numbers = itertools.count(1)
    return Moment(NOW, lambda: f"00000000-0000-0000-0000-{next(numbers):012d}")


@pytest.fixture
def build(moment):
    """State from registrations and texts of manifests."""

    def make(*parts):
        state = State()
        for part in parts:
            if isinstance(part, RegisterRequest):
                state, _ = register(state, part)
            else:
                state, results = apply(state, ApplyRequest(text=part), moment)
                assert all(item.outcome == "accepted" for item in results), results
        return state

    return make


@pytest.fixture
def make():
    """The builders above, for tests that can't import a conftest."""
    return SimpleNamespace(NOW=NOW, GI=GI, GPU_NAME=GPU_NAME, engine=engine, kvcache=kvcache, node=node)
