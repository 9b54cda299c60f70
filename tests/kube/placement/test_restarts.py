"""Caches whose life ends though they stay wanted: made from an older manifest, or found to hang."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from kube.placement.played import OURS, Json
from kube.placement.stage import Stage, placement
from kube.rig import create, delete, items, merge
from kvberth.kube import Applier, Leadership
from kvberth.kube.election import boot_time_s
from kvberth.kube.resources import KVCACHES, POD_DISRUPTION_BUDGETS, PODS
from kvberth.kvcache import normalise
from kvberth.placement.apply.kubernetes.leading import USER_AGENT
from kvberth.placement.apply.kubernetes.leaving import Leaving
from kvberth.placement.apply.kubernetes.restarting import restart
from kvberth.placement.apply.kubernetes.writing import Cluster
from kvberth.placement.reasons import Reason
from kvberth.placement.restarts import SETTLE
from kvberth.placement.service import now
from kvberth.placement.steps import Restart
from kvberth_schemas import subjects
from kvberth_schemas.events import CacheHealthV1, HealthReason, Verdict
from kvberth_schemas.wants import Why
from support.placement_world import GI, manifest
from support.waiting import until


async def caches(world: Stage) -> dict[str, Json]:
    """The pods of the caches, by node."""
    found = await items(world.client, PODS, world.namespace, OURS)
    return {pod["spec"]["nodeName"]: pod for pod in found if "nodeName" in pod["spec"]}


def uid(pod: Json) -> str:
    return str(pod["metadata"]["uid"])


def image(pod: Json) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def memory(pod: Json) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["limits"]["memory"])


async def all_run(world: Stage, wanted: str, count: int) -> bool:
    found = await caches(world)
    return [image(pod) for pod in found.values()] == [wanted] * count


def deleted_pods(world: Stage) -> list[Json]:
    """The deletions of pods that placement asked for in this namespace."""
    found = world.plane.writes(USER_AGENT)
    mine = [one for one in found if one["objectRef"].get("namespace") == world.namespace]
    return [one for one in mine if (one["verb"], one["objectRef"]["resource"]) == ("delete", "pods")]


async def change(world: Stage, **size: Any) -> None:
    await merge(world.client, KVCACHES, world.namespace, "kv", {"spec": {"cacheSpec": size}})


async def test_another_image_and_size_reach_the_caches_one_after_the_other(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(c)
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines(replicas=2, **_spread())
        await world.serving(a, b)
        before = await caches(world)
        await change(world, image="vineyardd:2", memory="2Gi")
        await until(lambda: all_run(world, "vineyardd:2", 2), within_s=40)
        await world.serving(a, b)
        after = await caches(world)
        assert {uid(pod) for pod in before.values()}.isdisjoint({uid(pod) for pod in after.values()})
        assert {memory(pod) for pod in after.values()} == {2 * GI}
        first, second = (datetime.fromisoformat(one["requestReceivedTimestamp"]) for one in deleted_pods(world))
        assert second - first >= SETTLE
        assert (await world.told()).count("CacheRestarted") in {1, 2}  # alike Events are counted, not repeated


async def test_what_has_no_room_stays_as_it_is_and_says_why(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines()
        await world.serving(a)
        before = await caches(world)
        await change(world, memory="501Gi")

        async def told() -> bool:
            _, _, message = await world.condition("Placed")
            return f"cannot fit: needs 501Gi, node {a} has 500Gi in all" in message

        await until(told)
        assert (await world.condition("Ready"))[0] == "True"
        assert uid((await caches(world))[a]) == uid(before[a])
        await change(world, memory="3Gi")

        async def larger() -> bool:
            found = (await caches(world)).get(a)
            return found is not None and memory(found) == 3 * GI

        await until(larger)
        await world.serving(a)


async def test_an_image_that_cannot_run_is_replaced_at_once_when_it_is_corrected(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(c)
    world.mirror.answers = lambda pod: image(pod) != "vineyardd:typo"
    async with placement(world, tmp_path / "placement"):
        await world.kvcache(cacheSpec={"image": "vineyardd:typo", "cpu": "100m", "memory": "1Gi"})
        await world.engines(replicas=2, **_spread())
        await until(lambda: all_run(world, "vineyardd:typo", 2))
        await change(world, image="vineyardd:1")
        await world.serving(a, b)
        assert await all_run(world, "vineyardd:1", 2)


async def test_a_budget_keeps_a_cache_of_an_older_manifest(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines()
        await world.serving(a)
        (pod,) = (await caches(world)).values()
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await merge(world.client, PODS, world.namespace, pod["metadata"]["name"], {"status": status}, "status")
        await _budget(world)
        await change(world, image="vineyardd:2")
        message = await world.says("Placed", "BudgetRefuses")
        assert "PodDisruptionBudget keep-kv" in message
        assert uid((await caches(world))[a]) == uid(pod)
        await delete(world.client, POD_DISRUPTION_BUDGETS, world.namespace, "keep-kv")
        await until(lambda: all_run(world, "vineyardd:2", 1))


async def test_no_budget_keeps_a_cache_that_does_not_answer(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    world.mirror.answers = lambda pod: image(pod) != "vineyardd:typo"
    async with placement(world, tmp_path / "placement"):
        await world.kvcache(cacheSpec={"image": "vineyardd:typo", "cpu": "100m", "memory": "1Gi"})
        await world.engines()
        await until(lambda: all_run(world, "vineyardd:typo", 1))
        (pod,) = (await caches(world)).values()
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
        await merge(world.client, PODS, world.namespace, pod["metadata"]["name"], {"status": status}, "status")
        await _budget(world)
        await change(world, image="vineyardd:1")
        await world.serving(a)
        assert await all_run(world, "vineyardd:1", 1)


async def test_a_cache_that_hangs_is_ended_with_its_pod_and_no_other(world: Stage) -> None:
    a = world.nodes[0]
    labels = {OURS: "kv"}
    spec = {"nodeName": a, "containers": [{"name": "c", "image": "none"}], "terminationGracePeriodSeconds": 1}
    pods = [
        await create(world.client, PODS, world.namespace, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        for name in ("hangs", "well")
    ]
    await _budget(world)
    world.mirror.ends_pods = False
    cluster = Cluster(world.client, Applier(world.client), Leadership(7, boot_time_s() + 60, boot_time_s))
    step = Restart(
        kvcache="kv",
        uid="uid-kv",
        node=a,
        reason=Reason.HUNG,
        message="",
        cause=None,
        why=Why.HUNG,
        size=normalise(manifest()).size,
        answers=False,
        pod="of-an-earlier-life",
    )
    hangs = replace(step, pod=uid(pods[0]))
    assert await restart(cluster, Leaving(cluster, now), world.namespace, step) is None
    assert not any(await _ending(world))
    assert await restart(cluster, Leaving(cluster, now), world.namespace, hangs) is None, "no budget keeps what hangs"
    assert await restart(cluster, Leaving(cluster, now), world.namespace, hangs) is None, "twice changes nothing"
    assert sorted(await _ending(world)) == ["hangs"]


async def test_a_cache_that_answers_nothing_for_its_time_gets_another_pod(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement"):
        await world.kvcache(hungRestartSeconds=1)
        await world.engines()
        await world.serving(a)
        before = uid((await caches(world))[a])
        probe(world, a, before, HealthReason.HUNG)
        await world.says("Healthy", "Hung")

        async def another() -> bool:
            found = (await caches(world)).get(a)
            return found is not None and uid(found) != before and "deletionTimestamp" not in found["metadata"]

        await until(another)
        after = uid((await caches(world))[a])
        probe(world, a, after, HealthReason.PROVEN)
        await world.serving(a)
        await world.says("Healthy", "Proven")
        assert len(deleted_pods(world)) == 1


def probe(world: Stage, node: str, incarnation: str, reason: HealthReason) -> None:
    """What the agent of a node finds out about a cache that it had proven before."""
    proven = reason is HealthReason.PROVEN
    event = CacheHealthV1(
        cache="kv",
        namespace=world.namespace,
        node=node,
        incarnation=incarnation,
        verdict=Verdict.HEALTHY if proven else Verdict.FAILED,
        reason=reason.value,
        message="",
        last_proof=now(),
    )
    world.mirror.agents[node].put(subjects.health(node, world.namespace, "kv"), event)


async def _ending(world: Stage) -> list[str]:
    found = await items(world.client, PODS, world.namespace, OURS)
    return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" in pod["metadata"]]


async def _budget(world: Stage) -> None:
    spec = {"selector": {"matchLabels": {OURS: "kv"}}, "minAvailable": 2}
    body = {"metadata": {"name": "keep-kv"}, "spec": spec}
    await create(world.client, POD_DISRUPTION_BUDGETS, world.namespace, body)

    async def seen() -> bool:
        (found,) = await items(world.client, POD_DISRUPTION_BUDGETS, world.namespace)
        return found.get("status", {}).get("observedGeneration") == 1

    await until(seen)


def _spread() -> Json:
    """One engine per node at most."""
    term = {"labelSelector": {"matchLabels": {"app": "llama"}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
