"""Starts a process by its record, watches it, and ends it with all that it started. Decides nothing.

A process outlives its runner: it has a session of its own, holds the lock of its record, and writes to a file.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from kvberth.bare.runner import procfs
from kvberth.bare.runner.records import Record, RecordError, RecordStore, State

MAX_LOG_BYTES = 8 * 1024 * 1024
"""A longer log is set aside (one old one is kept) before the next life."""


class StartError(Exception):
    """A process could not be started; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is run."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: Path


@dataclass(slots=True)
class Handle:
    """A living process. `child` is None for an adopted one, whose exit code nobody but its old parent can learn."""

    pid: int
    start_ticks: int | None
    child: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    async def ended(self) -> int | None:
        """Wait until the process has ended; give its exit code where it can be known (128 + n after signal n)."""
        pidfd = _open_pidfd(self.pid, self.start_ticks)
        if pidfd is not None:
            try:
                await _readable(pidfd)
            finally:
                os.close(pidfd)
        if self.child is None:
            return None
        code = self.child.wait()  # returns at once: the kernel has just said that it ended
        return 128 - code if code < 0 else code


def spawn(store: RecordStore, record: Record, command: Command, now: float) -> tuple[Handle, Record]:
    """Write the record, then start the process with the lock inherited; may take a while on a slow disk.

    Raises:
        StartError: the record can't be written, or the program can't be run.
    """
    try:
        store.write(record)
        with store.locked(record.key) as lock, _open_log(command.log) as log:
            child = _popen(command, record.life, lock, log)
    except RecordError as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(f"{error.filename or command.argv[0]} can't be started: {error.strerror}") from error
    except ValueError as error:  # a NUL byte, or a name with '=' in it, which no environment can carry
        raise StartError(f"{command.argv[0]} can't be started with its environment: {error}") from error
    handle = Handle(child.pid, procfs.start_ticks(child.pid), child)
    running = {"state": State.RUNNING, "pid": child.pid, "start_ticks": handle.start_ticks}
    record = record.model_copy(update={**running, "started": datetime.now(UTC), "started_at": now})
    with contextlib.suppress(RecordError):  # it runs; a later runner finds its pid by the life in its environment
        store.write(record)
    return handle, record


def find(record: Record) -> Handle | None:
    """Find the living process of a record whose lock is held; None while it can't be seen (about to exec)."""
    if record.pid is not None:
        return Handle(record.pid, record.start_ticks)
    for pid in procfs.bearers(record.life):
        return Handle(pid, procfs.start_ticks(pid))
    return None


def send(handle: Handle, number: signal.Signals) -> None:
    """Send a signal to the process and everything in its group, unless its pid is somebody else's by now."""
    if procfs.start_ticks(handle.pid) == handle.start_ticks:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(handle.pid, number)


def kill_remains(life: str) -> None:
    """End whatever a process left behind: its children carry its life in their environment."""
    for pid in procfs.bearers(life):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _popen(command: Command, life: str, lock: int, log: BinaryIO) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command.argv,
        env={**command.env, procfs.PROCESS_VARIABLE: life},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=(lock,),
        start_new_session=True,
    )


def _open_log(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(path.with_suffix(".old"))
    return path.open("ab")


def _open_pidfd(pid: int, start_ticks: int | None) -> int | None:
    """Give a descriptor of the process; None when it is gone, or its pid is another's."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if procfs.start_ticks(pid) == start_ticks:
        return pidfd
    os.close(pidfd)
    return None


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
