"""Claims a node for one runner, and counts its starts. Holds one lock and one number, nothing else."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvberth.service import ServiceError


@contextmanager
def claimed(node_directory: Path, node: str) -> Iterator[int]:
    """Hold the node while the block runs, and give the number of this start, which is the runner's term.

    Raises:
        ServiceError: another runner holds it, or the state directory can't be written.
    """
    try:
        node_directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Descriptors are not inherited by default: the claim ends with this process, whatever it started.
        lock = (node_directory / "runner.lock").open("ab")
    except OSError as error:
        raise _unwritable(node_directory, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            term = _count(node_directory / "starts")
        except BlockingIOError:
            raise ServiceError(
                f"Another runner of the node {node} is running; end it, or give this one another node in KVBERTH_NODE "
                "or another directory in KVBERTH_STATE."
            ) from None
        except OSError as error:
            raise _unwritable(node_directory, error) from error
        yield term


def _unwritable(directory: Path, error: OSError) -> ServiceError:
    return ServiceError(f"The directory {directory} can't be written ({error.strerror}); set KVBERTH_STATE to another.")


def _count(path: Path) -> int:
    try:
        before = int(path.read_text())
    except (FileNotFoundError, ValueError):
        # A bus that outlived this directory remembers higher terms than 1; the clock is above all counts.
        before = int(time.time())
    draft = path.with_suffix(".new")
    with draft.open("w") as file:
        file.write(f"{before + 1}\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return before + 1
