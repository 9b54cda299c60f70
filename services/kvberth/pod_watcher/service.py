"""Puts the pod watcher together: watches on every replica, and a voice on the bus for the one that holds the Lease."""

import asyncio

from kvberth.bus import Absent, Bus, BusSettings, View, Writer
from kvberth.bus.readiness import lacks_saying, taken_over
from kvberth.kube import Client, Election, KubeSettingsError, Leadership, Metrics
from kvberth.pod_watcher.index import Index
from kvberth.pod_watcher.owners import Owners
from kvberth.pod_watcher.settings import PodWatcherSettings
from kvberth.pod_watcher.speaker import Speaker
from kvberth.pod_watcher.watches import Watches
from kvberth.service import ServiceContext, ServiceError
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import Entity, EventSubject, Service, events_of

SERVICE = Service.POD_WATCHER.value

_ENTITIES = (Entity.POD, Entity.NODE, Entity.SPEC)
_LOOK_S = 1.0  # at whether another one took over, if nothing says that it changed
_DEPOSED = taken_over(
    "writer of pods, nodes or KVCaches", "a bus belongs to one cluster, and to no bare scheduler beside it"
)

Context = ServiceContext[PodWatcherSettings]


async def main(context: Context) -> None:
    """Watch until told to stop, and speak while the Lease is held.

    Raises:
        ServiceError: there is no way to an API server, or another writer took over on the bus.
    """
    try:
        async with Client(context.settings.client()) as client:
            await _Watcher(context, client).run()
    except KubeSettingsError as error:
        raise ServiceError(f"{error}.") from error


class _Watcher:
    """The parts of one running pod watcher."""

    def __init__(self, context: Context, client: Client) -> None:
        self._context, self._settings = context, context.settings
        metrics = Metrics(context.telemetry)
        self._woken = asyncio.Event()
        self._index = Index(lambda namespace: _is_watched(self._settings, namespace))
        self._watches = Watches(client, self._settings, self._index, metrics, self._changed)
        self._owners = Owners(client, self._index, self._woken.set, metrics)
        self._election = Election(client, self._settings.lease(), metrics=metrics)
        self._writer: Writer | None = None

    async def run(self) -> None:
        self._show()
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(self._watches.run(), name="watches"),
                group.create_task(self._owners.run(), name="owners"),
                group.create_task(self._lead(), name="lease"),
            ]
            await self._context.stopping.wait()
            for task in running:
                task.cancel()

    def _show(self) -> None:
        self._context.checks.register("watches", lambda: self._watches.complaint)
        self._context.checks.register("events", self._complaint)
        age = "Seconds since a watch last said something, bookmarks included."
        self._context.telemetry.observe_each(
            "kvberth.pod.watcher.watch.age", age, "watch", lambda: self._watches.ages, "s"
        )

    def _changed(self) -> None:
        """Something changed: whoever leads says it; whoever does not only keeps it."""
        self._owners.ask()
        if self._writer is None:
            self._index.take_touched()
        self._woken.set()

    async def _lead(self) -> None:
        await self._watches.wait_synced()  # who has seen nothing yet is no candidate
        await self._election.run(self._speak)

    async def _speak(self, leadership: Leadership) -> None:
        settings = BusSettings.of(self._settings, Service.POD_WATCHER, term=leadership.term)
        patterns = [events_of(entity) for entity in _ENTITIES]
        async with Bus(settings, self._context.telemetry) as bus:
            async with bus.view(patterns) as view:
                said = await _all_said(view)
            speaker = Speaker(self._index, said, self._context.telemetry)
            writer = bus.writer(patterns, absent=Absent.GONE, gone=speaker.gone)
            async with writer, bus.heart([writer], self._is_whole):
                self._writer = writer
                try:
                    await self._follow(speaker, writer)
                finally:
                    self._writer = None

    async def _follow(self, speaker: Speaker, writer: Writer) -> None:
        self._index.touch_all()
        await speaker.speak(writer)
        writer.ready()
        while not writer.deposed:
            await self._sleep()
            await speaker.speak(writer)
        raise ServiceError(_DEPOSED)

    async def _sleep(self) -> None:
        """Wait until something changed, a little longer right after other changes."""
        await asyncio.sleep(self._settings.coalesce_s)
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()

    def _is_whole(self) -> bool:
        """Whether our word counts: every watch is live, and all that it told is said."""
        return self._watches.live and self._index.whole

    def _complaint(self) -> str | None:
        if self._election.term is None:
            return None  # another one speaks
        if self._writer is None:
            return f"No NATS with its streams at {self._settings.nats_url} yet."
        return lacks_saying(_DEPOSED, self._writer)


async def _all_said(view: View) -> dict[EventSubject, Event]:
    """What the stream holds; an earlier life, or the replica before, said it."""
    while not view.complete:
        await view.changed(_LOOK_S)
    return {
        subject: row.message
        for subject, row in view.rows.items()
        if isinstance(subject, EventSubject) and isinstance(row.message, Event)
    }


def _is_watched(settings: PodWatcherSettings, namespace: str | None) -> bool:
    return namespace is None or not settings.namespaces or namespace in settings.namespaces
