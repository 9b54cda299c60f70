"""Owns the processes of a node: carries out steps, watches every life, and keeps the records true. Decides nothing."""

import asyncio
import signal
import time
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self, TypeVar

import structlog

from kvberth.bare.process import procfs
from kvberth.bare.process.handle import Handle, kill_remains, known, search
from kvberth.bare.process.locks import who_holds
from kvberth.bare.process.start import Command, StartError, spawn
from kvberth.bare.process.store import RecordError, RecordStore
from kvberth.bare.runner import restarts
from kvberth.bare.runner.decide import Step, Verb, Wanted
from kvberth.bare.runner.diary import Diary
from kvberth.bare.runner.gate import comes_first
from kvberth.bare.runner.graves import Graves
from kvberth.bare.runner.patience import Patience
from kvberth.bare.runner.readiness import FAST_S, Answer, Looks
from kvberth.bare.runner.record import Key, Record, State
from kvberth.service.threads import in_thread
from kvberth_schemas.events import GateResult, LastEnd

LATE_AFTER_S = 10.0
"""A process that can't be found, or leaves its lock held, for so long is a matter for a person."""
LONGEST_PAUSE_S = 5.0
FLUSH_S = 2.0
_UNWATCHED = "ended while no runner watched"

_log = structlog.get_logger(__name__)

T = TypeVar("T")


def boottime() -> float:
    """Give the seconds since the boot, which later runners count on too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Roles(Protocol):
    """What is known about running each role."""

    def next_life(self, record: Record) -> Record:
        """Give a record what its next life needs (incarnation, port). Raises StartError."""

    def command(self, record: Record) -> Command:
        """Give the command of a life. Raises StartError."""

    async def answers(self, record: Record) -> Answer:
        """Look whether the process does what it is there for."""

    def gate_ending(self, record: Record, code: int | None) -> GateResult:
        """Give how a gate ended that exited with a code (None: not known). Reads a file: not for the event loop."""


@dataclass
class Keeper:
    """All processes of one node, alive or ended. An async context manager: it adopts, and later only stops watching."""

    store: RecordStore[Record]
    graves: Graves
    roles: Roles
    clock: Callable[[], float] = boottime
    records: dict[Key, Record] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._boot_id = procfs.boot_id()
        self._handles: dict[Key, Handle] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._forgetting: set[Key] = set()
        self._unburied: set[Key] = set()
        self._diary = Diary(self.store)
        self._group = asyncio.TaskGroup()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Adopt what earlier runners left."""
        records, faults = await in_thread(self.store.load, "reading the records of the node's processes")
        await in_thread(self.graves.load, "reading which engines ended for good")
        await self._group.__aenter__()
        self._writing = self._group.create_task(self._diary.run(), name="records")
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
        await self._diary.flush(FLUSH_S)
        self._writing.cancel()
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
        if step.key in self._forgetting:
            return  # its files are being removed; what is to come is decided again after that
        match step.verb:
            case Verb.START:
                assert wanted is not None  # only a want starts something
                self._start(step.key, wanted)
            case Verb.TERMINATE:
                if self._signal(step.key, signal.SIGTERM):
                    self._update(step.key, terminated_at=self.clock(), stopped=step.for_good)
            case Verb.KILL:
                self._signal(step.key, signal.SIGKILL)
            case Verb.SETTLE:
                self._update(step.key, stopped=True)
            case Verb.FORGET:
                self._forgetting.add(step.key)
                self._group.create_task(self._forget(self.records[step.key]), name=f"end of {step.key.stem}")

    def _start(self, key: Key, wanted: Wanted) -> None:
        """Begin a new life; the state is `starting` from this moment on, so nothing begins it twice."""
        before = self.records.get(key)
        at_gate = comes_first(wanted.want, before)
        begun = Record(
            key=key,
            life=f"{'gate' if at_gate else key.role}-{uuid.uuid4()}",
            at_gate=at_gate,
            gate=before.gate if before is not None else None,
            state=State.STARTING,
            boot_id=self._boot_id,
            want=wanted.want,
            cause=wanted.id,
            traceparent=wanted.traceparent,
        )
        if before is not None and not before.stopped:
            restarts_so_far = before.restarts + (before.started is not None and not before.at_gate)
            kept = {"restarts": restarts_so_far, "crashes": before.crashes, "last_end": before.last_end}
            begun = begun.model_copy(update={**kept, "log": before.log})
        self.records[key] = begun
        self._run(key, self._begin(begun))

    async def _begin(self, record: Record) -> None:
        await self._diary.hand_over(record.key)
        try:
            handle, record = await in_thread(lambda: self._spawn(record), f"starting {record.key.stem}")
        except StartError as error:
            _log.warning("process can't be started", process=record.key.stem, reason=str(error))
            self._end(record.key, None, str(error))
            return
        _log.info("process started", process=record.key.stem, pid=handle.pid, restarts=record.restarts)
        self.records[record.key] = record
        await self._watch(record.key, handle)

    def _spawn(self, record: Record) -> tuple[Handle, Record]:
        record = self.roles.next_life(record)
        command = self.roles.command(record)
        running = {"state": State.RUNNING, "started": datetime.now(UTC), "started_at": self.clock()}
        return spawn(self.store, record.key.stem, record, command, {**running, "log": str(command.log)})

    def _adopt(self, record: Record) -> None:
        self.records[record.key] = record
        if record.boot_id != self._boot_id:
            ended = {"state": State.ENDED, "ready": False, "ended_at": 0.0, "crashes": 0}
            if record.state is not State.ENDED:
                ended |= _last("the machine was booted anew")
            anew = {"boot_id": self._boot_id, "found_ended_at": self.clock(), "gate": None}  # caches start anew, too
            self._update(record.key, **ended, **anew)
        elif self._alive(record.key):
            handle = known(record, self._boot_id)
            self._run(record.key, self._find(record) if handle is None else self._take_over(record, handle))
        elif record.state is not State.ENDED:
            if record.at_gate:
                self._run(record.key, self._ended_unwatched(record.key))
            else:
                self._end(record.key, None, _UNWATCHED)
                self._update(record.key, found_ended_at=self.clock())

    async def _ended_unwatched(self, key: Key) -> None:
        """The same of a gate, which left a message."""
        self._end(key, None, _UNWATCHED, await self._gate_ending(key, None))
        self._update(key, found_ended_at=self.clock())

    async def _find(self, record: Record) -> None:
        """Find the process of a held lock. Its pid is missing if the runner before died while starting it."""
        key = record.key
        self.records[key] = record.model_copy(update={"state": State.STARTING})
        patience = Patience(FAST_S, LONGEST_PAUSE_S, LATE_AFTER_S)
        while (handle := await _if_possible(lambda: search(record.life), f"looking for {key.stem}")) is None:
            late = await patience.pause()
            if not self._alive(key):
                self._end(key, None, "ended while it was being started", await self._gate_ending(key, None))
                return
            if late:
                await self._say_held(key, "although no process can be found that was started as it")
        await self._take_over(record, handle)

    async def _take_over(self, record: Record, handle: Handle) -> None:
        _log.info("process adopted", process=record.key.stem, pid=handle.pid)
        begun = {} if record.started else {"started": datetime.now(UTC), "started_at": self.clock()}
        found = {"state": State.RUNNING, "pid": handle.pid, "start_ticks": handle.start_ticks}
        self._update(record.key, **found, **begun)
        await self._watch(record.key, handle)

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
        gate = await self._gate_ending(key, code)
        self._end(key, code, "" if handle.child else "it was adopted, so its exit code is not known", gate)

    async def _until_free(self, record: Record) -> None:
        """End what the process left behind, until nobody holds its lock: only then can it be started again."""
        patience = Patience(0.005, LONGEST_PAUSE_S, LATE_AFTER_S)
        while self._alive(record.key):
            await _if_possible(lambda: kill_remains(record.life), f"ending what {record.key.stem} left behind")
            if self._alive(record.key) and await patience.pause():
                await self._say_held(record.key, "although the process has ended; it can't be started again before")

    async def _say_held(self, key: Key, what: str) -> None:
        lock = self.store.lock(key.stem)
        who = await _if_possible(lambda: who_holds(lock), f"looking for who holds {lock}") or "somebody"
        _log.warning(f"the lock {lock} is held by {who} {what}", process=key.stem)

    def _alive(self, key: Key) -> bool:
        """What can't be looked at counts as alive: a second process would be worse than a late one."""
        try:
            return self.store.alive(key.stem)
        except OSError as error:
            _log.warning("a lock can't be looked at", process=key.stem, reason=str(error))
            return True

    async def _look(self, key: Key) -> None:
        """Keep `ready` true to what the process answers."""
        looks = Looks()
        while True:
            answer = await self.roles.answers(self.records[key])
            changes = looks.take(self.records[key], answer, self.clock())
            if changes:
                self._update(key, **changes)
                _log.info(looks.words(self.records[key]), process=key.stem)
            await asyncio.sleep(looks.pause_s(self.records[key]))

    async def _gate_ending(self, key: Key, code: int | None) -> GateResult | None:
        """Give how a gate ended; None for one that never began, and for whatever is none."""
        record = self.records[key]
        if not record.at_gate or record.started is None:
            return None
        return await in_thread(lambda: self.roles.gate_ending(record, code), f"reading how {key.stem} left its gate")

    def _end(self, key: Key, code: int | None, message: str, gate: GateResult | None = None) -> None:
        now, record = self.clock(), self.records[key]
        if record.at_gate:
            record = record.model_copy(update={"gate": gate})
            message = f"its gate ended: {gate.outcome}: {gate.message or gate.reason}" if gate else message
        ended = {"state": State.ENDED, "ready": False, "ended_at": now, "gate": record.gate}
        last = _last(message, code)
        if record.at_gate and record.gate_open:
            del last["last_end"]  # nothing of the pod has ended
        self._update(key, **ended, **last, crashes=restarts.crashes_after(record, now))

    def _update(self, key: Key, **changes: object) -> None:
        self.records[key] = record = self.records[key].model_copy(update=changes)
        self._diary.note(record)
        self._changed.set()

    async def _forget(self, record: Record) -> None:
        key = record.key
        await self._diary.hand_over(key)
        try:
            await in_thread(lambda: self._bury(record), f"removing the record of {key.stem}")
        except (RecordError, OSError) as error:  # decided again soon: a later runner must not find what is forgotten
            if key not in self._unburied:  # tried each second, said once
                _log.warning("an ended process can't be forgotten yet", process=key.stem, reason=str(error))
            self._unburied.add(key)
        else:
            del self.records[key]
            self._unburied.discard(key)
            self._changed.set()
        finally:
            self._forgetting.discard(key)

    def _bury(self, record: Record) -> None:
        if restarts.is_final(record):
            self.graves.dig(record.key)
        self.store.remove(record.key.stem)

    def _signal(self, key: Key, number: signal.Signals) -> bool:
        """Signal a process; False when it can't be looked at for now, so that the step is decided again."""
        handle = self._handles.get(key)
        if handle is not None:
            try:
                handle.send(number)
            except OSError as error:
                _log.warning("a process can't be signalled now", process=key.stem, reason=error.strerror)
                return False
            _log.info("process is told to end", process=key.stem, pid=handle.pid, signal=number.name)
        return True

    def _run(self, key: Key, life: Coroutine[object, object, None]) -> None:
        task = self._group.create_task(life, name=f"life of {key.stem}")
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._tasks.pop(key, None) if self._tasks.get(key) is done else None)


def _last(message: str, code: int | None = None) -> dict[str, object]:
    """Give how a life ended just now, for the record."""
    last = LastEnd(at=datetime.now(UTC), exit_code=code, message=message)
    return {"exit_code": code, "message": message, "last_end": last}


async def _if_possible(work: Callable[[], T], what: str) -> T | None:
    """Do something in a thread; None, and a warning, when this process lacks what it takes: it is tried again."""
    try:
        return await in_thread(work, what)
    except OSError as error:
        _log.warning(f"{what} is not possible now, and is tried again: {error.strerror}")
        return None
