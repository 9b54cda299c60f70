"""The rights that the install grants are the rights that its services use: told from the API server's audit log.

Each service runs with the token of its own account through what it does in its life. Whatever it asks for is granted,
and whatever is granted was asked for, but for the few that are named here with their reason.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kube.placement.conftest import world  # noqa: F401 - a fixture
from kube.placement.stage import Stage, placement
from kube.placement.test_refusals import ENGINE, all_ready, budget, quota
from kube.placement.test_restarts import caches, probe, uid
from kube.pod_watcher.conftest import heard, nats, node, selector, watchers  # noqa: F401 - fixtures
from kube.pod_watcher.rig import INSTALL, Heard, Replicas, deploy_engine, token_of_the_install
from kube.rig import delete, merge
from kvberth.kube import Client
from kvberth.kube.resources import DEPLOYMENTS, KVCACHES, POD_DISRUPTION_BUDGETS
from kvberth_schemas.events import HealthReason, PodScheduledV1
from support.api_server import ControlPlane
from support.waiting import until

LEGACY = {"containers": [{**ENGINE["containers"][0], "env": [{"name": "AIBRIX_LLM_KV_CACHE", "value": "1"}]}]}
"""It needs the Service, too."""
Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""
NOT_TOLD_HERE: dict[str, set[Right]] = {
    "placement": {
        ("apps", "statefulsets", "get"),  # as of Deployments, for engines of a StatefulSet
        ("apps", "daemonsets", "delete"),  # of an earlier life of its KVCache: test_children
        ("", "services", "delete"),  # the same
        ("", "services", "get"),  # one that another writer changed meanwhile: test_children
        ("apps", "daemonsets", "get"),  # the same
        ("events.k8s.io", "events", "patch"),  # one that is told again is counted: test_recorder
        ("", "services", "patch"),  # the same
    },
    "pod-watcher": {
        ("apps", "statefulsets", "get"),  # as of Deployments
    },
}


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


async def test_placement_uses_every_right_that_it_has(world: Stage, plane: ControlPlane, tmp_path: Path) -> None:  # noqa: F811
    a, b, c = world.nodes
    token = await token_of_the_install(world.client, world.namespace, "placement")
    await world.cordon(b, c)
    async with placement(world, tmp_path / "placement", kubeconfig=plane.kubeconfig("as-placement", token=token)):
        await world.kvcache(hungRestartSeconds=1)
        await world.engines(**LEGACY)
        await world.serving(a)
        await hangs(world, a)
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
    account = f"{world.namespace}:placement"
    assert used(plane, account) <= granted("placement")
    assert granted("placement") - used(plane, account) <= NOT_TOLD_HERE["placement"]


async def hangs(world: Stage, on: str) -> None:  # noqa: F811
    """Its cache hangs, and gets another pod."""
    before = uid((await caches(world))[on])
    probe(world, on, before, HealthReason.HUNG)

    async def another() -> bool:
        found = (await caches(world)).get(on)
        return found is not None and uid(found) != before and "deletionTimestamp" not in found["metadata"]

    await until(another)
    probe(world, on, uid((await caches(world))[on]), HealthReason.PROVEN)
    await world.serving(on)


async def no_caches(world: Stage) -> bool:  # noqa: F811
    return not await world.cache_pods() and not await world.set_nodes()


async def test_pod_watcher_uses_every_right_that_it_has(
    plane: ControlPlane,
    client: Client,
    namespace: str,
    node: str,  # noqa: F811
    selector: dict[str, str],  # noqa: F811
    watchers: Replicas,  # noqa: F811
    heard: Heard,  # noqa: F811
) -> None:
    token = await token_of_the_install(client, namespace)
    await watchers.start(KVBERTH_KUBECONFIG=str(plane.kubeconfig("as-pod-watcher", token=token)))
    await deploy_engine(client, namespace, selector)
    await until(lambda: any(isinstance(one, PodScheduledV1) for one in heard.living(namespace)))
    account = f"{namespace}:pod-watcher"
    await until(lambda: granted("pod-watcher") - used(plane, account) <= NOT_TOLD_HERE["pod-watcher"])
    assert used(plane, account) <= granted("pod-watcher")
