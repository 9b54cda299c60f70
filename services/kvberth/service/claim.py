"""One instance per directory, and the number of its starts, which is its term on the bus."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvberth.service.errors import ServiceError
from kvberth.service.files import sync_directories, write_whole


@dataclass(frozen=True, slots=True)
class Claim:
    """What a service holds while it lives: a lock and a counter in one directory."""

    lock: Path
    counter: Path
    taken: str
    """The sentence for whoever comes second."""


@contextmanager
def claimed(claim: Claim, now_s: float) -> Iterator[int]:
    """Hold the lock while the block runs, and give the term of this start.

    Without a readable number the clock stands in (`now_s`, seconds since the epoch): on a bus that remembers earlier
    terms a small one would be taken for a deposed writer.

    Raises:
        ServiceError: another instance holds it, or the directory can't be written.
    """
    directory = claim.lock.parent
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Descriptors are not inherited by default: the claim ends with this process, whatever it started.
        lock = claim.lock.open("ab")
    except OSError as error:
        raise _unwritable(directory, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            term = _next(claim.counter, int(now_s))
            write_whole(claim.counter, f"{term}\n")
            sync_directories([claim.counter.parent])  # a term must never be used twice
        except BlockingIOError:
            raise ServiceError(claim.taken) from None
        except OSError as error:
            raise _unwritable(directory, error) from error
        yield term


def _next(counter: Path, now_s: int) -> int:
    try:
        return int(counter.read_text(encoding="ascii")) + 1
    except (FileNotFoundError, ValueError):
        return now_s


def _unwritable(directory: Path, error: OSError) -> ServiceError:
    return ServiceError(f"The directory {directory} can't be written ({error.strerror}); set KVBERTH_STATE to another.")
