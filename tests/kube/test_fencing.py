"""The fence as it is installed: the API server refuses a leader whose term is over, whatever that leader believes."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kube.rig import create, delete
from kvberth.kube.applier import Applier, Target
from kvberth.kube.client import Call, Client
from kvberth.kube.election import Election, Leadership
from kvberth.kube.errors import AlreadyExists, Forbidden, Refused
from kvberth.kube.fence import FENCE, FenceVerdict, fence_verdict
from kvberth.kube.objects import Meta
from kvberth.kube.resources import DAEMON_SETS, KVCACHES, LEASES, NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from kvberth.kube.settings import ClientSettings, LeaseSettings
from support.api_server import ControlPlane
from support.waiting import until

FENCE_FILE = Path(__file__).parents[2] / "k8s" / "base" / "fence.yaml"
HOME = "kvberth"
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
CACHE = {"kvberth.dev/kvcache": "cache"}


@pytest.fixture(autouse=True)
async def fence(plane: ControlPlane, client: Client) -> AsyncIterator[None]:
    """The installed fence, and placement's account with every right, so that only the fence can refuse it.

    The policies stay: made anew under their names they would take long to work.
    """
    binding = {
        "metadata": {"name": "placement-may-do-all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "placement", "namespace": HOME}],
    }
    await until_there(client, NAMESPACES, None, {"metadata": {"name": HOME}})
    await until_there(client, SERVICE_ACCOUNTS, HOME, {"metadata": {"name": "placement"}})
    await create(client, BINDINGS, None, binding)
    await asyncio.to_thread(plane.kubectl, "apply", "-f", str(FENCE_FILE))
    yield
    await delete(client, BINDINGS, None, "placement-may-do-all")
    await delete(client, LEASES, HOME, "kvberth-placement")


async def until_there(client: Client, resource: Resource, namespace: str | None, body: dict[str, Any]) -> None:
    with contextlib.suppress(AlreadyExists):
        await create(client, resource, namespace, body)


@asynccontextmanager
async def as_pod(plane: ControlPlane, admin: Client, name: str) -> AsyncIterator[tuple[Client, str]]:
    """A client with the token that the kubelet would give to a pod of the ServiceAccount, and the pod's identity."""
    nowhere = {"no-such-label": "on-any-node"}  # a pod that is bound would wait for its kubelet to end it
    spec = {"serviceAccountName": "placement", "nodeSelector": nowhere, "containers": [{"name": "c", "image": "none"}]}
    pod = await create(admin, PODS, HOME, {"metadata": {"name": name}, "spec": spec})
    uid = pod["metadata"]["uid"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
    path = SERVICE_ACCOUNTS.path(HOME, "placement", "token")
    body = {"spec": {"boundObjectRef": bound, "expirationSeconds": 3600}}
    answer = json.loads(await admin.request(Call(what="token", path=path, method="POST", body=body)))
    config = plane.kubeconfig(name, token=answer["status"]["token"])
    async with Client(ClientSettings(kubeconfig=config)) as client:
        yield client, f"{name}_{uid}"
    await delete(admin, PODS, HOME, name)


class Leader:
    """A candidate that stays at work until it is told."""

    def __init__(self, client: Client, namespace: str, identity: str) -> None:
        self.applier, self.namespace = Applier(client), namespace
        settings = LeaseSettings(namespace=HOME, name="kvberth-placement", identity=identity, retry_s=0.2, look_s=0.2)
        self.election = Election(client, settings)
        self.term: int | None = None

    async def run(self) -> None:
        async def work(leadership: Leadership) -> None:
            self.term = leadership.term
            await asyncio.Event().wait()

        await self.election.run(work)

    @property
    def cache(self) -> Target:
        return Target(DAEMON_SETS, self.namespace, "cache")

    async def write(self, term: int | None, node: str, *, dry_run: bool = False) -> Meta:
        annotations = {FENCE: str(term)} if term is not None else {}
        body = {"metadata": {"labels": CACHE, "annotations": annotations}, **daemon_set(node)}
        return await self.applier.apply(self.cache, body, dry_run=dry_run)

    async def refused(self, term: int | None, *, dry_run: bool = True) -> Refused | None:
        try:
            await self.write(term, "x", dry_run=dry_run)
        except Forbidden as error:
            return error
        return None


def daemon_set(node: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    pod = {"affinity": {"nodeAffinity": affinity}, "containers": [{"name": "c", "image": "none"}]}
    return {"spec": {"selector": {"matchLabels": CACHE}, "template": {"metadata": {"labels": CACHE}, "spec": pod}}}


@asynccontextmanager
async def leading(leader: Leader) -> AsyncIterator[int]:
    """The leader's term while it leads and the fence works."""
    task = asyncio.create_task(leader.run())
    try:
        await until(lambda: leader.term is not None)
        assert leader.term is not None
        async with asyncio.timeout(30):  # a policy takes a moment to work: a dry run with a wrong term tells when
            while await leader.refused(leader.term - 1) is None:  # noqa: ASYNC110 - the server's moment, no event
                await asyncio.sleep(0.1)
        yield leader.term
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_deposed_leader_is_refused_by_term_and_by_identity(
    plane: ControlPlane, client: Client, namespace: str
) -> None:
    async with AsyncExitStack() as stack:
        pods = [await stack.enter_async_context(as_pod(plane, client, f"{namespace}-{n}")) for n in "ab"]
        old, new = (Leader(pod, namespace, identity) for pod, identity in pods)
        async with leading(old) as term:
            await old.write(term, "a")
            bare = await old.refused(None)
            assert "carries term none" in str(bare)
        async with leading(new) as higher:
            assert higher == term + 1
            await new.write(higher, "b")
            late = await old.refused(term, dry_run=False)
            assert late is not None
            assert fence_verdict(late, term) is FenceVerdict.DEPOSED
            forged = await old.refused(higher, dry_run=False)
            assert "writes, the lease is held by" in str(forged)
            assert forged is not None
            assert fence_verdict(forged, term) is FenceVerdict.DEPOSED
            with pytest.raises(Forbidden, match="the lease is held by"):
                await old.applier.delete(old.cache)
            await new.applier.delete(new.cache)


async def test_a_status_and_the_objects_of_others_are_fenced_too(
    plane: ControlPlane, client: Client, namespace: str
) -> None:
    await Applier(client).create(Target(DAEMON_SETS, namespace, "theirs"), daemon_set("a"))
    kvcache = await Applier(client).create(Target(KVCACHES, namespace, "kv"), {"spec": {}})
    async with as_pod(plane, client, f"{namespace}-a") as (pod, identity):
        leader = Leader(pod, namespace, identity)
        async with leading(leader) as term:
            with pytest.raises(Forbidden, match=r"has no label kvberth\.dev/kvcache"):
                await leader.applier.delete(Target(DAEMON_SETS, namespace, "theirs"))
            planned = Target(KVCACHES, namespace, "kv", uid=kvcache.uid, resource_version=kvcache.resource_version)
            with pytest.raises(Forbidden) as refused:
                await leader.applier.patch_status(planned, {"term": term - 1})
            assert fence_verdict(refused.value, term - 1) is FenceVerdict.DEPOSED
            await leader.applier.patch_status(planned, {"term": term})
