"""The others on the bus, as placement's tests play them: a scheduler, and a node's runner and agent."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvberth.bus import Absent, Bus, BusSettings, Row, View, Writer
from kvberth.placement.service import main
from kvberth.placement.settings import PlacementSettings
from kvberth.service import ServiceError, Telemetry, open_context
from kvberth_schemas import subjects
from kvberth_schemas.events import KVCacheStatusV1
from kvberth_schemas.requests import WorkloadReply, WorkloadRequest
from kvberth_schemas.subjects import Entity, EventSubject, Service, Verb, WantKind, events_of, wants_of
from kvberth_schemas.wants import CacheWantV1, DirWantV1
from support.placement_world import NAMESPACE, World


@asynccontextmanager
async def placement(url: str, state: Path) -> AsyncIterator[None]:
    """The service, within this loop, ended at the end."""
    settings = PlacementSettings(nats_url=url, state=state)
    telemetry = Telemetry("placement")
    try:
        async with open_context("placement", settings, telemetry) as context, asyncio.TaskGroup() as group:
            running = group.create_task(main(context))
            try:
                yield
            finally:
                context.stopping.set()
                async with asyncio.timeout(5):
                    await asyncio.wait({running})
    finally:
        await asyncio.to_thread(telemetry.shutdown)


@dataclass
class Cluster:
    """A scheduler and the nodes, which say what a `World` says, and a reader of what placement says."""

    world: World
    states: View
    wants: View
    _writers: dict[str | None, Writer] = field(default_factory=dict)
    workload: WorkloadReply = field(default_factory=lambda: WorkloadReply(found=True, wanted=1, bound=1))
    asked: int = 0
    mute: bool = False
    """Answer no live read."""

    def publish(self) -> None:
        """Say everything that the world says by now."""
        for subject, (event, _) in self.world.states.items():
            self._writers[subject.node].put(subject, event)

    def want(self, what: WantKind, node: str, name: str = "kv") -> CacheWantV1 | DirWantV1 | None:
        row = self.wants.rows.get(subjects.want(what, node, NAMESPACE, name))
        return row.message if row is not None and isinstance(row.message, CacheWantV1 | DirWantV1) else None

    def want_row(self, what: WantKind, node: str, name: str = "kv") -> Row:
        return self.wants.rows[subjects.want(what, node, NAMESPACE, name)]

    def wanted(self, node: str, name: str = "kv") -> str | None:
        want = self.want(WantKind.CACHE, node, name)
        return want.state if want is not None else None

    def status(self, name: str = "kv") -> KVCacheStatusV1 | None:
        row = self.states.rows.get(subjects.status(NAMESPACE, name))
        return row.message if row is not None and isinstance(row.message, KVCacheStatusV1) else None

    def ready(self, name: str = "kv") -> str:
        """Status and reason of `Ready`."""
        status = self.status(name)
        found = [item for item in status.conditions if item.type == "Ready"] if status is not None else []
        return f"{found[0].status} {found[0].reason}" if found else ""

    async def answer(self, asked: WorkloadRequest) -> WorkloadReply:
        self.asked += 1
        if self.mute:
            raise ServiceError("The scheduler has not read the bus yet.")
        return self.workload


def _nothing(_: Row) -> None:
    return None


@asynccontextmanager
async def cluster(url: str, nodes: tuple[str, ...] = ("a", "b")) -> AsyncIterator[Cluster]:
    """Everybody but placement, alive until the end."""
    async with _speaker(url, Service.SCHEDULER, None) as (bus, scheduler):
        views = (
            bus.view([events_of(Entity.STATUS)]),
            bus.view([wants_of(WantKind.CACHE), wants_of(WantKind.DIR)]),
        )
        async with views[0], views[1], _nodes(url, nodes) as writers:
            found = Cluster(World(), views[0], views[1], {None: scheduler, **writers})
            async with bus.respond(Verb.WORKLOAD, WorkloadRequest, found.answer):
                yield found


@asynccontextmanager
async def _nodes(url: str, nodes: tuple[str, ...]) -> AsyncIterator[dict[str | None, Writer]]:
    if not nodes:
        yield {}
        return
    async with (
        _nodes(url, nodes[1:]) as others,
        _speaker(url, Service.RUNNER, nodes[0]) as (_, runner),
        _speaker(url, Service.NODE_AGENT, nodes[0]) as (_, agent),
    ):
        yield {**others, nodes[0]: _Both(runner, agent)}  # type: ignore[dict-item]


class _Both:
    """The writer of a node: the runner's for processes, the agent's for sockets and health."""

    def __init__(self, runner: Writer, agent: Writer) -> None:
        self._writers = {Entity.PROCESS: runner, Entity.SOCKET: agent, Entity.HEALTH: agent}

    def put(self, subject: EventSubject, event: Any) -> None:
        self._writers[subject.entity].put(subject, event)


_WRITES = {
    Service.SCHEDULER: (Entity.POD, Entity.NODE, Entity.SPEC),
    Service.RUNNER: (Entity.PROCESS,),
    Service.NODE_AGENT: (Entity.SOCKET, Entity.HEALTH),
}


@asynccontextmanager
async def _speaker(url: str, service: Service, node: str | None) -> AsyncIterator[tuple[Bus, Writer]]:
    settings = BusSettings(url=url, service=service, instance=f"{service}-{node}", node=node, term=int(time.time()))
    patterns = [events_of(entity, node) for entity in _WRITES[service]]
    async with Bus(settings) as bus:
        writer = bus.writer(patterns, absent=Absent.GONE, gone=_nothing)
        async with writer, bus.heart([writer]):
            writer.ready()
            yield bus, writer
