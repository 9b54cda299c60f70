"""What a cluster forbids is told in its own words, harms nothing, and is done once it is allowed."""

from pathlib import Path
from typing import Any

from kube.placement.stage import Stage, placement
from kube.rig import create, delete, get, merge
from kvberth.kube.resources import DEPLOYMENTS, KVCACHES, POD_DISRUPTION_BUDGETS, PODS, Resource
from support.waiting import until

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")


async def quota(world: Stage, memory: str) -> None:
    body = {"metadata": {"name": "mem"}, "spec": {"hard": {"requests.memory": memory}}}
    await create(world.client, QUOTAS, world.namespace, body)

    async def counted() -> bool:
        return "used" in (await get(world.client, QUOTAS, world.namespace, "mem")).get("status", {})

    await until(counted)


ENGINE: dict[str, Any] = {
    "containers": [
        {"name": "e", "image": "none", "resources": {"requests": {"memory": "1Mi"}, "limits": {"memory": "1Mi"}}}
    ]
}


async def test_a_quota_that_refuses_a_cache_is_quoted_and_heals(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    await quota(world, "512Mi")
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines(**ENGINE)
        message = await world.says("Placed", "QuotaExceeded", timeout_s=10)
        assert "exceeded quota: mem" in message
        assert "requests.memory" in message
        assert (await world.condition("Ready"))[0] == "False"
        await merge(world.client, QUOTAS, world.namespace, "mem", {"spec": {"hard": {"requests.memory": "8Gi"}}})
        await world.serving(a, timeout_s=60)


async def test_a_quota_for_one_cache_lets_a_cache_move_by_swapping(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    await quota(world, "1100Mi")
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines(**ENGINE)
        await world.serving(a)
        await world.age()
        await world.cordon(a, c)
        await world.end(
            (await world.engine_pods())[a], force=False
        )  # it ends, and nobody lets it: it stays Terminating
        await world.serving(b, timeout_s=60)
        assert "SwappedForQuota" in await world.told()
        assert await world.cache_pods() == [b]


async def test_a_cache_beside_a_running_engine_is_never_swapped(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    await quota(world, "1100Mi")
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines(**ENGINE)
        await world.serving(a)
        await world.cordon(a, c)
        await merge(world.client, DEPLOYMENTS, world.namespace, "llama", {"spec": {"replicas": 2}})
        await world.says("Placed", "QuotaExceeded", timeout_s=10)
        assert await world.cache_pods() == [a]
        assert sorted(await world.set_nodes()) == sorted([a, b])


CACHES = {"kvberth.dev/kvcache": "kv"}


async def budget(world: Stage, labels: dict[str, str] = CACHES, **spec: Any) -> None:
    selector = {"matchLabels": labels}
    await create(
        world.client,
        POD_DISRUPTION_BUDGETS,
        world.namespace,
        {"metadata": {"name": "keep-kv"}, "spec": {"selector": selector, **spec}},
    )

    async def seen() -> bool:
        found = await get(world.client, POD_DISRUPTION_BUDGETS, world.namespace, "keep-kv")
        return found.get("status", {}).get("observedGeneration") == 1 or bool(found["status"].get("conditions"))

    await until(seen)


async def all_ready(world: Stage) -> None:
    """Play the kubelets: what a budget counts are Ready pods."""
    for pod in await _pods(world):
        ready = {"type": "Ready", "status": "True"}
        await merge(
            world.client, PODS, world.namespace, pod, {"status": {"phase": "Running", "conditions": [ready]}}, "status"
        )


async def _pods(world: Stage) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in world.mirror.pods.values()
        if "kvberth.dev/kvcache" in pod["metadata"]["labels"]
    ]


async def _placed(world: Stage) -> None:
    """A cache beside an engine on the first node, Ready to the budgets."""
    await world.kvcache()
    await world.engines()
    await world.serving(world.nodes[0])
    await all_ready(world)


async def test_a_budget_keeps_a_cache_until_it_allows_it_to_go(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement"):
        await _placed(world)
        await budget(world, minAvailable=2)
        await world.age()
        await world.cordon(a, c)
        await world.end((await world.engine_pods())[a])
        message = await world.says("Placed", "BudgetRefuses")
        assert "PodDisruptionBudget keep-kv" in message
        assert sorted(await world.set_nodes()) == sorted([a, b])
        await delete(world.client, POD_DISRUPTION_BUDGETS, world.namespace, "keep-kv")
        await world.serving(b)
        assert await world.set_nodes() == [b]


async def test_a_drain_that_a_budget_of_the_engine_holds_up_is_told_until_it_may_go_on(
    world: Stage, tmp_path: Path
) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement"):
        await _placed(world)
        engine = (await world.engine_pods())[a]
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await merge(world.client, PODS, world.namespace, engine, {"status": ready}, "status")
        await budget(world, {"app": "llama"}, minAvailable=1)

        async def told() -> bool:
            status, _, message = await world.condition("Placed")
            waits = f"{a} is cordoned: a drain would wait for PDB keep-kv, which allows no eviction of engine {engine}"
            return status == "True" and waits in message

        async def silent() -> bool:
            return "drain" not in (await world.condition("Placed"))[2]

        assert await silent()
        await world.cordon(a, c)
        await until(told)
        await delete(world.client, POD_DISRUPTION_BUDGETS, world.namespace, "keep-kv")
        await until(silent)
        assert (await world.engine_pods())[a] == engine


async def test_a_budget_that_can_never_work_is_named_with_its_remedy(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement"):
        await _placed(world)
        await budget(world, maxUnavailable=1)
        await world.age()
        await world.cordon(a, c)
        await world.end((await world.engine_pods())[a])
        message = await world.says("Placed", "BudgetUnusable")
        assert "PodDisruptionBudget keep-kv" in message
        assert "use an integer minAvailable" in message
        assert b in await world.set_nodes()


async def test_a_user_who_may_not_enter_the_directory_is_named_until_it_may_be_opened(
    world: Stage, tmp_path: Path
) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement"):
        await world.kvcache()
        await world.engines()
        await world.serving(a)
        await merge(world.client, KVCACHES, world.namespace, "kv", paused("true"))
        await world.engines(name="stranger", securityContext={"runAsUser": 2000})
        assert f"{a}: permission denied for uid 2000" in await world.says("SocketsReady", "EngineDenied")
        assert (await world.condition("Ready"))[0] == "False"
        assert directory_mode(world, a) == 0o2770
        await merge(world.client, KVCACHES, world.namespace, "kv", paused(None))
        await world.says("SocketsReady", "AllAnswered")
        assert directory_mode(world, a) == 0o755


async def test_where_no_cache_fits_the_directory_alone_is_asked_for_also_by_the_next_leader(
    world: Stage, tmp_path: Path
) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with placement(world, tmp_path / "one"):
        await world.kvcache(cacheSpec=TOO_LARGE, gate={"policy": "wait", "timeoutSeconds": 20})
        await world.engines()
        await world.says("Placed", "CannotFit")
        await until(lambda: directory_gate(world, a) == ("keep", "wait", 20))
    async with placement(world, tmp_path / "two"):
        await merge(world.client, KVCACHES, world.namespace, "kv", {"spec": {"gate": {"timeoutSeconds": 21}}})
        await until(lambda: directory_gate(world, a) == ("keep", "wait", 21), within_s=20)
        assert await world.set_nodes() == []
        pod = (await world.engine_pods())[a]
        await merge(world.client, DEPLOYMENTS, world.namespace, "llama", {"spec": {"replicas": 0}})
        await until(lambda: no_engine(world))  # else its controller would put another one in its place
        await world.end(pod)
        await until(lambda: directory_gate(world, a)[0] == "drop", within_s=20)
        want = world.directory(a)
        assert want is not None
        assert want.cache is False, "so the next leader tells no end of a cache"


async def no_engine(world: Stage) -> bool:
    return not await world.engine_pods()


TOO_LARGE = {"image": "vineyardd:1", "cpu": "100m", "memory": "900Gi"}


def paused(value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {"kvberth.dev/paused": value}}}


def directory_mode(world: Stage, node: str) -> int | None:
    want = world.directory(node)
    return want.mode if want is not None else None


def directory_gate(world: Stage, node: str) -> tuple[str, str | None, float | None]:
    want = world.directory(node)
    return (want.state, want.gate_policy, want.gate_timeout_s) if want is not None else ("", None, None)
