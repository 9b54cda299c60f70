"""The rights that the install grants are the rights that its services use: told from the API server's audit log.

Each service runs with the token of its own account through what it does in its life. Whatever it asks for is granted,
and whatever is granted was asked for.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.placement.played import OURS
from kube.placement.stage import Stage, placement, stage
from kube.placement.test_refusals import ENGINE, all_ready, budget, quota
from kube.placement.test_restarts import caches, probe, uid
from kube.pod_watcher.conftest import heard, node, selector, watchers  # noqa: F401 - fixtures
from kube.pod_watcher.rig import INSTALL, Heard, Replicas, deploy_engine, token_of_the_install
from kube.rig import absent, create, delete, get, merge
from kube.test_recorder import about, recording, until_events
from kvberth.kube import Client, ClientSettings
from kvberth.kube.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    KVCACHES,
    POD_DISRUPTION_BUDGETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kvberth_schemas.events import HealthReason, PodScheduledV1
from kvberth_schemas.rights import ON_KUBERNETES, rights_of
from kvberth_schemas.subjects import Service
from support.api_server import ControlPlane
from support.secured_nats import SecuredNats, unused
from support.tcp_proxy import TcpProxy
from support.waiting import until

LEGACY = {"containers": [{**ENGINE["containers"][0], "env": [{"name": "AIBRIX_LLM_KV_CACHE", "value": "1"}]}]}
"""It needs the Service, too."""
ROLE = "kvcache.orchestration.aibrix.ai/role"
Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[SecuredNats]:
    """It holds the service of a test to the rights of its key; those who are played have none and may do everything."""
    server = SecuredNats(tmp_path, ON_KUBERNETES, strangers=True)
    await server.start()
    yield server
    await server.kill()


@pytest.fixture
async def world(client: Client, plane: ControlPlane, namespace: str, nats: SecuredNats) -> AsyncIterator[Stage]:
    async with stage(client, plane, namespace, nats.url) as opened:
        yield opened


async def uses_its_key(nats: SecuredNats, service: Service) -> None:
    """Nothing that it says or hears is refused, and it has no right on the bus for nothing."""
    rights = rights_of(service, ON_KUBERNETES)

    def all_used() -> bool:
        seen = nats.seen()[service]
        return not unused(rights.publish, seen.published) and not unused(rights.subscribe, seen.subscribed)

    await until(all_used)
    assert nats.refusals() == []


def granted(account: str) -> set[Right]:
    """What the manifests of the install grant to an account."""
    documents = yaml.safe_load_all((INSTALL / f"{account}.yaml").read_text())
    return {right for one in documents if one["kind"] in {"ClusterRole", "Role"} for right in _rights(one["rules"])}


def _rights(rules: list[dict[str, Any]]) -> Iterator[Right]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield from ((group, resource, verb) for verb in rule["verbs"])


def used(plane: ControlPlane, account: str) -> set[Right]:
    """What an account asked for, by the audit log; nothing of it was forbidden."""
    asked = [one for one in plane.asked_by(account) if "objectRef" in one]
    assert not [one["requestURI"] for one in asked if one.get("responseStatus", {}).get("code") == 403]
    return {_right(one["objectRef"], one["verb"]) for one in asked}


def _right(about: dict[str, str], verb: str) -> Right:
    resource = "/".join(about[key] for key in ("resource", "subresource") if key in about)
    return about.get("apiGroup", ""), resource, verb


async def test_placement_uses_every_right_that_it_has(
    world: Stage, plane: ControlPlane, proxy: TcpProxy, nats: SecuredNats, tmp_path: Path
) -> None:
    a, b, c = world.nodes
    token = await token_of_the_install(world.client, world.namespace, "placement")
    await world.cordon(b, c)
    config = plane.kubeconfig("as-placement", token=token, server=proxy.url)
    own = {"kubeconfig": config, "nats_nkey_file": nats.seed(Service.PLACEMENT)}
    async with placement(world, tmp_path / "placement", **own):
        await world.kvcache(hungRestartSeconds=1)
        await world.engines(**LEGACY)
        await world.serving(a)
        await hangs(world, a)
        for resource, name in ((DAEMON_SETS, "kv"), (SERVICES, "kv-rpc")):
            await written_meanwhile(world, proxy, resource, name)
        await takes_the_place_of_an_earlier_life(world)
        await all_ready(world)
        await budget(world, minAvailable=2)
        await world.age()
        await world.cordon(a, c)
        await world.end((await world.engine_pods())[a])
        await world.says("Placed", "BudgetRefuses")
        await delete(world.client, POD_DISRUPTION_BUDGETS, world.namespace, "keep-kv")
        await world.serving(b)
        await quota(world, "1100Mi")
        await world.age()
        await world.cordon(a, b)
        await merge(world.client, DEPLOYMENTS, world.namespace, "llama", {"spec": {"replicas": 2}})
        await world.says("Placed", "QuotaExceeded")
        await merge(world.client, KVCACHES, world.namespace, "kv", {"spec": {"replicas": 0}})
        await until(lambda: no_caches(world))
    await tells_again(world, config)
    assert used(plane, f"{world.namespace}:placement") == granted("placement")
    await uses_its_key(nats, Service.PLACEMENT)


async def written_meanwhile(world: Stage, proxy: TcpProxy, resource: Resource, name: str) -> None:
    """Somebody writes an object between placement's look and its write: it reads the object anew, and writes again."""
    gate = proxy.hold(f"PATCH .*/{resource.plural}/{name}[?]")
    await merge(world.client, resource, world.namespace, name, {"metadata": {"labels": {ROLE: "other"}}})
    await until(gate.reached.is_set)
    await merge(world.client, resource, world.namespace, name, {"metadata": {"labels": {ROLE: "another"}}})
    gate.released.set()

    async def restored() -> bool:
        found = await get(world.client, resource, world.namespace, name)
        return bool(found["metadata"]["labels"][ROLE] == "cache")

    await until(restored)


async def takes_the_place_of_an_earlier_life(world: Stage) -> None:
    """Objects that an earlier KVCache left go, and the cache of a StatefulSet follows its pod."""
    a, _, c = world.nodes
    labels = {OURS: "old"}
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": {"no": "where"}, **LEGACY}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    await create(
        world.client, DAEMON_SETS, world.namespace, {"metadata": {"name": "old", "labels": labels}, "spec": spec}
    )
    service = {"metadata": {"name": "old-rpc", "labels": labels}, "spec": {"ports": [{"port": 1}]}}
    await create(world.client, SERVICES, world.namespace, service)
    await world.kvcache("old", workload="old")
    await world.engines("old", "old", kind=STATEFUL_SETS, **LEGACY)
    await world.serving(a, name="old")
    await world.age()
    await world.cordon(a, c)
    await world.end("old-0")
    await world.serving(world.nodes[1], name="old")
    await delete(world.client, STATEFUL_SETS, world.namespace, "old")
    await delete(world.client, KVCACHES, world.namespace, "old")

    async def gone() -> bool:
        without = await absent(world.client, DAEMON_SETS, world.namespace, "old")  # first: it makes pods
        return without and not [
            one for one in world.mirror.pods.values() if one["metadata"]["labels"].get(OURS) == "old"
        ]

    await until(gone)


async def tells_again(world: Stage, config: Path) -> None:
    """What is told twice is counted, after half a minute in the service: so its recorder is run alone."""
    what = await about(world.client, world.namespace)
    async with Client(ClientSettings(kubeconfig=config)) as own, recording(own) as recorder:
        recorder.record(what)
        await until_events(world.client, world.namespace, lambda found: _counted(found, what.note, 1))
        recorder.record(what)
        await until_events(world.client, world.namespace, lambda found: _counted(found, what.note, 2))


def _counted(events: list[dict[str, Any]], note: str, count: int) -> bool:
    return [one.get("series", {}).get("count", 1) for one in events if one["note"] == note] == [count]


async def hangs(world: Stage, on: str) -> None:
    """Its cache hangs, and gets another pod."""
    before = uid((await caches(world))[on])
    probe(world, on, before, HealthReason.HUNG)

    async def another() -> bool:
        found = (await caches(world)).get(on)
        return found is not None and uid(found) != before and "deletionTimestamp" not in found["metadata"]

    await until(another)
    await until(lambda: before not in map(uid, world.mirror.pods.values()))
    probe(world, on, uid((await caches(world))[on]), HealthReason.PROVEN)
    await world.serving(on)


async def no_caches(world: Stage) -> bool:
    return not await world.cache_pods() and not await world.set_nodes()


def stateful(chosen: dict[str, str]) -> dict[str, Any]:
    """An engine of a StatefulSet, whose owner is another kind to read."""
    labels = {"model.aibrix.ai/name": "qwen"}
    template = {"metadata": {"labels": labels}, "spec": {**LEGACY, "nodeSelector": chosen}}
    spec = {"replicas": 1, "serviceName": "qwen", "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "qwen"}, "spec": spec}


async def test_pod_watcher_uses_every_right_that_it_has(
    plane: ControlPlane,
    client: Client,
    namespace: str,
    node: str,  # noqa: F811
    selector: dict[str, str],  # noqa: F811
    watchers: Replicas,  # noqa: F811
    heard: Heard,  # noqa: F811
    nats: SecuredNats,
) -> None:
    token = await token_of_the_install(client, namespace)
    own = {"KVBERTH_NATS_NKEY_FILE": str(nats.seed(Service.POD_WATCHER))}
    await watchers.start(KVBERTH_KUBECONFIG=str(plane.kubeconfig("as-pod-watcher", token=token)), **own)
    await deploy_engine(client, namespace, selector)
    await create(client, STATEFUL_SETS, namespace, stateful(selector))
    await create(client, KVCACHES, namespace, {"metadata": {"name": "kv"}, "spec": {}})
    await until(lambda: heard.spec(namespace, "kv") is not None)
    await until(lambda: any(isinstance(one, PodScheduledV1) for one in heard.living(namespace)))
    account = f"{namespace}:pod-watcher"
    await until(lambda: used(plane, account) == granted("pod-watcher"))
    await uses_its_key(nats, Service.POD_WATCHER)
