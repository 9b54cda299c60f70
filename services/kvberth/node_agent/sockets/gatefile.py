"""Keeps `gate.json` in a cache's directory, which tells the gates of engines what their KVCache says about waiting.

A gate follows no file that is older than a minute, so it is renewed while a want claims the directory, and removed when
that is dropped: what an agent left that went must hold no engine. Others may write in that directory, so no link of
theirs is followed.
"""

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import structlog

from kvberth.node_agent.sockets.plan import GateRule

FILE_NAME = "gate.json"
RENEW_S = 10.0
LOOK_S = 1.0
"""Between two looks at whether the directory is there and still the same."""

_DRAFT = ".gate.json.new"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_log = structlog.get_logger(__name__)


class GateFile:
    """The file in one directory; the calls are few and local."""

    def __init__(self, directory: Path, rule: GateRule) -> None:
        """Nothing is written before `run`."""
        self._directory = directory
        self._rule = rule
        self._complaint = ""
        self._written: tuple[int, int, GateRule] | None = None
        self._due = 0.0
        self._told = asyncio.Event()

    def tell(self, rule: GateRule) -> None:
        """Take what a newer want says."""
        self._rule = rule
        self._told.set()

    async def run(self) -> None:
        """Keep the file until cancelled. A directory that is not there yet gets it when it is."""
        while True:
            self._look(asyncio.get_running_loop().time())
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._told.wait()
            except TimeoutError:
                continue
            self._told.clear()

    def remove(self) -> None:
        """Remove the file: no want claims the directory any more."""
        try:
            with _opened(self._directory) as directory:
                os.unlink(FILE_NAME, dir_fd=directory)
        except FileNotFoundError:
            return
        except OSError as error:
            self._complain("removed", error)

    def _look(self, now: float) -> None:
        try:
            with _opened(self._directory) as directory:
                found = os.fstat(directory)
                written = (found.st_dev, found.st_ino, self._rule)
                if written == self._written and now < self._due:
                    return
                _write(directory, self._rule)
        except FileNotFoundError:
            return  # the watcher of the socket says so
        except OSError as error:
            self._complain("written", error)
            return
        self._complaint, self._written, self._due = "", written, now + RENEW_S

    def _complain(self, what: str, error: OSError) -> None:
        sentence = f"{self._directory / FILE_NAME} can't be {what}, so gates go by their defaults: {error.strerror}"
        if sentence != self._complaint:  # tried each second, said once
            self._complaint = sentence
            _log.warning(sentence)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, _DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def _write(directory: int, rule: GateRule) -> None:
    text = json.dumps({"policy": rule.policy, "timeout_s": rule.timeout_s})
    with suppress(FileNotFoundError):
        os.unlink(_DRAFT, dir_fd=directory)
    with os.fdopen(os.open(_DRAFT, _FRESH, 0o644, dir_fd=directory), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)  # whatever the umask: engines of any user read it
        file.write(text)
    os.replace(_DRAFT, FILE_NAME, src_dir_fd=directory, dst_dir_fd=directory)
