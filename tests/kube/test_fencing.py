"""The API server refuses the writes of a leader whose term is over, whatever that leader believes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.rig import create, until
from kvberth.kube.applier import Applier, Target
from kvberth.kube.client import Call, Client
from kvberth.kube.election import Election, Leadership
from kvberth.kube.errors import Forbidden, Refused
from kvberth.kube.fence import FENCE, FenceVerdict, fence_verdict
from kvberth.kube.resources import DAEMON_SETS, PODS, SERVICE_ACCOUNTS, Resource
from kvberth.kube.settings import ClientSettings, LeaseSettings
from support.api_server import ControlPlane

BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
FENCE_FILE = Path(__file__).with_name("fence.yaml")


async def install_fence(client: Client, namespace: str) -> None:
    await create(client, SERVICE_ACCOUNTS, namespace, {"metadata": {"name": "placement"}})
    binding = {
        "metadata": {"name": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "placement", "namespace": namespace}],
    }
    await create(client, BINDINGS, None, binding)
    for body in yaml.safe_load_all(FENCE_FILE.read_text().replace("NAMESPACE", namespace)):
        path = f"/apis/admissionregistration.k8s.io/v1/{body['kind'].lower().removesuffix('y')}"
        path += "ies" if body["kind"].endswith("y") else "s"
        await client.request(Call(what=body["kind"], path=path, method="POST", body=body))


@asynccontextmanager
async def as_pod(plane: ControlPlane, admin: Client, namespace: str, name: str) -> AsyncIterator[tuple[Client, str]]:
    """A client with the token that the kubelet would give to a pod of the ServiceAccount, and the pod's identity."""
    spec = {"serviceAccountName": "placement", "containers": [{"name": "c", "image": "none"}]}
    pod = await create(admin, PODS, namespace, {"metadata": {"name": name}, "spec": spec})
    uid = pod["metadata"]["uid"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
    path = SERVICE_ACCOUNTS.path(namespace, "placement", "token")
    body = {
        "spec": {"boundObjectRef": bound, "expirationSeconds": 3600, "audiences": ["https://kubernetes.default.svc"]}
    }
    answer = yaml.safe_load(await admin.request(Call(what="token", path=path, method="POST", body=body)))
    config = plane.kubeconfig(name, token=answer["status"]["token"])
    async with Client(ClientSettings(kubeconfig=config)) as client:
        yield client, f"{name}_{uid}"


class Leader:
    """A candidate that stays at work until it is told."""

    def __init__(self, client: Client, namespace: str, identity: str) -> None:
        self.applier, self.namespace = Applier(client), namespace
        settings = LeaseSettings(namespace=namespace, name="l", identity=identity, retry_s=0.2)
        self.election = Election(client, settings)
        self.term: int | None = None

    async def run(self) -> None:
        async def work(leadership: Leadership) -> None:
            self.term = leadership.term
            await asyncio.Event().wait()

        await self.election.run(work)

    async def write(self, term: int | None, node: str, *, dry_run: bool = False) -> None:
        where = Target(DAEMON_SETS, self.namespace, "cache")
        metadata = {"annotations": {FENCE: str(term)}} if term is not None else {}
        await self.applier.apply(where, {"metadata": metadata, **daemon_set(node)}, dry_run=dry_run)

    async def refused(self, term: int | None, *, dry_run: bool = True) -> Refused | None:
        try:
            await self.write(term, "x", dry_run=dry_run)
        except Forbidden as error:
            return error
        return None


def daemon_set(node: str) -> dict[str, Any]:
    labels = {"app": "cache"}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    pod = {"affinity": {"nodeAffinity": affinity}, "containers": [{"name": "c", "image": "none"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {"spec": {"selector": {"matchLabels": labels}, "template": template}}


async def test_a_deposed_leader_is_refused_by_term_and_by_identity(
    plane: ControlPlane, client: Client, namespace: str
) -> None:
    await install_fence(client, namespace)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(as_pod(plane, client, namespace, f"{namespace}-{n}")) for n in "ab"]
        old, new = (Leader(pod, namespace, identity) for pod, identity in clients)
        first = asyncio.create_task(old.run())
        await until(lambda: old.term is not None)
        term = old.term
        assert term is not None
        async with asyncio.timeout(30):  # a policy takes a moment to work: a dry run with a wrong term tells when
            while await old.refused(term - 1) is None:  # noqa: ASYNC110 - the API server's moment, no event tells
                await asyncio.sleep(0.1)
        await old.write(term, "a")
        bare = await old.refused(None)
        assert bare is not None
        assert "carries term none" in str(bare)

        first.cancel()
        await asyncio.wait([first])
        second = asyncio.create_task(new.run())
        await until(lambda: new.term is not None)
        assert new.term == term + 1
        await new.write(new.term, "b")

        late = await old.refused(term, dry_run=False)
        assert late is not None
        assert fence_verdict(late, term) is FenceVerdict.DEPOSED
        forged = await old.refused(new.term, dry_run=False)
        assert forged is not None
        assert "writes, the lease is held by" in str(forged)
        with pytest.raises(Forbidden, match="the lease is held by"):
            await old.applier.delete(Target(DAEMON_SETS, namespace, "cache"))
        await new.applier.delete(Target(DAEMON_SETS, namespace, "cache"))
        second.cancel()
        await asyncio.wait([second])
