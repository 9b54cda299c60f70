"""Who still maps a store's memory: each client holds a lock on a file of its own for as long as it does.

The kernel frees the lock when its process is gone, whatever container or pid namespace that is in, and not before: so
only a free lock proves that nobody writes there any more. A file is named `<epoch>.<client>` in `clients/` beside the
daemon's socket.
"""

import fcntl
import os
from pathlib import Path

from kvberth.store.control import CLIENTS_NAME
from kvberth.store.errors import StoreError

_EPOCH_HEX = 32


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
    """A client's own lock. A forked child inherits the descriptor closed by its own exec, and must not unlock it."""

    def __init__(self, path: Path) -> None:
        """Makes and locks the file; raises StoreError with a sentence."""
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.fchmod(self._fd, 0o644)  # whatever the umask: a worker of another user must be able to try the lock
        except OSError as error:
            raise StoreError(f"{path.parent} can't be written, which a client must ({error.strerror})") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise StoreError(f"{path} is locked at this moment; try again") from None

    def close(self) -> None:
        """Says that nothing of this process maps the memory any more. Call it once."""
        os.close(self._fd)


def is_held(path: Path) -> bool:
    """Whether the file's client lives."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # nobody can know: the careful answer
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)  # which frees the lock: no other descriptor has this one
    return False


def others_held(directory: Path, epoch: bytes) -> list[str]:
    """The names of living clients of other epochs; files of dead ones are removed."""
    held = []
    for path in sorted((directory / CLIENTS_NAME).iterdir()):
        if len(path.name) <= _EPOCH_HEX or path.name[:_EPOCH_HEX] == epoch.hex():
            continue
        if is_held(path):
            held.append(path.name)
        else:
            path.unlink(missing_ok=True)
    return held
