"""Who still maps a store's memory: each client holds a lock on a file of its own for as long as it does.

The kernel frees the lock when its process is gone, whatever container or pid namespace that is in, and not before: so
only a free lock proves that nobody writes there any more. A file is named `<epoch>.<client>` in `clients/` beside the
daemon's socket.
"""

import errno
import fcntl
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kvberth.store.control import CLIENTS_NAME
from kvberth.store.errors import StoreError

_NAME = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{32}")
_OPEN = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
"""The folder is everybody's: a FIFO there would block whoever opens it, and a link lead anywhere."""

LINGER_S = 1.0
"""So long the copies of a process that is dead may go on: the driver ends them with its context."""

_log = logging.getLogger(__name__)  # an engine has no other


def lock_path(directory: Path, epoch: bytes, client: bytes) -> Path:
    """The file of one client, in the directory of the daemon's socket."""
    return directory / CLIENTS_NAME / f"{epoch.hex()}.{client.hex()}"


def make_clients(directory: Path) -> None:
    """For the worker: makes the folder, in which engines of any user may make their files."""
    folder = directory / CLIENTS_NAME
    folder.mkdir(exist_ok=True)
    if folder.stat().st_uid == os.geteuid():
        folder.chmod(0o1777)


class ClientLock:
    """A client's own lock. A forked child closes its copy at once, and unlocks nothing by it."""

    def __init__(self, path: Path, *, lingers: bool = False) -> None:
        """Makes and locks the file; raises StoreError with a sentence.

        `lingers`: a device may write there for a moment still when this process is dead, and the file says so.
        """
        self.path = path
        self._lingers = lingers
        self._marked = False
        self._process = os.getpid()
        try:
            with _forking:
                self._fd = os.open(path, os.O_RDWR | os.O_CREAT | _OPEN, 0o644)
                _open.add(self._fd)
        except OSError as error:
            raise StoreError(f"{path} can't be written, which a client must ({error.strerror})") from None
        try:
            self._lock()
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        if not _is_file(self._fd):
            raise StoreError(f"{self.path} is no file, so it can't be locked")
        try:
            os.fchmod(self._fd, 0o644)  # whatever the umask: a worker of another user must be able to try the lock
        except OSError as error:
            raise StoreError(f"{self.path} can't be written, which a client must ({error.strerror})") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"{self.path} is locked at this moment; try again") from None
        os.ftruncate(self._fd, int(self._lingers))
        self._marked = self._lingers

    def close(self) -> None:
        """Says that nothing of this process maps the memory any more. In a forked child it is closed already."""
        with _forking:
            if self._fd in _open and os.getpid() == self._process:
                _open.discard(self._fd)
                if self._marked:
                    os.ftruncate(self._fd, 0)  # whoever leaves by himself has waited for his copies
                os.close(self._fd)


def _close_in_child() -> None:
    for fd in _open:
        os.close(fd)
    _open.clear()
    _forking.release()


_found_free: dict[Path, float] = {}
"""When the locks of dead clients that linger were found free; each until its file is forgotten."""
_open: set[int] = set()
"""The descriptors of all locks of this process: a child that kept one would keep the lock for its own life."""
_forking = threading.Lock()
os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_close_in_child)


def is_held(path: Path) -> bool:
    """Whether the file's client may still write there; what is no file is no client's.

    Of one that lingers the file counts as held for a second after its lock was first found free.
    """
    try:
        fd = os.open(path, os.O_RDONLY | _OPEN)
    except FileNotFoundError:
        return False
    except OSError as error:
        # A link or a socket is no client's file. For any other reason nobody can know: the careful answer.
        return error.errno not in (errno.ELOOP, errno.ENXIO)
    try:
        if not _is_file(fd):
            return False
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(fd).st_size > 0 and _lingering(path)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)  # which frees the lock: no other descriptor has this one


def _lingering(path: Path) -> bool:
    now = time.monotonic()
    return now < _found_free.setdefault(path, now) + LINGER_S


def others_held(directory: Path, epoch: bytes) -> list[str]:
    """The names of living clients of other epochs; files of dead ones are removed, other names passed over."""
    return _held(directory, lambda name: not name.startswith(epoch.hex()))


def own_held(directory: Path, epoch: bytes) -> list[str]:
    """The names of living clients of this epoch; files of dead ones are removed."""
    return _held(directory, lambda name: name.startswith(epoch.hex()))


def held(directory: Path) -> list[str]:
    """The names of all living clients; files of dead ones are removed."""
    return _held(directory, lambda _: True)


def _held(directory: Path, asked: Callable[[str], bool]) -> list[str]:
    held = []
    folder = directory / CLIENTS_NAME
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not _NAME.fullmatch(path.name) or not asked(path.name):
            continue
        if is_held(path):
            held.append(path.name)
        else:
            forget(path)
    return held


def forget(path: Path) -> None:
    """Removes the file of a client that is gone; where that can't be it is said, and harms nobody."""
    _found_free.pop(path, None)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s, in place of a client's lock, can't be removed (%s)", path, error.strerror)


def _is_file(fd: int) -> bool:
    return stat.S_ISREG(os.fstat(fd).st_mode)
