"""Keeps programs running: starts them, and starts again what exits."""

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from kvberth.bare.stack import children
from kvberth.bare.stack.errors import StackError
from kvberth.bare.stack.layout import Layout

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
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


def pause_after(lived_s: float, last_pause_s: float | None) -> float:
    """Give the seconds to wait before a program that lived ``lived_s`` is started again."""
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
        self._process: subprocess.Popen[bytes] | None = None
        self.restarts = 0
        """How often it was started again."""

    def start(self) -> None:
        """Start the program; blocks for a few milliseconds.

        Raises:
            StackError: it can't be run.
        """
        self._process = children.start(
            self.name,
            self._program.argv,
            self._program.env,
            records=self._layout.records,
            log=self._layout.logs / f"{self.name}.log",
        )

    async def watch(self) -> None:
        """Start the program again whenever it exits, until cancelled; cancelling leaves it running."""
        pause: float | None = None
        loop = asyncio.get_running_loop()
        while self._process is not None:
            started = loop.time()
            code = await _ended(self._process)
            pause = pause_after(loop.time() - started, pause)
            _log.error("a service exited and is started again", service=self.name, code=code, in_s=pause)
            await asyncio.sleep(pause)
            self.restarts += 1
            await self._start_again()

    async def _start_again(self) -> None:
        """Try until it starts: a full disk or a held lock must not leave a service dead for good."""
        while True:
            try:
                await asyncio.to_thread(self.start)
            except (StackError, OSError) as error:
                _log.error("a service can't be started; it is tried again", service=self.name, reason=str(error))
                await asyncio.sleep(LONGEST_PAUSE_S)
            else:
                return


async def _ended(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the end of a child by its pidfd."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    pidfd = os.pidfd_open(process.pid)  # not reaped yet, so the pid is still its own
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
    return process.wait()
