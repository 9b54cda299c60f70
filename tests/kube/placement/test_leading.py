"""One placement acts at a time: with the installed rights, behind the installed fence, from hand to hand."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import yaml

from kube.placement.stage import Stage, placement
from kube.rig import create, delete, get
from kvberth.kube import Applier, Call, Client, ClientSettings, Leadership, NotFound, Target
from kvberth.kube.election import boot_time_s
from kvberth.kube.resources import DAEMON_SETS, LEASES, PODS, SERVICE_ACCOUNTS
from kvberth.kvcache import normalise
from kvberth.placement.apply.kubernetes.render import Owner, daemon_set, sets_of
from kvberth.placement.apply.kubernetes.writing import Cluster, Deposed
from support.placement_world import manifest
from support.waiting import until

OVERLAY = Path(__file__).parents[3] / "k8s" / "overlays" / "default"
HOME = "kvberth"


RUNS = {"Deployment", "DaemonSet"}
"""What an install has run: nobody could end its pods here, on nodes without kubelets."""


@pytest.fixture
async def installed(world: Stage, tmp_path: Path) -> AsyncIterator[None]:
    """Account, rights and fence as an install makes them; they stay for others, the Lease goes."""
    rendered = await asyncio.to_thread(world.plane.kubectl, "kustomize", str(OVERLAY))
    objects = [one for one in yaml.safe_load_all(rendered) if one["kind"] not in RUNS and "Mutating" not in one["kind"]]
    file = tmp_path / "install.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    await asyncio.to_thread(world.plane.kubectl, "apply", "-f", str(file))
    yield
    with suppress(NotFound):
        await delete(world.client, LEASES, HOME, "kvberth-placement")


@asynccontextmanager
async def pod_of_placement(world: Stage, letter: str) -> AsyncIterator[dict[str, object]]:
    """The settings of a replica, with the token that the kubelet would give it."""
    name = f"placement-{world.namespace}-{letter}"
    nowhere = {"no-such-label": "on-any-node"}
    spec = {"serviceAccountName": "placement", "nodeSelector": nowhere, "containers": [{"name": "c", "image": "none"}]}
    pod = await create(world.client, PODS, HOME, {"metadata": {"name": name}, "spec": spec})
    uid = pod["metadata"]["uid"]
    body = {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}}}
    path = SERVICE_ACCOUNTS.path(HOME, "placement", "token")
    answer = json.loads(await world.client.request(Call(what="token", path=path, method="POST", body=body)))
    config = world.plane.kubeconfig(name, token=answer["status"]["token"])
    yield {"kubeconfig": config, "instance": f"{name}_{uid}", "lease_namespace": HOME, "fence": True}
    await delete(world.client, PODS, HOME, name)


@pytest.mark.usefixtures("installed")
async def test_a_standby_takes_over_at_once_from_a_leader_that_stops(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with pod_of_placement(world, "one") as one, pod_of_placement(world, "two") as two:
        async with placement(world, tmp_path / "one", **one):
            await until(lambda: _holder(world, one), within_s=40)
            await world.kvcache()
            await world.engines()
            await world.serving(a, timeout_s=40)
            first = world.bus_status()
            await world.age()
            standby = placement(world, tmp_path / "two", **two)
            context = await standby.__aenter__()
            assert not [why for why in context.checks.results().values() if why]
            stopped = time.monotonic()
        try:
            await until(lambda: _holder(world, two))
            assert time.monotonic() - stopped < 5.0, "a Lease that was given up need not run out"
            await world.cordon(a, c)
            await world.end((await world.engine_pods())[a])
            await world.serving(b, timeout_s=40)
            second = world.bus_status()
            assert first is not None
            assert second is not None
            assert second.term == first.term + 1
            assert second.moved == f"relocated from {a} to {b}"
            found = await get(world.client, DAEMON_SETS, world.namespace, "kv")
            assert found["metadata"]["annotations"]["kvberth.dev/fence"] == str(second.term)
        finally:
            await standby.__aexit__(None, None, None)


@pytest.mark.usefixtures("installed")
async def test_a_deposed_placement_writes_nothing_more(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    async with pod_of_placement(world, "one") as one, pod_of_placement(world, "two") as two:
        async with placement(world, tmp_path / "one", **one):
            await world.kvcache()
            await world.engines()
            await world.serving(a, timeout_s=40)
            status = world.bus_status()
            assert status is not None
        async with (
            placement(world, tmp_path / "two", **two),
            Client(ClientSettings(kubeconfig=one["kubeconfig"])) as late,  # type: ignore[arg-type]
        ):
            await until(lambda: _holder(world, two))
            believes = Leadership(status.term, boot_time_s() + 60, boot_time_s)
            deposed = Cluster(late, Applier(late), believes)
            owner = Owner(world.namespace, "kv", status.uid)
            child = daemon_set(sets_of(normalise(manifest()), owner)[0])
            before = await get(world.client, DAEMON_SETS, world.namespace, "kv")
            with pytest.raises(Deposed, match="lease"):
                await deposed.apply(child.target, child.body)
            assert not believes.holds
            believes = Leadership(status.term, boot_time_s() + 60, boot_time_s)
            with pytest.raises(Deposed, match="lease"):
                await Cluster(late, Applier(late), believes).delete(Target(DAEMON_SETS, world.namespace, "kv"))
            now = await get(world.client, DAEMON_SETS, world.namespace, "kv")
            assert now["metadata"]["uid"] == before["metadata"]["uid"]
            assert now["spec"] == before["spec"]


async def test_without_a_fence_nothing_is_placed_and_readiness_says_so(world: Stage, tmp_path: Path) -> None:
    async with placement(world, tmp_path / "placement", fence=True) as context:
        await until(lambda: "does not refuse a wrong term" in (context.checks.results().get("fence") or ""))
        await world.kvcache()
        await world.engines()
        await world.age(2)
        assert await world.set_nodes() == []
        assert world.bus_status() is None


async def _holder(world: Stage, settings: dict[str, object]) -> bool:
    try:
        lease = await get(world.client, LEASES, HOME, "kvberth-placement")
    except NotFound:
        return False
    return lease["spec"].get("holderIdentity") == settings["instance"]
