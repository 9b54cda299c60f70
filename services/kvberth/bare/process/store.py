"""One record per process on disk, with a lock beside it that lives and dies with the process.

The record is written first, then the process is forked with the locked descriptor inherited. So at every moment:
lock held = alive, lock free = ended (zombies included). This module starts and ends nothing.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from kvberth.bare.process import locks
from kvberth.bare.process.record import ProcessRecord
from kvberth.service.files import draft_of, sync_directories, write_whole

R = TypeVar("R", bound=ProcessRecord)


class RecordError(Exception):
    """A record can't be written or removed; the text is a sentence."""


class RecordStore(Generic[R]):
    """The records of one directory, by the stems of their files. Blocking: a write waits for the disk."""

    def __init__(self, directory: Path, model: type[R]) -> None:
        """`model` is what a record is read as."""
        self.directory = directory
        self._model = model

    def load(self) -> tuple[dict[str, R], list[str]]:
        """Read all records, and a sentence for each file that holds none."""
        records: dict[str, R] = {}
        faults = []
        for path in sorted(self.directory.glob("*.json")):
            try:
                records[path.stem] = self._model.model_validate_json(path.read_bytes())
            except (OSError, ValidationError) as error:
                faults.append(f"{path} is no record of a process and is left alone: {str(error).splitlines()[0]}")
        return records, faults

    def write(self, stem: str, record: R) -> None:
        """Write a record, whole or not at all, and be sure that it is on the disk.

        Raises:
            RecordError: the disk refuses.
        """
        path = self.directory / f"{stem}.json"
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(path, record.model_dump_json(indent=1))
            sync_directories([self.directory])
        except OSError as error:
            raise RecordError(f"the record {path} can't be written: {error.strerror}") from error

    def remove(self, stem: str) -> None:
        """Remove the record of an ended process, its lock, and what a kill left of a record half written.

        Raises:
            RecordError: the disk refuses.
        """
        path = self.directory / f"{stem}.json"
        try:
            for file in (path, draft_of(path), self.lock(stem)):
                file.unlink(missing_ok=True)
        except OSError as error:
            raise RecordError(f"the record {path} can't be removed: {error.strerror}") from error

    def alive(self, stem: str) -> bool:
        """Tell whether the process lives, or any process that it started: somebody holds its lock."""
        return locks.is_held(self.lock(stem))

    def locked(self, stem: str) -> AbstractContextManager[int]:
        """Hold the lock of a process that is about to start; see `locks.held`."""
        return locks.held(self.lock(stem))

    def lock(self, stem: str) -> Path:
        """Give the path of a process's lock."""
        return self.directory / f"{stem}.lock"

    def held_locks(self) -> list[Path]:
        """Give the locks that somebody holds, with a record or without."""
        return [path for path in sorted(self.directory.glob("*.lock")) if locks.is_held(path)]
