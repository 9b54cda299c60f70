"""The scheduler as a service: its directory, its part of the bus, and the loop that drives it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from kvberth.bare.scheduler.api import answer_requests
from kvberth.bare.scheduler.messages import gone_event
from kvberth.bare.scheduler.metrics import SchedulerMetrics
from kvberth.bare.scheduler.observe import Observer
from kvberth.bare.scheduler.publish import Publisher
from kvberth.bare.scheduler.scheduler import DEPOSED, Scheduler
from kvberth.bare.scheduler.settings import SchedulerSettings
from kvberth.bare.scheduler.store import Store
from kvberth.bare.scheduler.turn import Limits
from kvberth.bus import Absent, Bus, BusSettings, Row, View, Writer
from kvberth.bus.readiness import lacks_connection, lacks_saying
from kvberth.service import ServiceContext, ServiceError
from kvberth.service.threads import in_thread
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import Entity, Service, WantKind, events_of, wants_of

_log = structlog.stdlib.get_logger(__name__)


async def main(context: ServiceContext[SchedulerSettings]) -> None:
    """Schedule until told to stop. Raises ServiceError when another scheduler has the state directory."""
    with await in_thread(lambda: _open_store(context.settings), "reading the state directory") as store:
        for problem in store.problems:
            _log.error(problem)
        bus_settings = BusSettings.of(context.settings, Service.SCHEDULER, term=store.term)
        async with Bus(bus_settings, context.telemetry) as bus:
            await _schedule(context, store, bus)


async def _schedule(context: ServiceContext[SchedulerSettings], store: Store, bus: Bus) -> None:
    settings = context.settings
    limits = Limits(settings.not_ready_after_s, settings.not_ready_eviction_s)
    async with (
        bus.view([events_of(Entity.PROCESS), events_of(Entity.NODE)]) as view,
        bus.liveness() as liveness,
        _writers(bus) as (facts, wants),
        bus.heart([facts, wants]),
    ):
        observer = Observer(view, liveness, settings.not_ready_after_s)
        publisher = Publisher(facts, wants, store.term, store.next_version)
        metrics = SchedulerMetrics(context.telemetry)
        scheduler = Scheduler(store, observer, publisher, limits, metrics)
        metrics.observe(lambda: scheduler.state, lambda: len(observer.not_ready()))
        _register_checks(context, bus, scheduler, (facts, wants))
        context.checks.register("said", lambda: publisher.fault)
        async with scheduler, asyncio.TaskGroup() as group, answer_requests(bus, scheduler, observer, metrics):
            purging = group.create_task(publisher.purge(), name="purge wants")
            await _loop(context, scheduler, view, (facts, wants))
            purging.cancel()


def _open_store(settings: SchedulerSettings) -> Store:
    directory = settings.state / "scheduler"
    try:
        return Store(directory, time.time())
    except OSError as error:
        raise ServiceError(
            f"The directory {directory} can't be read and written ({error.strerror}); make it so, or set KVBERTH_STATE."
        ) from error


async def _loop(
    context: ServiceContext[SchedulerSettings], scheduler: Scheduler, view: View, writers: tuple[Writer, Writer]
) -> None:
    while not context.stopping.is_set():
        await scheduler.tick()
        if scheduler.began:
            for writer in writers:
                writer.ready()  # everything known has been put: from now on what is not is gone
        await view.changed(context.settings.tick_s)


@asynccontextmanager
async def _writers(bus: Bus) -> AsyncIterator[tuple[Writer, Writer]]:
    patterns = [events_of(entity) for entity in (Entity.POD, Entity.NODE, Entity.SPEC)]
    async with (
        bus.writer(patterns, absent=Absent.GONE, gone=_gone) as facts,
        bus.writer([wants_of(WantKind.ENGINE)], absent=Absent.KEEP) as wants,
    ):
        yield facts, wants


def _gone(row: Row) -> Event | None:
    return gone_event(row.message) if isinstance(row.message, Event) else None


def _register_checks(
    context: ServiceContext[SchedulerSettings], bus: Bus, scheduler: Scheduler, writers: tuple[Writer, Writer]
) -> None:
    context.checks.register("bus", lambda: lacks_connection(bus, context.settings.nats_url))
    context.checks.register("state", lambda: scheduler.fault)
    context.checks.register(
        "began", lambda: None if scheduler.began else "The processes on the bus have not been read whole yet."
    )
    context.checks.register("streams", lambda: lacks_saying(DEPOSED, *writers))
