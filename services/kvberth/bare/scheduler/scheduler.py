"""The scheduler's one state: changed by requests, by what runners say and by time, one change after the other.

Every change is decided by pure functions, stored, and only then answered and said on the bus. What is stored is done:
neither a lost asker nor a message that can't be said takes it back.
"""

import asyncio
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, TypeVar

import structlog

from kvberth.bare.scheduler.apply import Moment
from kvberth.bare.scheduler.metrics import SchedulerMetrics
from kvberth.bare.scheduler.observe import Observer
from kvberth.bare.scheduler.publish import Publisher
from kvberth.bare.scheduler.state import State
from kvberth.bare.scheduler.store import Store
from kvberth.bare.scheduler.turn import Limits, Seen, Turn, turn
from kvberth.bus.readiness import taken_over
from kvberth.service import TakenOverError
from kvberth.service.threads import in_thread

DEPOSED = taken_over("scheduler", "a bus has one scheduler with one KVBERTH_STATE")
MAX_WAITING = 32
"""Changes that wait for the disk; more are refused."""

_log = structlog.stdlib.get_logger(__name__)

T = TypeVar("T")
Decision = Callable[[State, Moment], tuple[State, T]]


class NotStoredError(Exception):
    """A change could not be stored, and nothing has changed; the text is a sentence."""


class Scheduler:
    """Owns the state; use it from one event loop, as a context manager that waits for changes under way."""

    def __init__(
        self, store: Store, observer: Observer, publisher: Publisher, limits: Limits, metrics: SchedulerMetrics
    ) -> None:
        """Begin with what the store held. It acts once `tick` has found the bus known."""
        self._store = store
        self._observer = observer
        self._publisher = publisher
        self._limits = limits
        self._metrics = metrics
        self._state = store.state
        self._lock = asyncio.Lock()
        self._changes = asyncio.TaskGroup()
        self._waiting = 0
        self._began = False
        self.fault: str | None = None
        """Why the last change could not be stored, or None."""

    async def __aenter__(self) -> Self:
        """Return itself."""
        await self._changes.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for changes under way."""
        await self._changes.__aexit__(kind, error, traceback)

    @property
    def state(self) -> State:
        """What is stored now."""
        return self._state

    @property
    def began(self) -> bool:
        """Whether it acts: it has read the bus whole, so that it knows what runs."""
        return self._began

    async def change(self, decide: Decision[T]) -> T:
        """Apply one decision, take a turn, store, publish; return the decision's answer.

        A caller that is cancelled does not take the change back: it goes on, and what is stored is published.

        Raises:
            NotStoredError: it can't be stored, and nothing has changed.
            ServiceError: another scheduler has taken over.
        """
        self.check_term()
        if self._waiting >= MAX_WAITING:
            raise NotStoredError(f"{self._waiting} changes wait for the disk already; ask again later")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting += 1
        self._changes.create_task(self._change(decide, answer), name="change")
        return await answer

    async def tick(self) -> None:
        """Look at the bus and the time, and act on what changed.

        Raises:
            ServiceError: another scheduler has taken over.
        """
        self._observer.count(self._state, time.monotonic())
        with suppress(NotStoredError):  # it is logged, stays in `fault`, and is tried again by the next tick
            await self.change(lambda state, _: (state, None))

    def check_term(self) -> None:
        """Raise ServiceError when another scheduler has taken over: from then on this one may not act."""
        if self._publisher.deposed:
            raise TakenOverError(DEPOSED)

    async def _change(self, decide: Decision[T], answer: "asyncio.Future[T]") -> None:
        try:
            async with self._lock:
                answered = await self._carry_out(decide)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it belongs to whoever asked
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(answered)
        finally:
            self._waiting -= 1

    async def _carry_out(self, decide: Decision[T]) -> T:
        seen = self._observer.seen(first=not self._began) if self._observer.settled else None
        try:
            # Off the loop: a manifest may take a while to read, and a disk to sync.
            taken, stored, answered = await in_thread(lambda: self._decided(decide, seen), "storing a change")
        except OSError as error:
            raise self._not_stored(error) from error
        self.fault = None
        self._take(taken, stored, seen)
        return answered

    def _not_stored(self, error: OSError) -> NotStoredError:
        sentence = (
            f"nothing was changed, because {self._store.directory} can't be written ({error.strerror or error}); "
            "make room there or make it writable, and ask again"
        )
        if sentence != self.fault:  # said once, however often it is tried
            _log.error(sentence)
        self.fault = sentence
        return NotStoredError(sentence)

    def _take(self, taken: Turn, stored: State, seen: Seen | None) -> None:
        before, self._state = self._state, stored
        self._metrics.count_bindings(before, stored)
        for note in taken.notes:
            _log.warning(note)
        if seen is not None:
            self._began = True
            self._publisher.publish(stored, seen, self._limits, taken.causes)

    def _decided(self, decide: Decision[T], seen: Seen | None) -> tuple[Turn, State, T]:
        moment = Moment(datetime.now(UTC), lambda: str(uuid.uuid4()))
        state, answer = decide(self._state, moment)
        taken = Turn(state, {}, ()) if seen is None else turn(state, seen, self._limits, moment)
        return taken, self._store.commit(self._state, taken.state), answer
