"""Puts placement together: views and signs of life in, plans made, wants and statuses out."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import structlog

from kvberth.bus import Absent, Bus, BusError, BusSettings, Row, Writer
from kvberth.bus.readiness import lacks_connection, lacks_saying, taken_over
from kvberth.placement.apply import ApplyError, Backend
from kvberth.placement.apply.bare import BareBackend
from kvberth.placement.means import Edge, Make, Means
from kvberth.placement.observe import Index
from kvberth.placement.planner import Planner, Questions, wait_s
from kvberth.placement.settings import PlacementSettings
from kvberth.placement.snapshot import LiveWorkload
from kvberth.placement.states import WorkloadKey
from kvberth.placement.watch import Watch
from kvberth.service import Claim, DirectoryLock, ServiceContext, TakenOverError, claimed
from kvberth_schemas import subjects
from kvberth_schemas.events import KVCacheStatusGoneV1, KVCacheStatusV1
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import Entity, Service, WantKind, events_of, wants_of

_log = structlog.stdlib.get_logger(__name__)

_STATES = (Entity.POD, Entity.NODE, Entity.SPEC, Entity.PROCESS, Entity.SOCKET, Entity.HEALTH, Entity.STATUS)
_MOST_QUESTIONS = 16
_ADOPT_AGAIN_S = 1.0
_HEARD_S = 1.5  # who is alive says so each second
_SILENT_S = 5.0
_STALE = "kvberth.placement.stale.states"
_DEPOSED = taken_over("placement", "a bus has one placement with one KVBERTH_STATE")

Context = ServiceContext[PlacementSettings]


async def main(context: Context) -> None:
    """Place caches until told to stop.

    Raises:
        ServiceError: another placement has the state directory, or took over on the bus; no way to a cluster.
    """
    if context.settings.backend == "kubernetes":
        from kvberth.placement.kubernetes import lead  # needs the extra `kubernetes`

        await lead(context, place)
        return
    with claimed(_claim(context.settings.state), time.time()) as term:
        await place(context, term, (WantKind.CACHE, WantKind.DIR), _bare)


def _claim(state: Path) -> Claim:
    directory = state / "placement"
    lock = DirectoryLock(directory / "lock", "placement", "end it, or give this one another KVBERTH_STATE")
    return Claim(lock, directory / "term")


@asynccontextmanager
async def _bare(edge: Edge) -> AsyncIterator[Means]:
    yield Means(BareBackend(edge.bus, edge.wants, edge.term, now), edge.speaker, Service.SCHEDULER)


async def place(context: Context, term: int, kinds: Sequence[WantKind], make: Make) -> None:
    """Place caches under one term, with the means that `make` gives; `kinds` are the wants that they write."""
    settings = context.settings
    bus_settings = BusSettings.of(settings, Service.PLACEMENT, term=term)
    async with Bus(bus_settings, context.telemetry) as bus:
        await bus.declare(settings.nats_replicas)
        async with (
            bus.view([events_of(entity) for entity in _STATES]) as view,
            bus.liveness() as liveness,
            bus.writer([wants_of(kind) for kind in kinds], absent=Absent.KEEP) as wants,
            bus.writer([events_of(Entity.STATUS)], absent=Absent.GONE, gone=_gone) as statuses,
            bus.heart([wants, statuses]),
        ):
            index, woken = Index(), asyncio.Event()
            context.telemetry.observe(_STALE, "States ignored: a newer version was known.", lambda: float(index.stale))
            edge = Edge(bus, wants, term, index, woken.set, _Speaker(statuses))
            with _checked(context, bus, wants, statuses):
                async with make(edge) as means:
                    watch = Watch(view, liveness, index, means, woken)
                    planner = Planner(index, means.backend, means.speaker, term, context.telemetry, now)
                    await _follow(context, watch, planner, means.backend, (statuses, wants))


async def _follow(
    context: Context, watch: Watch, planner: Planner, backend: Backend, writers: tuple[Writer, Writer]
) -> None:
    async with asyncio.TaskGroup() as group:
        following = [
            group.create_task(watch.follow_view(), name="view"),
            group.create_task(watch.follow_liveness(), name="signs of life"),
            group.create_task(backend.run(), name="backend"),
        ]
        loop = _Loop(context, backend, watch, planner, group)
        placing = group.create_task(loop.run(*writers), name="place")
        await context.stopping.wait()
        for task in (*following, placing, *loop.asking):
            task.cancel()


@contextmanager
def _checked(context: Context, bus: Bus, wants: Writer, statuses: Writer) -> Iterator[None]:
    """Readiness depends on the bus for as long as we place."""
    url = context.settings.nats_url
    checks: dict[str, Callable[[], str | None]] = {
        "bus": lambda: lacks_connection(bus, url),
        "wants": lambda: lacks_saying(_DEPOSED, wants),
        "statuses": lambda: lacks_saying(_DEPOSED, statuses),
    }
    for name, check in checks.items():
        context.checks.register(name, check)
    try:
        yield
    finally:
        for name in checks:
            context.checks.unregister(name)


class _Loop:
    """Plans what was touched, as soon as it was."""

    def __init__(
        self,
        context: Context,
        backend: Backend,
        watch: Watch,
        planner: Planner,
        group: asyncio.TaskGroup,
    ) -> None:
        self._context = context
        self._backend = backend
        self._watch = watch
        self._index = watch.index
        self._planner = planner
        self._group = group
        self._slots = asyncio.Semaphore(_MOST_QUESTIONS)
        self._asking: dict[str, asyncio.Task[None]] = {}

    @property
    def asking(self) -> list[asyncio.Task[None]]:
        """The live reads that are under way: one per namespace at most."""
        return list(self._asking.values())

    async def run(self, statuses: Writer, wants: Writer) -> None:
        """Adopt, then plan for ever. Raises ServiceError once another placement took over."""
        while not self._watch.whole:
            await self._sleep(self._context.settings.recheck_s)
        while not await self._adopted():
            _log.warning("nothing is placed before the wants of earlier lives are known")
        self._index.touch_all()
        begun = asyncio.get_running_loop().time()
        while True:
            if statuses.deposed or wants.deposed:
                raise TakenOverError(_DEPOSED)
            self._speak(self._watch.refresh().known, asyncio.get_running_loop().time() - begun)
            known = await self._turn()
            if known and self._planner.speaking:
                statuses.ready()  # every KVCache has been told: what is not, is gone
            most = self._context.settings.recheck_s if self._planner.speaking else _HEARD_S
            await self._sleep(wait_s(self._planner.next_due, now(), most))

    def _speak(self, known: bool, since_s: float) -> None:
        """Begin to say statuses once every living service must have been heard, or too much is silent."""
        if not self._planner.speaking and since_s >= (_HEARD_S if known else _SILENT_S):
            self._planner.speaking = True
            self._index.touch_all()

    async def _adopted(self) -> bool:
        try:
            await self._planner.adopt(self._watch.statuses().values())
        except (ApplyError, BusError) as error:
            _log.warning("not adopted yet", reason=str(error))
            await asyncio.sleep(_ADOPT_AGAIN_S)
            return False
        return True

    async def _turn(self) -> bool:
        freshness = self._watch.refresh()
        for namespace in sorted(self._index.take_touched() | self._planner.due(now())):
            questions = await self._planner.run(namespace, self._watch.refresh())
            if questions and namespace not in self._asking:
                task = self._group.create_task(self._ask(namespace, questions), name="live read")
                self._asking[namespace] = task
        return freshness.known

    async def _ask(self, namespace: str, questions: Questions) -> None:
        """Read workloads live, and plan with the answers while they are new."""
        try:
            async with self._slots:
                live: dict[WorkloadKey, LiveWorkload] = {}
                for key in sorted(questions):
                    answer = await self._read(namespace, key)
                    if answer is not None:
                        live[key] = answer
                left = await self._planner.run(namespace, self._watch.refresh(), live)
            if left - questions:  # of a plan that was newer than these questions
                self._index.touch(namespace)
            self._watch.woken.set()  # what is due now may be due sooner than what the loop waits for
        finally:
            del self._asking[namespace]

    async def _read(self, namespace: str, key: WorkloadKey) -> LiveWorkload | None:
        try:
            return await self._backend.workload(namespace, key)
        except (ApplyError, BusError) as error:
            _log.warning(
                "a live read was not answered, so nothing is removed", workload="/".join(key), reason=str(error)
            )
            return None

    async def _sleep(self, seconds: float) -> None:
        """Wait until something changed, and a moment longer for what comes with it."""
        try:
            async with asyncio.timeout(seconds):
                await self._watch.woken.wait()
        except TimeoutError:
            if seconds >= self._context.settings.recheck_s:
                self._index.touch_all()
            return
        await asyncio.sleep(self._context.settings.coalesce_s)
        self._watch.woken.clear()


class _Speaker:
    """Says statuses on the bus."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def say(self, status: KVCacheStatusV1, _before: KVCacheStatusV1 | None) -> None:
        self._writer.put(subjects.status(status.namespace, status.name), status)

    def say_gone(self, namespace: str, name: str) -> None:
        self._writer.put(subjects.status(namespace, name), KVCacheStatusGoneV1(name=name, namespace=namespace))


def _gone(row: Row) -> Event | None:
    message = row.message
    if isinstance(message, KVCacheStatusV1):
        return KVCacheStatusGoneV1(name=message.name, namespace=message.namespace)
    return None


def now() -> datetime:
    """The present moment."""
    return datetime.now(UTC)
