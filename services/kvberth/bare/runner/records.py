"""One record per process on disk, with a lock beside it that lives and dies with the process.

The record is written first (state starting), then the process is forked with the locked descriptor inherited. So at
every moment: lock held = alive, lock free = ended (zombies included). This module starts and ends nothing.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from kvberth.service.files import sync_directories, write_whole
from kvberth_schemas import names
from kvberth_schemas.events import ProcessRole
from kvberth_schemas.model import Message
from kvberth_schemas.wants import CacheWantV1, EngineWantV1

_LOCK_WAIT_S = 2.0
"""How long a start waits for a lock that somebody only looks at."""


class RecordError(Exception):
    """A record can't be written, or its lock can't be had; the text is a sentence."""


class State(StrEnum):
    """What a process is doing as far as its runner knows; the lock has the last word."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which process: the role, and whose it is (a pod's uid, or a KVCache's name)."""

    role: ProcessRole
    namespace: str
    owner: str

    @property
    def stem(self) -> str:
        """Give the name of its files."""
        return f"{self.role}.{names.encode(self.namespace)}.{names.encode(self.owner)}"


class Record(Message):
    """One process through all its lives. Times are seconds of CLOCK_BOOTTIME, which survives the runner."""

    key: Key
    life: str
    """New for every start; the process carries it in its environment."""
    state: State
    boot_id: str
    want: EngineWantV1 | CacheWantV1
    """What was wanted when this life started."""
    cause: str | None = None
    """Envelope id of that want."""
    traceparent: str | None = None
    pid: int | None = None
    start_ticks: int | None = None
    started: datetime | None = None
    started_at: float = 0.0
    ready: bool = False
    incarnation: str | None = None
    port: int | None = None
    """Engines: where /health is asked."""
    restarts: int = 0
    crashes: int = 0
    """Lives in a row that were too short; grows the back-off."""
    terminated_at: float | None = None
    """When this life was told to end."""
    stopped: bool = False
    """Whether it was told to end for good, not to be started anew."""
    ended_at: float | None = None
    exit_code: int | None = None
    message: str = ""


class RecordStore:
    """The records of one node, in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def load(self) -> tuple[dict[Key, Record], list[str]]:
        """Read all records, and a sentence for each file that holds none."""
        records: dict[Key, Record] = {}
        faults = []
        for path in sorted(self.directory.glob("*.json")):
            try:
                record = Record.model_validate_json(path.read_bytes())
            except (OSError, ValidationError) as error:
                faults.append(f"{path} is no record of a process and is left alone: {str(error).splitlines()[0]}")
                continue
            records[record.key] = record
        return records, faults

    def write(self, record: Record) -> None:
        """Write a record, whole or not at all, and be sure that it is on the disk.

        Raises:
            RecordError: the disk refuses.
        """
        path = self._path(record.key, "json")
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(path, record.model_dump_json(indent=1))
            sync_directories([self.directory])
        except OSError as error:
            raise RecordError(f"the record {path} can't be written: {error.strerror}") from error

    def remove(self, key: Key) -> None:
        """Remove the record of an ended process and its lock. Raises OSError."""
        for suffix in ("json", "lock"):
            self._path(key, suffix).unlink(missing_ok=True)

    def alive(self, record: Record) -> bool:
        """Tell whether the process of a record lives, or any process that it started: somebody holds the lock."""
        try:
            with self._path(record.key, "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @contextlib.contextmanager
    def locked(self, key: Key) -> Iterator[int]:
        """Hold the lock of a process that is about to start; whoever inherits the descriptor goes on holding it.

        Raises:
            RecordError: a process holds it still, or the file can't be made.
        """
        path = self._path(key, "lock")
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise RecordError(f"the lock {path} can't be opened: {error.strerror}") from error
        try:
            _lock(fd, path)
            yield fd
        finally:
            os.close(fd)

    def _path(self, key: Key, suffix: str) -> Path:
        return self.directory / f"{key.stem}.{suffix}"


def records_directory(node_directory: Path) -> Path:
    """Give where the records of a node lie in its state directory."""
    return node_directory / "records"


def _lock(fd: int, path: Path) -> None:
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise RecordError(f"the lock {path} is held: the process before has not ended") from None
            time.sleep(0.01)
        else:
            return
