"""Owns the processes of a node: carries out steps, watches every life, and keeps the records true. Decides nothing."""

import asyncio
import signal
import time
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self

import structlog

from kvberth.bare.runner import processes, procfs, restarts
from kvberth.bare.runner.decide import Step, Verb, Wanted
from kvberth.bare.runner.processes import Command, Handle, StartError
from kvberth.bare.runner.records import Key, Record, RecordError, RecordStore, State

FAST_S = 0.05
"""Between looks at something that is about to happen."""
SLOW_AFTER = 60
SLOW_S = 0.25
"""Between looks at something that has not happened in its first seconds."""
HEALTH_EVERY_S = 1.0
UNREADY_AFTER = 3
"""Failed looks in a row, as the kubelet's default."""

_log = structlog.get_logger(__name__)


def boottime() -> float:
    """Give the seconds since the boot, which later runners count on too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Roles(Protocol):
    """What is known about running each role."""

    def next_life(self, record: Record) -> Record:
        """Give a record what its next life needs (incarnation, port)."""

    def command(self, record: Record) -> Command:
        """Give the command of a life. Raises StartError."""

    async def answers(self, record: Record) -> bool:
        """Tell whether the process does what it is there for."""

    def watched(self, record: Record) -> bool:
        """Tell whether readiness is looked at again once it was there."""


@dataclass
class Keeper:
    """All processes of one node, alive or ended. An async context manager: it adopts, and later only stops watching."""

    store: RecordStore
    roles: Roles
    clock: Callable[[], float] = boottime
    records: dict[Key, Record] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._boot_id = procfs.boot_id()
        self._handles: dict[Key, Handle] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._group = asyncio.TaskGroup()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Adopt what earlier runners left."""
        await self._group.__aenter__()
        records, faults = self.store.load()
        for fault in faults:
            _log.warning(fault)
        for record in records.values():
            self._adopt(record)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop watching; the processes go on."""
        for task in self._tasks.values():
            task.cancel()
        await self._group.__aexit__(kind, error, traceback)

    async def changed(self, timeout_s: float) -> bool:
        """Wait until a record has changed since the last call, at most so long."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    def poke(self) -> None:
        """Wake whoever waits in `changed`: something else has changed that it decides by."""
        self._changed.set()

    def carry_out(self, step: Step, wanted: Wanted | None) -> None:
        """Do one step; what takes time goes on by itself and ends in a changed record."""
        match step.verb:
            case Verb.START:
                assert wanted is not None  # only a want starts something
                self._start(step.key, wanted)
            case Verb.TERMINATE:
                self._update(step.key, terminated_at=self.clock(), stopped=step.for_good)
                self._signal(step.key, signal.SIGTERM)
            case Verb.KILL:
                self._signal(step.key, signal.SIGKILL)
            case Verb.FORGET:
                self._forget(step.key)

    def _start(self, key: Key, wanted: Wanted) -> None:
        """Begin a new life; the state is `starting` from this moment on, so nothing begins it twice."""
        before = self.records.get(key)
        begun = Record(
            key=key,
            life=f"{key.role}-{uuid.uuid4()}",
            state=State.STARTING,
            boot_id=self._boot_id,
            want=wanted.want,
            cause=wanted.id,
            traceparent=wanted.traceparent,
        )
        if before is not None and not before.stopped:
            restarts_so_far = before.restarts + (before.started is not None)
            begun = begun.model_copy(update={"restarts": restarts_so_far, "crashes": before.crashes})
        self.records[key] = record = self.roles.next_life(begun)
        self._run(key, self._begin(record))

    async def _begin(self, record: Record) -> None:
        try:
            handle, record = await asyncio.to_thread(self._spawn, record)
        except StartError as error:
            _log.warning("process can't be started", process=record.key.stem, reason=str(error))
            self._end(record.key, None, str(error))
            return
        _log.info("process started", process=record.key.stem, pid=handle.pid, restarts=record.restarts)
        self.records[record.key] = record
        await self._watch(record.key, handle)

    def _spawn(self, record: Record) -> tuple[Handle, Record]:
        return processes.spawn(self.store, record, self.roles.command(record), self.clock())

    def _adopt(self, record: Record) -> None:
        self.records[record.key] = record
        if record.boot_id != self._boot_id:
            message = record.message if record.state is State.ENDED else "the machine was booted anew"
            ended = {"state": State.ENDED, "ready": False, "ended_at": 0.0, "crashes": 0, "message": message}
            self._update(record.key, **ended, boot_id=self._boot_id)
        elif self.store.alive(record):
            self._run(record.key, self._find(record))
        elif record.state is not State.ENDED:
            self._end(record.key, None, "ended while no runner watched")

    async def _find(self, record: Record) -> None:
        """Find the process of a held lock. Its pid is missing if the runner before died while starting it."""
        key = record.key
        while (handle := processes.find(record)) is None:
            self.records[key] = record.model_copy(update={"state": State.STARTING})
            await asyncio.sleep(FAST_S)
            if not self.store.alive(record):
                self._end(key, None, "ended while it was being started")
                return
        _log.info("process adopted", process=key.stem, pid=handle.pid)
        begun = {} if record.started else {"started": datetime.now(UTC), "started_at": self.clock()}
        self._update(key, state=State.RUNNING, pid=handle.pid, start_ticks=handle.start_ticks, **begun)
        await self._watch(key, handle)

    async def _watch(self, key: Key, handle: Handle) -> None:
        self._handles[key] = handle
        self._changed.set()
        async with asyncio.TaskGroup() as group:
            looks = group.create_task(self._look(key), name=f"readiness of {key.stem}")
            code = await handle.ended()
            looks.cancel()
        del self._handles[key]
        await self._until_free(self.records[key])
        _log.info("process ended", process=key.stem, pid=handle.pid, exit_code=code)
        self._end(key, code, "" if handle.child else "it was adopted, so its exit code is not known")

    async def _until_free(self, record: Record) -> None:
        """End what the process left behind, until nobody holds its lock: only then can it be started again."""
        wait_s = 0.0
        while self.store.alive(record):
            processes.kill_remains(record.life)
            await asyncio.sleep(wait_s)
            wait_s = min(max(wait_s * 2, 0.005), 1.0)

    async def _look(self, key: Key) -> None:
        """Keep `ready` true to what the process answers."""
        failures = 0
        while self.roles.watched(self.records[key]) or not self.records[key].ready:
            answered = await self.roles.answers(self.records[key])
            failures = 0 if answered else failures + 1
            ready = answered or (self.records[key].ready and failures < UNREADY_AFTER)
            if ready != self.records[key].ready:
                _log.info("process is ready" if ready else "process is not ready", process=key.stem)
                self._update(key, ready=ready)
            await asyncio.sleep(HEALTH_EVERY_S if ready else FAST_S if failures < SLOW_AFTER else SLOW_S)

    def _end(self, key: Key, code: int | None, message: str) -> None:
        record = self.records[key]
        now = self.clock()
        crashes = restarts.crashes_after(record, now)
        ended = {"state": State.ENDED, "ready": False, "exit_code": code, "ended_at": now}
        self._update(key, **ended, crashes=crashes, message=message)

    def _update(self, key: Key, **changes: object) -> None:
        self.records[key] = record = self.records[key].model_copy(update=changes)
        try:
            self.store.write(record)
        except RecordError as error:  # what this runner knows stays right; a later one knows a little less
            _log.warning(str(error))
        self._changed.set()

    def _forget(self, key: Key) -> None:
        try:
            self.store.remove(key)
        except OSError as error:
            _log.warning("the record can't be removed", process=key.stem, reason=str(error))
        del self.records[key]
        self._changed.set()

    def _signal(self, key: Key, number: signal.Signals) -> None:
        handle = self._handles.get(key)
        if handle is not None:
            _log.info("process is told to end", process=key.stem, pid=handle.pid, signal=number.name)
            processes.send(handle, number)

    def _run(self, key: Key, life: Coroutine[object, object, None]) -> None:
        task = self._group.create_task(life, name=f"life of {key.stem}")
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._tasks.pop(key, None) if self._tasks.get(key) is done else None)
