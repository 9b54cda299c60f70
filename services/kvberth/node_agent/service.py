"""Puts the node agent together: wants in, directories and sockets looked after, caches proven, events out.

One bus connection, one writer of this node's events. Nothing is decided here.
"""

import asyncio
import time
from collections.abc import Mapping

from kvberth.bus import Absent, Bus, BusSettings, Row, View, Writer
from kvberth.bus.readiness import lacks_connection, lacks_reading, lacks_saying
from kvberth.node_agent.claim import claim_of, deposed_sentence
from kvberth.node_agent.evidence import Evidence
from kvberth.node_agent.health.keeper import HealthKeeper
from kvberth.node_agent.health.metrics import ProofMetrics
from kvberth.node_agent.health.watcher import Pace as ProofPace
from kvberth.node_agent.settings import NodeAgentSettings
from kvberth.node_agent.sockets.keeper import Keeper, KeeperSettings
from kvberth.node_agent.sockets.plan import CacheKey, DirWant
from kvberth.node_agent.sockets.watcher import Pace, Surroundings
from kvberth.node_agent.sockets.watches import DirectoryWatches, open_watches
from kvberth.service import ServiceContext, TakenOverError, claimed
from kvberth_schemas import subjects
from kvberth_schemas.events import CacheHealthGoneV1, CacheHealthV1, SocketGoneV1, SocketLostV1, SocketReadyV1
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import Entity, EventSubject, Service, WantKind, WantSubject
from kvberth_schemas.wants import DirWantV1

SERVICE = Service.NODE_AGENT.value

_LOOK_S = 1.0  # at the view, and at whether another agent took over, if nothing says that it changed

Context = ServiceContext[NodeAgentSettings]
HealthEvent = CacheHealthV1 | CacheHealthGoneV1
SocketEvent = SocketReadyV1 | SocketLostV1 | SocketGoneV1


async def main(context: Context) -> None:
    """Run the agent until it is told to stop; what it said stays on the bus, and turns unknown with its silence.

    Raises:
        ServiceError: another agent has the node; this one may do nothing.
    """
    settings = context.settings
    with claimed(claim_of(settings), time.time()) as term:
        bus_settings = BusSettings.of(settings, Service.NODE_AGENT, node=settings.node, term=term)
        async with open_watches() as watches, Bus(bus_settings, context.telemetry) as bus:
            await _Agent(context, watches, bus).run()


class _Agent:
    """The parts of one running agent."""

    def __init__(self, context: Context, watches: DirectoryWatches, bus: Bus) -> None:
        self._context = context
        self._node = context.settings.node
        self._watches = watches
        self._bus = bus
        self._keeper: Keeper | None = None
        self._health: HealthKeeper | None = None
        self._evidence = Evidence(context.lag, context.telemetry)

    async def run(self) -> None:
        wants = self._bus.view([subjects.wants_of(WantKind.DIR, self._node)])
        said = [subjects.events_of(entity, self._node) for entity in (Entity.SOCKET, Entity.HEALTH)]
        writer = self._bus.writer(said, absent=Absent.GONE, gone=self._not_found, found=self._found)
        async with wants, writer, self._bus.heart([writer]), asyncio.TaskGroup() as group:
            health = self._health = self._make_health(group, writer)
            keeper = self._keeper = self._make_keeper(group, writer, health)
            url = self._context.settings.nats_url
            self._context.checks.register("bus", lambda: lacks_connection(self._bus, url))
            self._context.checks.register("wants", lambda: lacks_reading(wants, "wants of this node"))
            self._context.checks.register("sockets", lambda: self._sockets_complaint(keeper, writer))
            handing_out = group.create_task(self._watches.run(), name="inotify")
            readying = group.create_task(_ready_after_looks(keeper, health, writer), name="first looks")
            applying = group.create_task(self._apply(wants, keeper, writer), name="wants")
            purges = group.create_task(self._look_for_purges(wants), name="purges")
            await self._context.stopping.wait()
            for task in (handing_out, readying, applying, purges):
                task.cancel()
            keeper.stop()
            health.stop()

    def _make_health(self, group: asyncio.TaskGroup, writer: Writer) -> HealthKeeper:
        def speak(event: HealthEvent) -> None:
            writer.put(subjects.health(self._node, event.namespace, event.cache), event)

        pace = ProofPace(period_s=self._context.settings.proof_s)
        return HealthKeeper(group, pace, self._evidence, speak, ProofMetrics(self._context.telemetry))

    def _make_keeper(self, group: asyncio.TaskGroup, writer: Writer, health: HealthKeeper) -> Keeper:
        settings = self._context.settings
        around = Surroundings(
            watches=self._watches,
            pace=Pace(recheck_s=settings.recheck_s, answer_s=settings.answer_s),
            lagged=self._evidence.lagged,
        )

        changes = self._context.telemetry.counter(
            "kvberth.node.agent.socket.changes", "What was said about sockets, by the event's type."
        )

        def speak(event: SocketEvent, cause: str | None, traceparent: str | None) -> None:
            subject = subjects.socket(self._node, event.namespace, event.cache)
            writer.put(subject, event, cause=cause, traceparent=traceparent)
            changes.add(1, {"type": event.ce_type})
            health.follow(event)

        keeper_settings = KeeperSettings(node=self._node, root=settings.root, empty_after_s=settings.empty_after_s)
        return Keeper(keeper_settings, group, around, speak, self._context.telemetry.handling)

    async def _apply(self, wants: View, keeper: Keeper, writer: Writer) -> None:
        """Apply the wants at every change, until cancelled or taken over."""
        while True:
            if writer.deposed:
                raise TakenOverError(deposed_sentence(self._node))
            if wants.complete:
                keeper.apply(_dir_wants(wants.rows))
            await wants.changed(_LOOK_S)

    async def _look_for_purges(self, wants: View) -> None:
        """Read the wants anew now and then while a drop waits to be forgotten; a view is told of no purge."""
        while True:
            await asyncio.sleep(self._context.settings.reread_s)
            if any(want.state == "drop" for want in _dir_wants(wants.rows).values()):
                wants.reread()

    def _sockets_complaint(self, keeper: Keeper, writer: Writer) -> str | None:
        if not keeper.looked.is_set() and not writer.deposed:
            return "Not every directory was looked at yet."
        return lacks_saying(deposed_sentence(self._node), writer)

    def _found(self, row: Row) -> None:
        """Let an earlier life's proofs be remembered."""
        if self._health is not None and isinstance(row.message, HealthEvent):
            self._health.recall(row.message)

    def _not_found(self, row: Row) -> Event | None:
        """What to say of a row that an earlier life wrote and no want speaks of: only a drop ends the keeping."""
        subject = row.subject
        if (
            isinstance(row.message, SocketGoneV1 | CacheHealthGoneV1)
            or not isinstance(subject, EventSubject)
            or subject.namespace is None
        ):
            return None
        if self._keeper is not None and self._keeper.adopt(CacheKey(subject.namespace, subject.object)):
            return None
        gone = CacheHealthGoneV1 if subject.entity is Entity.HEALTH else SocketGoneV1
        return gone(cache=subject.object, namespace=subject.namespace, node=self._node)


async def _ready_after_looks(keeper: Keeper, health: HealthKeeper, writer: Writer) -> None:
    await keeper.looked.wait()
    await health.judged()
    writer.ready()


def _dir_wants(rows: Mapping[EventSubject | WantSubject, Row]) -> dict[CacheKey, DirWant]:
    return {
        CacheKey(subject.namespace, subject.object): DirWant.of(row.message, row.envelope.id, row.envelope.traceparent)
        for subject, row in rows.items()
        if isinstance(subject, WantSubject) and isinstance(row.message, DirWantV1)
    }
