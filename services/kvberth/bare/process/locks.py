"""The lock that lives and dies with a process: held means that the process lives, or something that it started.

The kernel keeps it: it is free as soon as the process is a zombie, whoever should have reaped it.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvberth.bare.process import procfs

_WAIT_S = 2.0
"""How long a start waits for a lock that somebody only looks at."""


class LockError(Exception):
    """A lock can't be had; the text is a sentence."""


def is_held(path: Path) -> bool:
    """Tell whether somebody holds a lock. Raises OSError when the file can't be read."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Hold a lock for a process that is about to start; whoever inherits the descriptor goes on holding it.

    Blocks for at most two seconds.

    Raises:
        LockError: a process holds it still, or the file can't be made.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LockError(f"the lock {path} can't be opened: {error.strerror}") from error
    try:
        _take(fd, path)
        yield fd
    finally:
        os.close(fd)


def who_holds(path: Path) -> str:
    """Name the processes that have a lock open, in words. Looks through all of /proc, so call it off the loop."""
    own = os.getpid()
    pids = [str(pid) for pid in procfs.holders(path) if pid != own]
    return f"pid {', '.join(pids)}" if pids else "a process that this user can't see"


def _take(fd: int, path: Path) -> None:
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                sentence = f"the lock {path} is held by {who_holds(path)}: the process before has not ended"
                raise LockError(sentence) from None
            time.sleep(0.01)
        else:
            return
