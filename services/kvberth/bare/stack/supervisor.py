"""Keeps programs running: starts them, and starts again what exits."""

import asyncio
import os
import signal
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from kvberth.bare.process import procfs
from kvberth.bare.process.handle import Handle
from kvberth.bare.process.record import ProcessRecord
from kvberth.bare.process.start import Command, StartError, spawn
from kvberth.bare.process.store import RecordStore
from kvberth.bare.stack.errors import StackError
from kvberth.bare.stack.layout import Layout
from kvberth.service import EXIT_TAKEN_OVER
from kvberth.service.files import write_whole

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
TAKEN_OVER_PAUSE_S = 60.0
"""Another writer has its subjects: a new start would only find that again."""
STEADY_AFTER_S = 10.0
"""A program that lived that long starts again after the first pause."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Program:
    """One process of the stack."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to this process's environment."""


def pause_after(lived_s: float, last_pause_s: float | None, code: int | None = None) -> float:
    """Give the seconds to wait before a program that lived ``lived_s`` and ended with ``code`` is started again."""
    if code == EXIT_TAKEN_OVER:
        return TAKEN_OVER_PAUSE_S
    if last_pause_s is None or lived_s >= STEADY_AFTER_S:
        return FIRST_PAUSE_S
    return min(last_pause_s * 2, LONGEST_PAUSE_S)


class Supervisor:
    """Keeps one program running for as long as its `watch` task lives."""

    def __init__(self, program: Program, layout: Layout) -> None:
        """Prepare; `start` starts the program."""
        self.name = program.name
        self._program = program
        self._layout = layout
        self._store = RecordStore(layout.records, ProcessRecord)
        self._log_file = layout.logs / f"{program.name}.log"
        self._handle: Handle | None = None
        self.restarts = 0
        """How often it was started again."""

    @property
    def pid(self) -> int | None:
        """Of its present life, or of the last one."""
        return self._handle.pid if self._handle else None

    def end_life(self) -> None:
        """Tell the program to end; `watch` then starts it again."""
        if self._handle is not None:
            self._handle.send(signal.SIGTERM)

    def start(self) -> None:
        """Start the program; blocks for as long as the disk takes for its record.

        Raises:
            StackError: it can't be run, or its former life has not ended.
        """
        record = ProcessRecord(life=f"{self.name}-{uuid.uuid4()}", boot_id=procfs.boot_id())
        command = Command(tuple(self._program.argv), {**os.environ, **self._program.env}, self._log_file)
        try:
            self._handle, _ = spawn(self._store, self.name, record, command)
        except StartError as error:
            raise StackError(f"the service {self.name} can't be started: {error}") from error

    async def watch(self) -> None:
        """Start the program again whenever it exits, until cancelled; cancelling leaves it running."""
        pause: float | None = None
        loop = asyncio.get_running_loop()
        while self._handle is not None:
            started = loop.time()
            code = await self._handle.ended()
            pause = pause_after(loop.time() - started, pause, code)
            if code == EXIT_TAKEN_OVER:
                self._note_taken_over()
            _log.error("a service exited and is started again", service=self.name, code=code, in_s=pause)
            await asyncio.sleep(pause)
            self.restarts += 1
            await self._start_again()

    async def _start_off_the_loop(self) -> None:
        """Start it in a thread; a cancelled one is waited for, so that whoever ends the stack finds what it started."""
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait({starting})
            if not starting.cancelled() and starting.exception() is not None:
                _log.error(str(starting.exception()), service=self.name)
            raise

    def _note_taken_over(self) -> None:
        """Leave a note for `kvberth status`: the service itself can't say it any more."""
        sentence = (
            f"{self.name} was taken over by a writer with a higher term ({self._log_file} tells more) and is tried "
            f"again every {TAKEN_OVER_PAUSE_S:g} s; if no other kvberth uses this bus, docs/bare.md says what to do"
        )
        _log.error(sentence)
        try:
            write_whole(self._layout.note(self.name), sentence)
        except OSError as error:
            _log.warning("a note for 'kvberth status' can't be written", reason=str(error))

    async def _start_again(self) -> None:
        """Try until it starts: a full disk or a held lock must not leave a service dead for good."""
        while True:
            try:
                await self._start_off_the_loop()
            except StackError as error:
                _log.error(f"{error}; it is tried again", service=self.name)
                await asyncio.sleep(LONGEST_PAUSE_S)
            else:
                return
