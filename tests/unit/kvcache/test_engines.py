"""What a pod says about an engine."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kvberth.kvcache import (
    engine_container,
    env_names,
    is_engine,
    is_legacy,
    mistyped_model_label,
    model_of,
    requested_resources,
    socket_host_paths,
)
from kvberth_schemas.manifests import PodSpec, Workload, load_documents

MANIFESTS = Path(__file__).parents[2] / "manifests"
PREFIX = "/var/run/vineyard-kubernetes"


def pod(**fields: Any) -> PodSpec:
    return PodSpec.model_validate({"containers": [{"name": "a"}], **fields})


def container(name: str, requests: Any = None, limits: Any = None, **fields: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests, "limits": limits}, **fields}


def test_an_engine_is_a_pod_with_the_model_label() -> None:
    assert model_of({"model.aibrix.ai/name": "llama"}) == "llama"
    assert is_engine({"model.aibrix.ai/name": "llama"})
    assert not is_engine({"model.aibrix.ai/port": "8000"})
    assert not is_engine({"model.aibrix.ai/name": ""})


@pytest.mark.parametrize(
    ("env", "legacy"),
    [
        ({"AIBRIX_LLM_KV_CACHE": "0"}, True),
        ({"AIBRIX_LLM_KV_CACHE_SOCKET": ""}, True),
        ({"AIBRIX_KV_CACHE_OL_DEVICE": "cpu", "VLLM_USE_VINEYARD_CACHE": "1"}, False),
        ({}, False),
    ],
)
def test_an_engine_is_legacy_by_a_variable_whatever_its_value(env: dict[str, str], legacy: bool) -> None:
    assert is_legacy(env) is legacy
    assert is_legacy(list(env)) is legacy


def test_cache_directories_are_told_with_their_mount_paths_once() -> None:
    mount = {"name": "kv", "mountPath": "/var/run"}
    spec = pod(
        containers=[
            {"name": "a", "volumeMounts": [{"name": "models", "mountPath": "/models"}, mount]},
            {"name": "b", "volumeMounts": [mount, {"name": "kv", "mountPath": "/run/kv", "subPath": "x"}]},
        ],
        initContainers=[{"name": "i", "volumeMounts": [{"name": "kv", "mountPath": "/init"}]}],
        volumes=[
            {"name": "models", "hostPath": {"path": "/root/models"}},
            {"name": "kv", "hostPath": {"path": f"{PREFIX}/default/kv"}},
            {"name": "unused", "hostPath": {"path": f"{PREFIX}/default/other"}},
            {"name": "shm", "emptyDir": {}},
        ],
    )
    assert socket_host_paths(spec) == ((f"{PREFIX}/default/kv", "/var/run"), (f"{PREFIX}/default/kv/x", "/run/kv"))
    assert engine_container(spec).name == "a"


def test_the_engine_container_is_the_one_that_mounts_the_cache_else_the_first() -> None:
    volumes = [{"name": "kv", "hostPath": {"path": f"{PREFIX}/default/kv"}}]
    containers = [{"name": "proxy"}, {"name": "vllm", "volumeMounts": [{"name": "kv", "mountPath": "/kv"}]}]
    assert engine_container(pod(containers=containers, volumes=volumes)).name == "vllm"
    assert engine_container(pod(containers=containers)).name == "proxy"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"containers": [container("a", {"cpu": "1"}), container("b", {"cpu": "500m", "memory": "1Gi"})]},
            {"cpu": "1.5", "memory": 2**30},
        ),
        (
            {"containers": [container("a", {"cpu": "1"}, {"cpu": "4", "nvidia.com/gpu": "2"})]},
            {"cpu": 1, "nvidia.com/gpu": 2},
        ),
        (
            {
                "containers": [container("a", {"cpu": "1", "memory": "1Gi"})],
                "initContainers": [container("i", {"cpu": "3"}), container("j", {"cpu": "2"})],
            },
            {"cpu": 3, "memory": 2**30},
        ),
        (
            {
                "containers": [container("a", {"cpu": "1"})],
                "initContainers": [
                    container("before", {"cpu": "2"}),
                    container("side", {"cpu": "1"}, restartPolicy="Always"),
                    container("after", {"cpu": "2"}),
                ],
            },
            {"cpu": 3},
        ),
        (
            {
                "containers": [container("a", {"cpu": "2"})],
                "initContainers": [container("side", {"cpu": "1"}, restartPolicy="Always")],
            },
            {"cpu": 3},
        ),
        ({}, {}),
    ],
    ids=["sum of containers", "limits stand in", "largest init", "init beside a sidecar", "sidecars run on", "nothing"],
)
def test_requests_are_counted_as_the_scheduler_counts_them(fields: Any, expected: dict[str, Any]) -> None:
    assert requested_resources(pod(**fields)) == {name: Decimal(value) for name, value in expected.items()}


@pytest.mark.parametrize(
    ("number", "name", "model", "directory", "legacy", "gpus"),
    [
        ("M01", "llama-3-8b-instruct", "llama-3-8b-instruct", "default/aibrix-kvcache-llama-3-8b-instruct", True, 1),
        ("M05", "deepseek-coder-7b-t4", "deepseek-coder-7b-instruct", "prdsafe/deepseek-coder-7b-kvcache-t4", True, 2),
        ("M06", "qwen", "qwen2-5-7b", "serving/qwen-kv", False, 1),
        ("M11", "llama-3-8b-instruct", None, None, False, 1),
        (
            "M17",
            "deepseek-coder-33b-instruct",
            "deepseek-coder-33b-instruct",
            "default/deepseek-coder-33b-kvcache",
            True,
            1,
        ),
    ],
)
def test_the_engines_of_the_cases_are_understood(
    number: str, name: str, model: str | None, directory: str | None, legacy: bool, gpus: int
) -> None:
    path = next(MANIFESTS.glob(f"{number}-*"))
    kinds = {"Deployment", "StatefulSet"}
    raw = next(item.raw for item in load_documents(path.read_text(), "x") if item.kind in kinds and item.name == name)
    template = Workload.model_validate(raw).spec.template
    assert model_of(template.labels) == model
    assert [host for host, _ in socket_host_paths(template.spec)] == ([f"{PREFIX}/{directory}"] if directory else [])
    assert is_legacy(env_names(template.spec)) is legacy
    assert requested_resources(template.spec)["nvidia.com/gpu"] == gpus


def test_a_label_that_was_meant_to_be_the_model_is_found() -> None:
    assert mistyped_model_label({"app": "vllm", "model.aibrix.ai/nmae": "llama"}) == "model.aibrix.ai/nmae"
    assert mistyped_model_label({"model.aibrix.ai/port": "8000", "model.aibrix.ai/name": "llama"}) is None
    assert mistyped_model_label({"model.aibrix.io/name": "llama"}) == "model.aibrix.io/name"
    assert mistyped_model_label({"model.aibrix.ai/Name": "llama"}) == "model.aibrix.ai/Name"
    assert mistyped_model_label({"app": "vllm", "app.kubernetes.io/name": "v", "model.aibrix.ai/port": "1"}) is None
