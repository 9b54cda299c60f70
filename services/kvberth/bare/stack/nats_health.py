"""Has a NATS server started again that can't store, although the disk could.

nats-server (2.15) remembers the first write error of a stream, such as a full disk, and then stores nothing in it until
it is started again; publishers only miss an answer. Its monitoring tells. Engines and caches need no NATS, so a new
start disturbs none of them.
"""

import asyncio
import http.client
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from kvberth.bare.stack.layout import Layout
from kvberth.service.threads import in_thread

LOOK_EVERY_S = 2.0
ANSWER_WITHIN_S = 2.0
PATIENCE_S = 10.0
"""How long it may fail while there is room."""
AGAIN_AFTER_S = 60.0
"""Between two starts: where one does not help, the next soon after would not, either."""
ROOM_BYTES = 2**20

_LATCHED = ("write error", "no space left")

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Patience:
    """Decides when a server is started again. Pure: times are seconds of any clock."""

    _since: float | None = None
    _last: float | None = None

    def is_over(self, fault: str | None, free_bytes: int, now: float) -> bool:
        """Take one more look at it; tell whether it is to be started again now."""
        if fault is None or free_bytes < ROOM_BYTES:
            self._since = None
            return False
        self._since = now if self._since is None else self._since
        if now - self._since < PATIENCE_S or (self._last is not None and now - self._last < AGAIN_AFTER_S):
            return False
        self._since, self._last = None, now
        return True


async def keep_storing(layout: Layout, pid: Callable[[], int | None], restart: Callable[[], None]) -> None:
    """Look at the server again and again, until cancelled; `restart` is called when it has to start again."""
    patience, said = Patience(), ""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        fault, free = await in_thread(lambda: _look(layout, pid()), "asking NATS whether it stores")
        if patience.is_over(fault, free, loop.time()):
            _log.error("NATS stores nothing since a write failed; it is started again", reason=fault)
            restart()
        elif fault is not None and fault != said:
            _log.error("NATS can't store; where there is room again, it is started again", reason=fault)
        said = fault or ""


def _look(layout: Layout, pid: int | None) -> tuple[str | None, int]:
    try:
        found = os.statvfs(layout.nats)
        return write_fault(layout.records, pid), found.f_bavail * found.f_frsize
    except (OSError, ValueError, KeyError, IndexError, TypeError, http.client.HTTPException):
        return None, 0  # it is being started, or does not answer: other faults, with other cures


def write_fault(ports_directory: Path, pid: int | None) -> str | None:
    """Ask a server whether a stream of it can't be written, and why; None where all can.

    Raises:
        OSError, ValueError, KeyError, IndexError, TypeError, HTTPException: it does not tell.
    """
    ports = json.loads((ports_directory / f"nats-server_{pid}.ports").read_text(encoding="utf-8"))
    address = urlsplit(ports["monitoring"][0])
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=ANSWER_WITHIN_S)
    try:
        connection.request("GET", "/healthz")
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    error = str(answer.get("error", ""))
    return error if any(words in error for words in _LATCHED) else None
