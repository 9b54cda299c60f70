"""Pod watchers as processes, what they say as a subscriber hears it, and a kubelet's words without a kubelet."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kube.rig import create, merge
from kvberth.bus import Bus, BusSettings, Liveness, Row, View
from kvberth.kube.client import Call, Client
from kvberth.kube.resources import DEPLOYMENTS, NODES, PODS, SERVICE_ACCOUNTS, Resource
from kvberth_schemas import subjects
from kvberth_schemas.events import NodeChangedV1, Resources
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import Entity, EventSubject, Service, events_of
from support.waiting import until

MODEL = "llama-3-8b-instruct"
DIRECTORY = "/var/run/vineyard-kubernetes"
INSTALL = Path(__file__).parents[3] / "k8s" / "base"
RBAC = "rbac.authorization.k8s.io"
RIGHTS = {
    "ServiceAccount": SERVICE_ACCOUNTS,
    "ClusterRole": Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    "Role": Resource(RBAC, "v1", "roles", "Role"),
    "RoleBinding": Resource(RBAC, "v1", "rolebindings", "RoleBinding"),
}


class Heard:
    """What a subscriber knows."""

    def __init__(self, view: View, liveness: Liveness) -> None:
        self.view, self.liveness = view, liveness
        self.rows: list[Row] = []
        view.add_listener(self.rows.append)

    def event(self, subject: EventSubject) -> Any:
        row = self.view.rows.get(subject)
        return row.message if row else None

    def node(self, name: str) -> Any:
        return self.event(subjects.node(name))

    def requested(self, name: str) -> Resources:
        """What pods ask of a node; nothing of one that is not known yet."""
        event = self.node(name)
        return event.requested if isinstance(event, NodeChangedV1) else Resources()

    def spec(self, namespace: str, name: str) -> Any:
        return self.event(subjects.spec(namespace, name))

    def pods(self, namespace: str) -> dict[str, Any]:
        """The last word about every pod of a namespace, by uid."""
        return {
            subject.object: row.message
            for subject, row in self.view.rows.items()
            if isinstance(subject, EventSubject) and (subject.entity, subject.namespace) == (Entity.POD, namespace)
        }

    def living(self, namespace: str) -> list[Any]:
        return [event for event in self.pods(namespace).values() if not event.ce_type.startswith("kvberth.pod.gone")]

    def told(self, namespace: str | None = None) -> list[Event]:
        """Everything that was heard, in order, of one namespace."""
        messages = [row.message for row in self.rows if getattr(row.subject, "namespace", None) == namespace]
        return [message for message in messages if isinstance(message, Event)]

    @property
    def fresh(self) -> bool:
        return self.view.complete and self.liveness.fresh(Service.POD_WATCHER)


@asynccontextmanager
async def hearing(url: str) -> AsyncIterator[Heard]:
    """A subscriber that declares the streams as placement would."""
    settings = BusSettings(url=url, service=Service.PLACEMENT, instance="test", term=1)
    patterns = [events_of(entity) for entity in (Entity.POD, Entity.NODE, Entity.SPEC)]
    async with Bus(settings) as bus:
        await bus.declare()
        async with bus.view(patterns) as view, bus.liveness() as liveness:
            yield Heard(view, liveness)


@dataclass
class Replicas:
    """Starts replicas of the pod watcher on one Lease; what is left runs until the test's end."""

    directory: Path
    environment: dict[str, str]
    running: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def start(self, **settings: str) -> asyncio.subprocess.Process:
        number = len(self.running)
        own = {name: value for name, value in os.environ.items() if not name.startswith("KVBERTH_")}
        environment = {**own, **self.environment, "KVBERTH_INSTANCE": f"replica-{number}_{number}", **settings}
        with (self.directory / f"replica-{number}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "kvberth.pod_watcher", env=environment, stdout=log, stderr=log
            )
        self.running.append(process)
        return process

    def log(self, number: int) -> str:
        return (self.directory / f"replica-{number}.log").read_text()


@asynccontextmanager
async def replicas(directory: Path, environment: dict[str, str]) -> AsyncIterator[Replicas]:
    started = Replicas(directory, environment)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_end_all, started)
        yield started


async def _end_all(started: Replicas) -> None:
    for process in started.running:
        await end(process, signal.SIGKILL)


async def end(process: asyncio.subprocess.Process, how: signal.Signals = signal.SIGTERM) -> int:
    if process.returncode is None:
        process.send_signal(how)
    return await process.wait()


def engine_spec(namespace: str, node_selector: dict[str, str]) -> dict[str, Any]:
    """The spec of an engine's pod, as the seeds have it."""
    return {
        "nodeSelector": node_selector,
        "terminationGracePeriodSeconds": 30,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "securityContext": {"runAsUser": 1000, "supplementalGroups": [2001], "fsGroup": 2002},
        "initContainers": [{"name": "init-model", "image": "init", "resources": {"requests": {"cpu": "500m"}}}],
        "containers": [
            {
                "name": "vllm-openai",
                "image": "vllm",
                "env": [{"name": "AIBRIX_LLM_KV_CACHE", "value": "1"}],
                "resources": {"requests": {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "1"}, "limits": _GPU},
                "volumeMounts": [{"name": "kvcache-socket", "mountPath": "/var/run/vineyard"}],
            },
            {"name": "aibrix-runtime", "image": "runtime", "resources": {"requests": {"memory": "256Mi"}}},
        ],
        "volumes": [{"name": "kvcache-socket", "hostPath": {"path": f"{DIRECTORY}/{namespace}/kv"}}],
    }


_GPU = {"nvidia.com/gpu": "1"}


async def deploy_engine(client: Client, namespace: str, selector: dict[str, str], replicas: int = 1) -> dict[str, Any]:
    labels = {"model.aibrix.ai/name": MODEL}
    template = {"metadata": {"labels": labels}, "spec": engine_spec(namespace, selector)}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return await create(client, DEPLOYMENTS, namespace, {"metadata": {"name": "llama"}, "spec": spec})


async def add_node(client: Client, name: str, labels: dict[str, str]) -> None:
    await create(client, NODES, None, {"metadata": {"name": name, "labels": labels}})
    amounts = {"cpu": "7910m", "memory": "16Gi", "pods": "20", "nvidia.com/gpu": "4"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}],
    }
    await merge(client, NODES, None, name, {"status": status}, subresource="status")


async def kubelet_says(client: Client, namespace: str, pod: str, *, ready: bool, restarts: int = 0) -> None:
    """Write a pod's status as a kubelet would."""
    word = "True" if ready else "False"
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": word}, {"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [
            {
                "name": "vllm-openai",
                "ready": ready,
                "restartCount": restarts,
                "image": "vllm",
                "imageID": "",
                "state": {"running": {}},
            }
        ],
    }
    await merge(client, PODS, namespace, pod, {"status": status}, subresource="status")


async def heard_of(heard: Heard, namespace: str, amount: int = 1, timeout_s: float = 20.0) -> list[Any]:
    """Wait until so many living pods of a namespace are known."""
    await until(lambda: len(heard.living(namespace)) == amount, within_s=timeout_s)
    return heard.living(namespace)


async def token_of_the_install(client: Client, namespace: str, account: str = "pod-watcher") -> str:
    """Give the install's own ServiceAccount and rights a place in this namespace, and return its token."""
    for document in yaml.safe_load_all((INSTALL / f"{account}.yaml").read_text()):
        if document["kind"] not in RIGHTS:
            continue
        document["metadata"]["name"] += f"-{namespace}" if document["kind"].startswith("Cluster") else ""
        if "roleRef" in document:
            document["roleRef"]["name"] += f"-{namespace}" if document["kind"].startswith("Cluster") else ""
            document["subjects"][0]["namespace"] = namespace
        await create(client, RIGHTS[document["kind"]], namespace, document)
    path = SERVICE_ACCOUNTS.path(namespace, account, "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = json.loads(await client.request(Call(what="POST token", path=path, method="POST", body=body)))
    return str(answer["status"]["token"])
