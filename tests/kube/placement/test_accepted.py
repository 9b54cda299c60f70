"""What clients send that check nothing (Helm, GitOps) arrives whole, and every field that nobody reads is told."""

from pathlib import Path
from typing import Any

import pytest

from kube.placement.played import Json
from kube.placement.stage import WORKLOAD, Stage, placement
from kube.rig import merge
from kvberth.kube.client import Call
from kvberth.kube.resources import KVCACHES

OLDER: Json = {
    "replicas": 1,
    "nodeSelector": {"gpu": "l20"},
    "cacheSpec": {
        "image": "vineyardd:1",
        "cpu": "100m",
        "Memory": "2Gi",
        "memory": "1Gi",
        "env": [{"name": "A", "vlaue": "1"}],
    },
    "service": {"port": 9600, "targetport": 9600},
    "metadata": {"etcd": {"image": "etcd:v3", "replica": 3}},
}
NEWER: Json = {
    "mode": "distributed",
    "tolerations": [{"key": "team"}],
    "cache": {"image": "vineyardd:1", "replicas": 1, "resources": {"limits": {"memory": "1Gi"}, "request": {}}},
    "service": {"ports": [{"name": "service", "port": 9600, "targetport": 9600}]},
    "metadata": {"redis": {"runtime": {"image": "redis:7", "replica": 1}}},
    "pools": [{"name": "a", "gputype": "L20"}],
}


async def apply_unchecked(world: Stage, spec: Json, **top: Any) -> None:
    """Create a KVCache as Helm does."""
    metadata = {"name": "kv", "annotations": {WORKLOAD: "llama"}}
    body = {"apiVersion": KVCACHES.api_version, "kind": "KVCache", "metadata": metadata, "spec": spec, **top}
    query = (("fieldValidation", "Ignore"),)
    path = KVCACHES.path(world.namespace)
    await world.client.request(Call(what="POST KVCache", path=path, method="POST", body=body, query=query))


@pytest.mark.parametrize(
    ("spec", "unread"),
    [
        (
            OLDER,
            [
                "spec.nodeSelector",
                "spec.cacheSpec.Memory",
                "spec.cacheSpec.env[0].vlaue",
                "spec.service.targetport",
                "spec.metadata.etcd.replica",
            ],
        ),
        (
            NEWER,
            [
                "spec.tolerations",
                "spec.cache.resources.request",
                "spec.service.ports[0].targetport",
                "spec.metadata.redis.runtime.replica",
                "spec.pools[0].gputype",
            ],
        ),
    ],
)
async def test_every_field_that_nobody_reads_is_named_and_nothing_is_placed_until_it_is_gone(
    world: Stage, tmp_path: Path, spec: Json, unread: list[str]
) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement"):
        await apply_unchecked(world, spec, replicas=3)
        await world.engines()
        message = await world.says("Accepted", "Invalid")
        assert [path for path in [*unread, "replicas"] if f"{path}:" not in message] == [], message
        assert (await world.condition("Ready"))[0] == "False"
        assert await world.cache_pods() == []
        corrected = {**dict.fromkeys(spec), "cacheSpec": {**OLDER["cacheSpec"], "Memory": None, "env": None}}
        await merge(world.client, KVCACHES, world.namespace, "kv", {"spec": corrected, "replicas": None})
        await world.serving(a)


async def test_fields_of_both_generations_are_understood_as_they_are(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    size = {"image": "vineyardd:1", "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}}
    async with placement(world, tmp_path / "placement"):
        await apply_unchecked(world, {"cache": {**size, "replicas": 1}, "service": {"ports": [{"port": 9700}]}})
        await world.engines()
        await world.serving(a)
        await merge(world.client, KVCACHES, world.namespace, "kv", {"spec": {"cacheSpec": {"memory": "2Gi"}}})
        message = await world.says("Accepted", "Invalid")
        assert "spec.cacheSpec" in message
        assert "spec.cache" in message
        assert await world.cache_pods() == [a], "what runs is left as it is"
