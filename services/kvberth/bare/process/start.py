"""Starts a process that outlives its starter: the record first, then the fork with the lock inherited."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar

import structlog

from kvberth.bare.process import procfs
from kvberth.bare.process.handle import Handle
from kvberth.bare.process.locks import LockError
from kvberth.bare.process.record import ProcessRecord
from kvberth.bare.process.store import RecordError, RecordStore

MAX_LOG_BYTES = 8 * 1024 * 1024
"""A longer log is set aside (one old one is kept) before the next life."""

_log = structlog.get_logger(__name__)

R = TypeVar("R", bound=ProcessRecord)


class StartError(Exception):
    """A process could not be started; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is run: with exactly this environment, and the log as its standard output and error."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    log: Path


def spawn(
    store: RecordStore[R], stem: str, record: R, command: Command, begun: Mapping[str, object] | None = None
) -> tuple[Handle, R]:
    """Write the record, start the process, write the record with its pid and what `begun` changes; give both.

    Blocks, on a slow disk for a while.

    Raises:
        StartError: the record can't be written, the process before lives still, or the program can't be run.
    """
    try:
        store.write(stem, record)
        with store.locked(stem) as lock, _open_log(command.log) as log:
            handle = _begin(command, record.life, lock, log)
    except (RecordError, LockError) as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(f"{error.filename or command.argv[0]} can't be started: {error.strerror}") from error
    except ValueError as error:  # a NUL byte or a lone surrogate, which no argument or variable can carry
        raise StartError(f"{command.argv[0]} can't be started with its arguments and environment: {error}") from error
    found = {"pid": handle.pid, "start_ticks": handle.start_ticks}
    record = record.model_copy(update={**found, **(begun or {})})
    try:
        store.write(stem, record)
    except RecordError as error:  # it runs; whoever comes later finds it by the life in its environment
        _log.warning("a started process is recorded without its pid", process=stem, pid=handle.pid, reason=str(error))
    return handle, record


def _begin(command: Command, life: str, lock: int, log: BinaryIO) -> Handle:
    child = _popen(command, life, lock, log)
    try:
        return Handle(child.pid, procfs.start_ticks(child.pid), child)
    except OSError:  # no descriptor is left to look at it: rather no process than one that can't be told from others
        child.kill()
        child.wait()
        raise


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
