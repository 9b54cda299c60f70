"""Leadership by a Lease: one at work at a time, its term a number that only grows.

Every error of a renewal, of whatever kind, is a renewal that failed. Work is cancelled when none succeeded for
`renew_deadline_s`, by a clock that also runs while the machine sleeps, and before anybody else may begin.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

import structlog

from kvberth.kube.client import Call, Client
from kvberth.kube.errors import AlreadyExists, Conflict, KubeError, LeaseHeldByRunaway, NotFound, Unreachable
from kvberth.kube.metrics import Metrics
from kvberth.kube.resources import LEASES
from kvberth.kube.settings import LeaseSettings
from kvberth.kube.tenure import LeaseRecord, Sighting, created, is_free, read_lease, released, renewed, sight, taken

_TICK_S = 0.25

Clock = Callable[[], float]

_log = structlog.get_logger(__name__)


def boot_time_s() -> float:
    """Seconds on a clock that never goes back and runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leadership:
    """One term, as the work that it allows sees it."""

    def __init__(self, term: int, deadline_s: float, clock: Clock) -> None:
        """`deadline_s` is on `clock`."""
        self.term: Final = term
        self._deadline_s, self._clock = deadline_s, clock
        self._over = False

    @property
    def holds(self) -> bool:
        """Whether we lead now; to be asked before every write (the API server's fence is the last word)."""
        return not self._over and self.left_s > 0

    @property
    def left_s(self) -> float:
        """Seconds until the deadline, if no further renewal succeeds."""
        return self._deadline_s - self._clock()

    def extend(self, deadline_s: float) -> None:
        """A renewal succeeded."""
        self._deadline_s = deadline_s

    def end(self) -> None:
        """Lost or given up."""
        self._over = True


Work = Callable[[Leadership], Awaitable[None]]


class Election:
    """A candidate for one Lease."""

    def __init__(
        self,
        client: Client,
        settings: LeaseSettings,
        *,
        metrics: Metrics | None = None,
        clock: Clock = boot_time_s,
        random: Random | None = None,
    ) -> None:
        """Nothing is asked before `run()`."""
        self._client, self._settings, self._clock = client, settings, clock
        self._metrics = metrics or Metrics()
        self._random = random or Random()  # noqa: S311 - spreads load, guards nothing
        self._seen: Sighting | None = None
        self._leadership: Leadership | None = None
        self._metrics.term_of(settings.name, lambda: float(self.term or 0))

    @property
    def term(self) -> int | None:
        """The term that we hold now; None while we don't lead."""
        held = self._leadership
        return held.term if held is not None and held.holds else None

    @property
    def holder(self) -> str:
        """Who holds the Lease as far as we saw; empty for nobody."""
        return self._seen.record.holder if self._seen else ""

    async def run(self, work: Work) -> None:
        """Wait for the Lease, work under it, and begin again when it is lost. Returns when the work returns by itself.

        Cancelled, it ends the work and gives the Lease up. An error of the work is raised, the Lease given up too.

        Raises:
            LeaseHeldByRunaway: cancelled work did not end within `stop_s`; the process must end.
        """
        while True:
            record, asked_s = await self._campaign()
            if await self._lead(record, asked_s, work):
                return

    async def _campaign(self) -> tuple[LeaseRecord, float]:
        """Try until the Lease is ours: the record, and when we asked for it."""
        while True:
            asked_s = self._clock()
            try:
                record = await self._try_to_take()
            except KubeError as error:
                self._turn("failed", str(error))
                record = None
            if record is not None:
                return record, asked_s
            await asyncio.sleep(self._settings.look_s * self._random.uniform(0.8, 1.2))

    async def _try_to_take(self) -> LeaseRecord | None:
        found = await self._get()
        try:
            if found is None:
                return await self._write("POST", created(self._settings, datetime.now(UTC)))
            self._seen = sight(self._seen, found, self._clock())
            if not is_free(self._seen, self._settings.identity, self._clock()):
                return None
            return await self._write("PUT", taken(found, self._settings, datetime.now(UTC)))
        except (Conflict, AlreadyExists):
            return None  # somebody was quicker

    async def _lead(self, record: LeaseRecord, asked_s: float, work: Work) -> bool:
        """Work and renew; True when the work returned by itself."""
        held = Leadership(record.term, asked_s + self._settings.renew_deadline_s, self._clock)
        self._leadership = held
        self._turn("taken", f"term {record.term}")

        async def working() -> None:
            await work(held)

        task = asyncio.create_task(working(), name=f"work under Lease {self._settings.name}")
        renewal = asyncio.create_task(self._renew_until_lost(held, record))
        try:
            await asyncio.wait((task, renewal), return_when=asyncio.FIRST_COMPLETED)
            returned = task.done()
        except asyncio.CancelledError:
            await self._stop(held, task, renewal)
            await self._release()
            if error := _error_of(task):
                _log.error("work under a Lease failed while it was cancelled", exc_info=error)
            raise
        await self._stop(held, task, renewal)
        if returned:
            await self._release()
        else:
            self._turn("lost", f"term {record.term}")
        if error := _error_of(task) or _error_of(renewal):
            raise error
        return returned

    async def _stop(self, held: Leadership, *tasks: asyncio.Task[None]) -> None:
        held.end()
        for task in tasks:
            task.cancel()
        _, running = await asyncio.wait(tasks, timeout=self._settings.stop_s)
        if running:
            name = f"{self._settings.namespace}/{self._settings.name}"
            raise LeaseHeldByRunaway(
                f"work under Lease {name} did not end within {self._settings.stop_s:g} s of its cancellation; "
                "another may begin now, so this process has to end"
            )

    async def _renew_until_lost(self, held: Leadership, record: LeaseRecord) -> None:
        acquired = datetime.now(UTC)
        while held.holds:
            await self._rest(held)
            asked_s = self._clock()
            try:
                async with asyncio.timeout(max(0.0, held.left_s)):
                    found = await self._renew(record, acquired)
            except (KubeError, TimeoutError) as error:
                self._turn("failed", str(error) or "no time left")
                continue
            if found is None:
                return
            record = found
            held.extend(asked_s + self._settings.renew_deadline_s)

    async def _rest(self, held: Leadership) -> None:
        """Wait for the next renewal in short pieces: after a sleep of the machine the loop's own timers are late."""
        ends_s = self._clock() + self._settings.retry_s
        while held.holds and (left_s := ends_s - self._clock()) > 0:  # noqa: ASYNC110 - a clock sets no event
            await asyncio.sleep(min(left_s, _TICK_S))

    async def _renew(self, record: LeaseRecord, acquired: datetime) -> LeaseRecord | None:
        """Renew once; None when the Lease is not ours any more."""
        try:
            found = await self._write("PUT", renewed(record, self._settings, datetime.now(UTC), acquired))
        except NotFound:
            return None
        except Conflict:
            now = await self._get()
            if now is None or (now.holder, now.term, now.uid) != (self._settings.identity, record.term, record.uid):
                return None
            # An annotation, or our own renewal whose answer we never saw.
            found = await self._write("PUT", renewed(now, self._settings, datetime.now(UTC), acquired))
        self._metrics.count("lease", lease=self._settings.name, outcome="renewed")
        return found

    async def _release(self) -> None:
        """Give the Lease up, so that another need not wait. An unreleased Lease ends by itself, too."""
        try:
            if self._seen is not None and not await self._try_to_release(self._seen.record):
                now = await self._get()  # an annotation, or our own last renewal, whose answer we never saw
                if now is not None:
                    await self._try_to_release(now)
        except KubeError as error:
            self._turn("failed", str(error))

    async def _try_to_release(self, record: LeaseRecord) -> bool:
        """False when the Lease changed since; a Lease that is not ours is left alone."""
        if record.holder != self._settings.identity or self._leadership is None or record.term != self._leadership.term:
            return True
        try:
            await self._write("PUT", released(record, self._settings, datetime.now(UTC)))
        except Conflict:
            return False
        self._turn("released", f"term {record.term}")
        return True

    async def _get(self) -> LeaseRecord | None:
        path = LEASES.path(self._settings.namespace, self._settings.name)
        try:
            return self._read(await self._client.request(Call(what=self._title("GET"), path=path), self._request_s))
        except NotFound:
            return None

    async def _write(self, method: str, body: dict[str, Any]) -> LeaseRecord:
        name = self._settings.name if method == "PUT" else None
        path = LEASES.path(self._settings.namespace, name)
        call = Call(what=self._title(method), path=path, method=method, body=body)
        record = self._read(await self._client.request(call, self._request_s))
        self._seen = sight(self._seen, record, self._clock())
        return record

    def _read(self, body: bytes) -> LeaseRecord:
        try:
            return read_lease(json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unreachable(f"{self._title('GET')} was answered with what is no Lease") from error

    def _title(self, verb: str) -> str:
        return f"{verb} {LEASES.title(self._settings.namespace, self._settings.name)}"

    def _turn(self, outcome: str, why: str) -> None:
        self._metrics.count("lease", lease=self._settings.name, outcome=outcome)
        _log.info("lease", lease=self._settings.name, outcome=outcome, why=why)

    @property
    def _request_s(self) -> float:
        return self._settings.request_s


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None
