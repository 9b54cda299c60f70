"""What a kill left in the scheduler's state directory, files that can't be read, and the directory's one lock."""

import fcntl
import os
from pathlib import Path
from typing import TextIO

from kvberth.service import ServiceError
from kvberth.service.files import DRAFT

_CORRUPT = ".corrupt"


def remove_drafts(directory: Path) -> None:
    """Remove what a killed writer left half written."""
    for path in directory.glob(f"*{DRAFT}"):
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
