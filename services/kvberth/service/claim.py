"""One instance per directory, and the number of its starts, which is its term on the bus."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvberth.service.errors import ServiceError
from kvberth.service.files import sync_directories, write_whole
from kvberth.service.lock import DirectoryLock, take


@dataclass(frozen=True, slots=True)
class Claim:
    """What a service holds while it lives: a lock and a counter in one directory."""

    lock: DirectoryLock
    counter: Path


@contextmanager
def claimed(claim: Claim, now_s: float) -> Iterator[int]:
    """Hold the lock while the block runs, and give the term of this start.

    Without a readable number the clock stands in (`now_s`, seconds since the epoch): on a bus that remembers earlier
    terms a small one would be taken for a deposed writer.

    Raises:
        ServiceError: another instance holds it, or the directory can't be written.
    """
    directory = claim.lock.path.parent
    with _writing(directory):
        lock = take(claim.lock)
    with lock:
        with _writing(directory):
            term = _next(claim.counter, int(now_s))
            write_whole(claim.counter, f"{term}\n")
            sync_directories([claim.counter.parent])  # a term must never be used twice
        yield term


def _next(counter: Path, now_s: int) -> int:
    try:
        return int(counter.read_text(encoding="ascii")) + 1
    except (FileNotFoundError, ValueError):
        return now_s


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = "set KVBERTH_STATE to another"
        raise ServiceError(f"The directory {directory} can't be written ({error.strerror}); {remedy}.") from error
