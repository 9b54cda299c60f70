"""One process per directory: a lock of the kernel's, free as soon as its holder is dead, and one sentence about him."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kvberth.service.errors import ServiceError


@dataclass(frozen=True, slots=True)
class DirectoryLock:
    """The lock of a directory, and the words for whoever comes second."""

    path: Path
    """A file in that directory; it holds the pid of the last holder, and stays."""
    holder: str
    """What may hold it, to follow the word "Another"."""
    remedy: str
    """What to do about a holder."""


class HeldError(ServiceError):
    """Another process works with the directory; the text says which, and what to do about it."""


def take(lock: DirectoryLock) -> BinaryIO:
    """Take a lock for as long as the returned file is open, and make its directory.

    Raises:
        HeldError: another process holds it.
        OSError: the directory can't be made, or the file not be written.
    """
    lock.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock.path.touch(0o600)
    # Descriptors are not inherited by default: the lock ends with this process, whatever it started.
    file = lock.path.open("r+b", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(f"{os.getpid()}\n".encode())  # over the pid before, so that a disk without room is no hindrance
        file.truncate()
    except BlockingIOError:
        with file:
            raise HeldError(_sentence(lock, file.readline())) from None
    except BaseException:
        file.close()
        raise
    return file


def _sentence(lock: DirectoryLock, line: bytes) -> str:
    pid = line.decode(errors="replace").strip()
    who = f" (pid {pid})" if pid.isdecimal() else ""
    return f"Another {lock.holder}{who} works with {lock.path.parent}; {lock.remedy}."
