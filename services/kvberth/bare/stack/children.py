"""The services as processes with a record and a lock each, so that a later command finds them when `up` is dead.

The lock file is inherited by the service: held means alive. The record names its pid and start time.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvberth.bare.runner import procfs
from kvberth.bare.stack.errors import StackError
from kvberth.service.files import write_whole

MAX_LOG_BYTES = 16 * 1024 * 1024
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Child:
    """A service that runs, or ran; `pid` alone could be another process's by now."""

    lock: Path
    pid: int
    start_ticks: int | None

    @property
    def alive(self) -> bool:
        """Whether its lock is still held."""
        try:
            with self.lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless its pid is somebody else's by now."""
        if procfs.start_ticks(self.pid) == self.start_ticks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def start(
    name: str, argv: Sequence[str], env: Mapping[str, str], *, records: Path, log: Path
) -> "subprocess.Popen[bytes]":
    """Start a service with its lock inherited, and write its record.

    Raises:
        StackError: its program can't be run, or its former life still holds the lock.
    """
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_suffix(".old"))
    with (records / f"{name}.lock").open("wb") as lock, log.open("ab") as output:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            process = subprocess.Popen(
                argv,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(lock.fileno(),),
                start_new_session=True,
            )
        except BlockingIOError as error:
            raise StackError(f"the {name} of an earlier start has not ended; 'kvberth down' ends it") from error
        except OSError as error:
            raise StackError(f"{argv[0]} can't be started: {error.strerror}") from error
    record = {"pid": process.pid, "start_ticks": procfs.start_ticks(process.pid)}
    write_whole(records / f"{name}.json", json.dumps(record))
    return process


def recorded(records: Path) -> Iterator[Child]:
    """Give the services that a state directory knows of, living or not."""
    for path in sorted(records.glob("*.json")):
        # A record that can't be read names nobody; the next start says that its lock is held.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            raw = json.loads(path.read_text())
            yield Child(path.with_suffix(".lock"), int(raw["pid"]), raw["start_ticks"])


def end(children: Sequence[Child], grace_s: float) -> list[Child]:
    """End services by SIGTERM, after ``grace_s`` seconds by SIGKILL (stopped ones, too); give those that live on."""
    for child in children:
        child.send(signal.SIGTERM)
    left = _wait(children, grace_s)
    for child in left:
        child.send(signal.SIGKILL)
    return _wait(left, 2.0)


def _wait(children: Sequence[Child], within_s: float) -> list[Child]:
    deadline = time.monotonic() + within_s
    left = [child for child in children if child.alive]
    while left and time.monotonic() < deadline:
        time.sleep(POLL_S)
        left = [child for child in left if child.alive]
    return left
