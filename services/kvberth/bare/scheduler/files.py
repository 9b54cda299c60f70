"""Files that are whole or absent, and one lock: how the scheduler's state directory is written and read.

A file is written beside its name, synced, and renamed; a kill at any moment leaves the old one or the new one.
"""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from kvberth.service import ServiceError

_DRAFT = ".new"
_CORRUPT = ".corrupt"


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it survives a kill. Its directory is to be synced afterwards. Raises OSError."""
    draft = path.with_name(path.name + _DRAFT)
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def sync_directories(paths: Iterable[Path]) -> None:
    """Make renames and removals in these directories survive a power cut. Raises OSError."""
    for path in sorted(set(paths)):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_drafts(directory: Path) -> None:
    """Remove what a killed writer left half written."""
    for path in directory.glob(f"*{_DRAFT}"):
        path.unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Rename a file that can't be read, so that nothing is lost and it is not read again; return its new name."""
    number = 0
    while (aside := path.with_name(f"{path.name}{_CORRUPT}{number or ''}")).exists():
        number += 1
    path.replace(aside)
    return aside


def lock(path: Path, service: str) -> TextIO:
    """Take the lock of a directory for as long as the returned file is open.

    Raises ServiceError when another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        pid = file.read().strip() or "unknown"
        file.close()
        raise ServiceError(
            f"Another {service} (pid {pid}) works with {path.parent}; stop it, or give this one another KVBERTH_STATE."
        ) from error
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
