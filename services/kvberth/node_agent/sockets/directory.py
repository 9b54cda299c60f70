"""Makes a cache's directory as a want asks for it, looks at what is in its place, and empties it after a drop.

Never removes a directory of a cache itself: a running engine's mount would keep the dead one for ever. Follows no
symbolic link. The calls are few and local; only emptying belongs in a thread.
"""

import os
import shutil
import stat
import threading
from dataclasses import dataclass
from pathlib import Path

from kvberth.kvcache import SOCKET_NAME
from kvberth.node_agent.sockets.faults import no_directory, unusable
from kvberth.node_agent.sockets.verdict import Failed
from kvberth.store.control import CLIENTS_NAME
from kvberth.store.locks import held

_NAMESPACE_MODE = 0o755
_KINDS = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISREG, "a plain file"))

Identity = tuple[int, int]
"""Device and inode: a path may come to mean another thing, this doesn't."""


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory to keep. ``mode`` None: it is only looked at, and neither made nor changed."""

    path: Path
    mode: int | None
    gid: int | None = None

    @property
    def socket(self) -> Path:
        """Where the cache's daemon listens."""
        return self.path / SOCKET_NAME


@dataclass(frozen=True, slots=True)
class Place:
    """What was found: the directory itself, and the socket in it if there is anything by that name."""

    directory: Identity
    socket: Identity | None
    complaint: str | None = None
    """Why mode or group are not as wanted; the directory serves nevertheless."""


def prepare(directory: Directory) -> Place | Failed:
    """Make the directory if it is missing, give it mode and group, and say what is there. Raises nothing."""
    try:
        found = _made(directory)
        for is_kind, kind in _KINDS:
            if is_kind(found.st_mode):
                return no_directory(str(directory.path), kind)
        if not stat.S_ISDIR(found.st_mode):
            return no_directory(str(directory.path), "no directory")
        complaint = _adjusted(directory, found)
        return Place(_identity(found), _socket_identity(directory.socket), complaint)
    except OSError as error:
        return unusable(str(directory.path), error)


def empty(directory: Path, given_up: threading.Event) -> list[str]:
    """Remove what is in a directory, its socket first, until ``given_up`` is set; a sentence for each that stays.

    Blocks, so it belongs in a thread. Neither follows links nor enters another file system. The locks of engines that
    still map a store's memory stay, without a word: by them the next transfer worker knows for whom it has to wait.
    """
    complaints = []
    try:
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode):
            return []
        entries = sorted(directory.iterdir(), key=lambda entry: entry.name != SOCKET_NAME)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{directory} can't be emptied: {error.strerror}"]
    for entry in entries:
        if given_up.is_set():
            break
        try:
            if not _holds_locks(entry):
                _remove(entry, found.st_dev)
        except OSError as error:
            complaints.append(f"{entry} can't be removed: {error.strerror}")
    return complaints


def _made(directory: Directory) -> os.stat_result:
    try:
        return directory.path.lstat()
    except FileNotFoundError:
        if directory.mode is None:
            raise
    directory.path.parent.mkdir(mode=_NAMESPACE_MODE, parents=True, exist_ok=True)
    directory.path.mkdir(mode=directory.mode, exist_ok=True)
    return directory.path.lstat()


def _adjusted(directory: Directory, found: os.stat_result) -> str | None:
    """Set group and mode where they differ; whoever made the directory may not be us, and that alone harms nobody."""
    if directory.mode is None:
        return None
    try:
        if directory.gid is not None and found.st_gid != directory.gid:
            os.chown(directory.path, -1, directory.gid)
            found = directory.path.lstat()  # the kernel clears set-id bits
        if stat.S_IMODE(found.st_mode) != directory.mode:
            directory.path.chmod(directory.mode)
    except PermissionError as error:
        wanted = f"mode {directory.mode:o}" + ("" if directory.gid is None else f" and group {directory.gid}")
        return f"{directory.path} can't be given {wanted}: {error.strerror}"
    return None


def _holds_locks(entry: Path) -> bool:
    return entry.name == CLIENTS_NAME and not entry.is_symlink() and bool(held(entry.parent))


def _remove(entry: Path, device: int) -> None:
    found = entry.lstat()
    if not stat.S_ISDIR(found.st_mode):
        entry.unlink(missing_ok=True)
    elif found.st_dev == device:
        shutil.rmtree(entry)


def _socket_identity(path: Path) -> Identity | None:
    try:
        return _identity(path.lstat())
    except (FileNotFoundError, PermissionError):  # the probe will tell them apart
        return None


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino
