"""Placement on Kubernetes: its Lease, its means, and the statuses of KVCaches beside those on the bus."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version

from kvberth.kube import EventRecorder, KubeError, LeaseSettings, Metrics, RecorderSettings
from kvberth.placement.apply.kubernetes.backend import KubernetesBackend, Options
from kvberth.placement.apply.kubernetes.leading import Leader, LeadSettings
from kvberth.placement.apply.kubernetes.reading import image_of
from kvberth.placement.apply.kubernetes.telling import Statuses, Teller
from kvberth.placement.apply.kubernetes.wanted import Ways
from kvberth.placement.apply.kubernetes.worker import WorkerProgram
from kvberth.placement.apply.kubernetes.writing import Cluster
from kvberth.placement.means import Edge, Make, Means
from kvberth.placement.planner import Speaker
from kvberth.placement.settings import PlacementSettings
from kvberth.service import ServiceContext, ServiceError
from kvberth_schemas.events import KVCacheStatusV1
from kvberth_schemas.subjects import Service, WantKind

LEASE = "kvberth-placement"
CONTROLLER = "kvberth.dev/placement"
_LOST = f"The Lease {LEASE} was lost, so this placement ends; another one leads, or this one again after its restart."

Context = ServiceContext[PlacementSettings]
Place = Callable[[Context, int, Sequence[WantKind], Make], Awaitable[None]]


async def lead(context: Context, place: Place) -> None:
    """Wait for the Lease and place caches while this process holds it, until told to stop.

    Raises:
        ServiceError: there is no way to an API server, or the Lease was lost, and a restart makes us a candidate again.
    """
    settings, metrics = context.settings, Metrics(context.telemetry)
    lease = LeaseSettings(namespace=settings.lease_namespace, name=LEASE, identity=settings.instance)
    leader = Leader(LeadSettings(kubeconfig=settings.kubeconfig, lease=lease, fenced=settings.fence), metrics)

    async def work(cluster: Cluster) -> None:
        @asynccontextmanager
        async def make(edge: Edge) -> AsyncIterator[Means]:
            async with _means(context, cluster, edge, metrics) as means:
                yield means

        await place(context, cluster.leadership.term, (WantKind.DIR,), make)

    context.checks.register("fence", lambda: leader.trouble or None)
    try:
        await _lead_once(context, leader, leader.run(work))
    except KubeError as error:
        raise ServiceError(str(error)) from error
    finally:
        context.checks.unregister("fence")


async def _lead_once(context: Context, leader: Leader, leading: Awaitable[None]) -> None:
    """Cancelled, the Lease is given up, so that another takes over at once."""
    task = asyncio.ensure_future(leading)
    ends = [asyncio.create_task(context.stopping.wait()), asyncio.create_task(leader.over.wait())]
    try:
        await asyncio.wait((task, *ends), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in (task, *ends):
            one.cancel()
        await asyncio.wait((task, *ends))
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
    if not context.stopping.is_set():
        raise ServiceError(_LOST)


@asynccontextmanager
async def _means(context: Context, cluster: Cluster, edge: Edge, metrics: Metrics) -> AsyncIterator[Means]:
    settings = context.settings
    recorder_settings = RecorderSettings(controller=CONTROLLER, instance=settings.instance)
    recorder = EventRecorder(cluster.client, recorder_settings, metrics=metrics)
    teller = Teller(recorder)
    statuses = Statuses(cluster, edge.index.cache_pods, teller, metrics)
    ways = Ways(settings.rpc_traffic_policy, await _worker_program(cluster, settings))
    options = Options(now=lambda: datetime.now(UTC), ways=ways, wake=edge.wake, metrics=metrics)
    backend = KubernetesBackend(cluster, edge, teller, options)
    async with asyncio.TaskGroup() as group:
        running = [
            group.create_task(recorder.run(), name="Events"),
            group.create_task(statuses.run(), name="statuses"),
        ]
        try:
            yield Means(backend, _Both(edge.speaker, statuses), Service.POD_WATCHER)
        finally:
            for task in running:
                task.cancel()


async def _worker_program(cluster: Cluster, settings: PlacementSettings) -> WorkerProgram:
    """Have transfer workers run in our own image, which holds them, unless a setting names another."""
    image = settings.transfer_image
    if image is None:
        pod = settings.instance.partition("_")[0]
        image = await image_of(cluster.client, settings.lease_namespace, pod)
    return WorkerProgram(image or f"localhost/kvberth:{version('kvberth')}", settings.transfer_nats_url or "")


class _Both:
    """Says statuses on the bus and in the KVCaches themselves."""

    def __init__(self, bus: Speaker, statuses: Statuses) -> None:
        self._bus, self._statuses = bus, statuses

    def say(self, status: KVCacheStatusV1, before: KVCacheStatusV1 | None) -> None:
        self._bus.say(status, before)
        self._statuses.say(status, before)

    def say_gone(self, namespace: str, name: str) -> None:
        self._bus.say_gone(namespace, name)
        self._statuses.say_gone(namespace, name)
