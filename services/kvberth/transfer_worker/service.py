"""Puts the transfer worker together: one per cache's directory, its thread, its metrics and readiness.

Nothing is decided here.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kvberth.bus import Bus, BusSettings
from kvberth.service import ServiceContext, ServiceError
from kvberth.service.lock import DirectoryLock, take
from kvberth.store.vineyard_memory import VineyardMemory
from kvberth.transfer_worker.account import Account
from kvberth.transfer_worker.metrics import register_metrics
from kvberth.transfer_worker.settings import TransferWorkerSettings
from kvberth.transfer_worker.teller import tell
from kvberth.transfer_worker.worker import Worker, WorkerSettings
from kvberth_schemas.subjects import Service

SERVICE = "transfer_worker"
_LOOK_S = 0.2  # at the thread, which may have failed

Context = ServiceContext[TransferWorkerSettings]


async def main(context: Context) -> None:
    """Serves until it is told to stop.

    Raises:
        ServiceError: another worker has the directory, or it can't be used.
    """
    settings = context.settings
    path = settings.directory / "kvberth.lock"
    lock = DirectoryLock(path, "transfer worker", "a cache has one, end that one first")
    try:
        held = take(lock)
    except OSError as error:
        raise ServiceError(f"The directory {settings.directory} can't be used ({error.strerror}).") from error
    with held:
        worker = Worker(worker_settings(settings))
        register_metrics(context.telemetry, lambda: worker.snapshot)
        context.checks.register("store", lambda: worker.snapshot.complaint)
        context.checks.register("books", lambda: "; ".join(worker.snapshot.faults) or None)
        try:
            worker.start()
        except OSError as error:
            raise ServiceError(f"No socket can be made in {settings.directory} ({error.strerror}).") from error
        try:
            async with _telling(context, worker):
                await _run(context, worker)
        finally:
            await asyncio.to_thread(worker.close)
        if worker.failed is not None:
            raise worker.failed


@asynccontextmanager
async def _telling(context: Context, worker: Worker) -> AsyncIterator[None]:
    """Tells the bus, where it is known which one and of whose cache. That it is away makes nobody unready."""
    whose = context.settings.whose
    if whose is None:
        yield
        return
    settings = BusSettings.of(context.settings, Service.TRANSFER_WORKER, node=whose.node, term=int(time.time()))
    async with Bus(settings, context.telemetry) as bus, asyncio.TaskGroup() as group:
        account = Account(whose, time.monotonic())
        task = group.create_task(tell(bus, account, lambda: worker.snapshot), name="telling")
        try:
            yield
        finally:
            task.cancel()


async def _run(context: Context, worker: Worker) -> None:
    while worker.failed is None:
        try:
            async with asyncio.timeout(_LOOK_S):
                await context.stopping.wait()
                return
        except TimeoutError:
            continue


def worker_settings(settings: TransferWorkerSettings) -> WorkerSettings:
    """What the thread gets of the settings."""
    directory = settings.directory

    def open_store() -> VineyardMemory:
        return VineyardMemory.open(
            directory / "vineyard.sock", directory / "store.json", settings.geometry, settings.checksum
        )

    return WorkerSettings(
        directory,
        settings.budget,
        int(settings.grant_s * 1e9),
        settings.scrub_mib_s << 20,
        int(settings.shard_wait_s * 1e9),
        open_store,
    )
