"""Puts the node agent together: wants in, directories and sockets looked after, events out.

One bus connection, one writer of this node's socket events. Nothing is decided here.
"""

import asyncio
from collections.abc import Mapping

from kvberth.bus import Absent, Bus, BusSettings, Row, View, Writer
from kvberth.node_agent.settings import NodeAgentSettings
from kvberth.node_agent.sockets.evidence import Evidence
from kvberth.node_agent.sockets.keeper import Keeper, KeeperSettings
from kvberth.node_agent.sockets.plan import CacheKey, DirWant
from kvberth.node_agent.sockets.watcher import Pace, Surroundings
from kvberth.node_agent.sockets.watches import DirectoryWatches, open_watches
from kvberth.service import ServiceContext
from kvberth_schemas import subjects
from kvberth_schemas.events import SocketGoneV1, SocketLostV1, SocketReadyV1
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import Entity, EventSubject, Service, WantKind, WantSubject
from kvberth_schemas.wants import DirWantV1

SERVICE = Service.NODE_AGENT.value

_LOOK_S = 5.0  # at the view, if it never says that it changed

Context = ServiceContext[NodeAgentSettings]
SocketEvent = SocketReadyV1 | SocketLostV1 | SocketGoneV1


async def main(context: Context) -> None:
    """Run the agent until it is told to stop; what it said stays on the bus, and turns unknown with its silence."""
    settings = context.settings
    bus_settings = BusSettings(
        url=settings.nats_url, service=Service.NODE_AGENT, instance=settings.instance, node=settings.node
    )
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

    async def run(self) -> None:
        wants = self._bus.view([subjects.wants_of(WantKind.DIR, self._node)])
        writer = self._bus.writer(
            [subjects.events_of(Entity.SOCKET, self._node)], absent=Absent.GONE, gone=self._not_found
        )
        async with wants, writer, self._bus.heart([writer]), asyncio.TaskGroup() as group:
            keeper = self._keeper = self._make_keeper(group, writer)
            self._context.checks.register("wants", lambda: _wants_complaint(wants))
            self._context.checks.register("sockets", lambda: _sockets_complaint(keeper, writer))
            handing_out = group.create_task(self._watches.run(), name="inotify")
            readying = group.create_task(_ready_after_looks(keeper, writer), name="first looks")
            applying = group.create_task(_apply(wants, keeper), name="wants")
            await self._context.stopping.wait()
            for task in (handing_out, readying, applying):
                task.cancel()
            keeper.stop()

    def _make_keeper(self, group: asyncio.TaskGroup, writer: Writer) -> Keeper:
        settings = self._context.settings
        evidence = Evidence(self._context.lag, self._context.telemetry)
        around = Surroundings(
            watches=self._watches,
            pace=Pace(recheck_s=settings.recheck_s, answer_s=settings.answer_s),
            lagged=evidence.lagged,
        )

        changes = self._context.telemetry.counter(
            "kvberth.node.agent.socket.changes", "What was said about sockets, by the event's type."
        )

        def speak(event: SocketEvent, cause: str | None, traceparent: str | None) -> None:
            subject = subjects.socket(self._node, event.namespace, event.cache)
            writer.put(subject, event, cause=cause, traceparent=traceparent)
            changes.add(1, {"type": event.ce_type})

        keeper_settings = KeeperSettings(node=self._node, root=settings.root, empty_after_s=settings.empty_after_s)
        return Keeper(keeper_settings, group, around, speak)

    def _not_found(self, row: Row) -> Event | None:
        """What to say of a row that an earlier life wrote and no want speaks of: only a drop ends the keeping."""
        subject = row.subject
        if isinstance(row.message, SocketGoneV1) or not isinstance(subject, EventSubject) or subject.namespace is None:
            return None
        if self._keeper is not None and self._keeper.adopt(CacheKey(subject.namespace, subject.object)):
            return None
        return SocketGoneV1(cache=subject.object, namespace=subject.namespace, node=self._node)


async def _apply(wants: View, keeper: Keeper) -> None:
    while True:
        if wants.complete:
            keeper.apply(_dir_wants(wants.rows))
        await wants.changed(_LOOK_S)


async def _ready_after_looks(keeper: Keeper, writer: Writer) -> None:
    await keeper.looked.wait()
    writer.ready()


def _dir_wants(rows: Mapping[EventSubject | WantSubject, Row]) -> dict[CacheKey, DirWant]:
    return {
        CacheKey(subject.namespace, subject.object): DirWant.of(row.message, row.envelope.id, row.envelope.traceparent)
        for subject, row in rows.items()
        if isinstance(subject, WantSubject) and isinstance(row.message, DirWantV1)
    }


def _wants_complaint(wants: View) -> str | None:
    return None if wants.complete else "The wants of this node are not all read yet: is the bus there?"


def _sockets_complaint(keeper: Keeper, writer: Writer) -> str | None:
    if not keeper.looked.is_set():
        return "Not every directory was looked at yet."
    return None if writer.complete else "What is known is not all on the bus yet."
