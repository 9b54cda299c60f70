"""The term of this placement: the number of its starts, kept in the state directory under a lock.

A second instance on the same directory refuses to start.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvberth.service import ServiceError


@contextmanager
def held_term(state: Path, now_s: float) -> Iterator[int]:
    """Count this start and hold the lock while the block runs.

    Without a readable number the clock stands in (`now_s`, seconds since the epoch): on a bus that remembers earlier
    terms a small one would be taken for a deposed placement. Raises ServiceError when another instance holds it.
    """
    directory = state / "placement"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / "term"
    file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            remedy = "stop it, or give this one another KVBERTH_STATE"
            raise ServiceError(f"Another placement runs on the state directory {state}; {remedy}.") from error
        term = _next(path, int(now_s))
        _write(path, term)
        yield term
    finally:
        os.close(file)


def _next(path: Path, now_s: int) -> int:
    try:
        return int(path.read_text(encoding="ascii")) + 1
    except (FileNotFoundError, ValueError):
        return now_s


def _write(path: Path, term: int) -> None:
    """Write it whole or not at all, and onto the disk: a term must never be used twice."""
    new = path.with_suffix(".new")
    with new.open("w", encoding="ascii") as file:
        file.write(f"{term}\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
