"""Runs one node: reads the wants, decides, carries out, reports. Its processes outlive it."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import structlog

from kvberth.bare.process.store import RecordStore
from kvberth.bare.runner import reports
from kvberth.bare.runner.claim import claim_of
from kvberth.bare.runner.decide import Decision, Snapshot, decide
from kvberth.bare.runner.graves import Graves
from kvberth.bare.runner.keeper import Keeper
from kvberth.bare.runner.node import registration
from kvberth.bare.runner.record import Key, Record
from kvberth.bare.runner.register import keep_registered
from kvberth.bare.runner.roles import NodeRoles
from kvberth.bare.runner.settings import RunnerSettings
from kvberth.bare.runner.wantbook import WantBook
from kvberth.bus import Absent, Bus, BusSettings, Row, View, Writer
from kvberth.bus.readiness import lacks_connection, lacks_reading, lacks_saying, taken_over
from kvberth.service import ServiceContext, TakenOverError, claimed
from kvberth_schemas import subjects
from kvberth_schemas.events import ProcessEndedV1, ProcessGoneV1, ProcessStartedV1
from kvberth_schemas.subjects import Entity, Service, WantKind

TICK_S = 1.0
"""Decisions are made at every change, and this often without one."""

_log = structlog.get_logger(__name__)


async def main(context: ServiceContext[RunnerSettings]) -> None:
    """Run the node until the service is told to stop. Raises ServiceError when another runner has the node."""
    settings = context.settings
    request = registration(settings.node, settings.root, settings.node_file)
    with claimed(claim_of(settings.node_directory, settings.node), time.time()) as term:
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(Bus(_bus_settings(settings, term), context.telemetry))
            keeper = await stack.enter_async_context(_keeper(settings))
            patterns = [subjects.wants_of(what, settings.node) for what in (WantKind.ENGINE, WantKind.CACHE)]
            view = await stack.enter_async_context(bus.view(patterns))
            node = Node(settings, keeper, view)
            writer = await stack.enter_async_context(_writer(bus, node))
            await stack.enter_async_context(bus.heart([writer]))
            liveness = await stack.enter_async_context(bus.liveness())
            _register_checks(context, bus, view, writer)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            tasks = [
                group.create_task(keep_registered(bus, liveness, view, request), name="registration"),
                group.create_task(_listen(view, keeper), name="wants"),
                group.create_task(node.run(writer), name="decisions"),
                group.create_task(node.look_for_purges(), name="purges"),
            ]
            await context.stopping.wait()
            for task in tasks:
                task.cancel()


@dataclass
class Node:
    """The decisions of one node, one after the other."""

    settings: RunnerSettings
    keeper: Keeper
    view: View
    book: WantBook = field(default_factory=WantBook)
    _said: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.book.adopt(self.keeper.records.values())

    async def run(self, writer: Writer) -> None:
        """Decide at every change, until cancelled.

        Raises:
            ServiceError: another runner of this node has taken over; from then on this one may do nothing.
        """
        while True:
            if writer.deposed:
                raise TakenOverError(_deposed(self.settings.node))
            decisions = decide(self._snapshot())
            self._say(decisions, writer)
            if self.book.read:  # before, an answer to a stop of something that never ran would be taken back
                writer.ready()
            for decision in decisions.values():
                for step in decision.steps:
                    self.keeper.carry_out(step, self.book.wants.get(step.key))
            await self.keeper.changed(self._wait_s(decisions))

    async def look_for_purges(self) -> None:
        """Read the wants anew now and then while an end waits to be forgotten; a view is told of no purge."""
        while True:
            await asyncio.sleep(self.settings.reread_s)
            if any(wanted.want.state == "stop" for wanted in self.book.wants.values()):
                self.view.reread()

    def gone(self, row: Row) -> ProcessGoneV1 | None:
        """Say that a process is gone, if really nothing is known of it: the bus found it in the stream."""
        event = row.message
        if not isinstance(event, ProcessStartedV1 | ProcessEndedV1):
            return None
        key = Key(event.role, event.namespace, event.owner)
        if key in self.keeper.records:  # being started, or its pid is being looked for
            return None
        return reports.gone(self.settings.node, key)

    def _snapshot(self) -> Snapshot:
        complete = self.view.complete
        self.book.update(self.view.rows.values(), self.view.unreadable, complete=complete)
        return Snapshot(
            wants=self.book.wants,
            records=self.keeper.records,
            now=self.keeper.clock(),
            node=self.settings.node,
            engine_backoff_s=self.settings.engine_backoff_s,
            wants_known=complete,
            graves=self.keeper.graves.keys,
        )

    def _say(self, decisions: Mapping[Key, Decision], writer: Writer) -> None:
        for key, decision in decisions.items():
            if decision.report is not None:
                report = decision.report
                subject = reports.subject_of(self.settings.node, key)
                writer.put(subject, report.event, cause=report.cause, traceparent=report.traceparent)
                self._said.add(key)
        for key in self._said - decisions.keys():
            writer.forget(reports.subject_of(self.settings.node, key))
            self._said.discard(key)

    def _wait_s(self, decisions: Mapping[Key, Decision]) -> float:
        due = [decision.wake_at for decision in decisions.values() if decision.wake_at is not None]
        return min(max(min(due) - self.keeper.clock(), 0.0), TICK_S) if due else TICK_S


async def _listen(view: View, keeper: Keeper) -> None:
    while True:
        if await view.changed(TICK_S):
            keeper.poke()


def _keeper(settings: RunnerSettings) -> Keeper:
    roles = NodeRoles(settings.root, settings.node_directory / "logs", settings.engine_argv)
    store = RecordStore(settings.node_directory / "records", Record)
    return Keeper(store, Graves(settings.node_directory / "ended.json"), roles)


def _writer(bus: Bus, node: Node) -> Writer:
    pattern = subjects.events_of(Entity.PROCESS, node.settings.node)
    return bus.writer([pattern], absent=Absent.GONE, gone=node.gone)


def _bus_settings(settings: RunnerSettings, term: int) -> BusSettings:
    return BusSettings.of(settings, Service.RUNNER, node=settings.node, term=term)


def _deposed(node: str) -> str:
    return taken_over(f"runner of the node {node}", "a node has one runner with one KVBERTH_STATE")


def _register_checks(context: ServiceContext[RunnerSettings], bus: Bus, view: View, writer: Writer) -> None:
    settings, register = context.settings, context.checks.register
    register("bus", lambda: lacks_connection(bus, settings.nats_url))
    register("wants", lambda: lacks_reading(view, "wants of this node"))
    register("processes", lambda: lacks_saying(_deposed(settings.node), writer))
