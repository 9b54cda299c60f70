"""The scheduler's one state: changed by requests, by what runners say and by time, one change after the other.

Every change is decided by pure functions, stored, and only then answered and said on the bus.
"""

import asyncio
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

import structlog

from kvberth.bare.scheduler.apply import Moment
from kvberth.bare.scheduler.observe import Observer
from kvberth.bare.scheduler.publish import Publisher
from kvberth.bare.scheduler.state import State
from kvberth.bare.scheduler.store import Store
from kvberth.bare.scheduler.turn import Limits, Seen, Turn, turn

_log = structlog.stdlib.get_logger(__name__)

T = TypeVar("T")
Decision = Callable[[State, Moment], tuple[State, T]]


class Scheduler:
    """Owns the state; use it from one event loop."""

    def __init__(self, store: Store, observer: Observer, publisher: Publisher, limits: Limits) -> None:
        """Begin with what the store held. It acts once `tick` has found the bus known."""
        self._store = store
        self._observer = observer
        self._publisher = publisher
        self._limits = limits
        self._state = store.state
        self._lock = asyncio.Lock()
        self._began = False
        self.fault: str | None = None
        """Why the last change could not be stored, or None."""

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

        Raises OSError when it can't be stored: then nothing has changed.
        """
        async with self._lock:
            seen = self._observer.seen(first=not self._began) if self._observer.settled else None
            # Off the loop: a manifest may take a while to read, and a disk to sync.
            work = asyncio.get_running_loop().run_in_executor(None, self._decided, decide, seen)
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                await asyncio.wait({work})  # what reaches the disk must be known here, or the next change undoes it
                raise
            except OSError as error:
                self.fault = f"The state can't be written: {error}."
                raise
            finally:
                if work.done() and not work.cancelled() and work.exception() is None:
                    taken, stored, answer = work.result()
                    self._take(taken, stored, seen)
            return answer

    async def tick(self) -> None:
        """Look at the bus and the time, and act on what changed."""
        self._observer.count(self._state, time.monotonic())
        try:
            await self.change(lambda state, _: (state, None))
        except OSError:
            _log.exception("a change could not be stored and is tried again")

    def _take(self, taken: Turn, stored: State, seen: Seen | None) -> None:
        self.fault = None
        self._state = stored
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
