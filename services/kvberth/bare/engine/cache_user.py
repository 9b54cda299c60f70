"""The half of the stand-in that uses the cache, through the official client, in a process of its own.

That client holds the interpreter lock while it waits on a hung daemon, so it must not share a process with /health.
It says on standard output, line by line, what happened (`connected`, `stored`, `lost <why>`), and ends when its
standard input does, deleting its objects. Exit code 1: no daemon answered in ten tries at the start.
"""

import select
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import vineyard

TRIES = 10
TRY_EVERY_S = 1.0
TIMEOUT_S = 2
"""Of every request of the official client; it takes whole seconds."""
PAYLOAD = b"kvberth engine stand-in: a block of 64 bytes, as good as any...."


@dataclass(slots=True)
class CacheUser:
    """The one connection to the daemon, and the object that was stored last."""

    path: str
    scale: float
    client: Any = None
    objects: list[Any] = field(default_factory=list)

    def run(self) -> int:
        """Connect, then store and read each second until standard input ends; the exit code."""
        if not self._connect_at_start():
            return 1
        while not self._told_to_end(TRY_EVERY_S * self.scale):
            try:
                self._round()
            except (OSError, RuntimeError) as error:  # every failure of the official client is a RuntimeError
                self._drop()
                say("lost", error)
        try:
            self._delete_objects()
        except RuntimeError as error:
            say("lost", error)
        return 0

    def _connect_at_start(self) -> bool:
        for attempt in range(1, TRIES + 1):
            try:
                self._connect()
            except (OSError, RuntimeError) as error:
                say("retrying", f"{error}, try {attempt} of {TRIES}")
                if self._told_to_end(TRY_EVERY_S * self.scale):
                    return False
            else:
                say("connected", self.path)
                return True
        say(
            "failed", f"Connection failed: Failed to connect to vineyardd: Failed to connect to IPC socket: {self.path}"
        )
        return False

    def _connect(self) -> None:
        # The official client sleeps a second with the lock held when nobody listens; a plain connect finds out first.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
            attempt.settimeout(TIMEOUT_S)
            attempt.connect(self.path)
        self.client = vineyard.connect(self.path)  # type: ignore[no-untyped-call] # the official client has no types
        self.client.ipc_client.timeout_seconds = TIMEOUT_S

    def _round(self) -> None:
        if self.client is None:
            self._connect()
            say("connected", self.path)
        started = time.monotonic()
        builder = self.client.create_blob(len(PAYLOAD))
        builder.copy(0, PAYLOAD)
        stored = builder.seal(self.client).id
        blob = self.client.get_blob(stored)
        if blob is None or bytes(memoryview(blob)) != PAYLOAD:
            raise RuntimeError("the cache gave back other bytes than it was given")
        say("stored", f"and read {len(PAYLOAD)} bytes in {(time.monotonic() - started) * 1000:.2f} ms")
        self._delete_objects()  # only now: in a cache that is full nothing can be stored, whoever came first
        self.objects.append(stored)

    def _delete_objects(self) -> None:
        """Delete what was stored before; what a dead daemon held is gone with it."""
        if self.client is not None and self.objects:
            self.client.delete(self.objects)
        self.objects.clear()

    def _drop(self) -> None:
        """Give up the connection: after a failure the official client never uses it again, nor reconnects."""
        if self.client is not None:
            self.client.close()
        self.client = None
        self.objects.clear()

    def _told_to_end(self, wait_s: float) -> bool:
        readable, _, _ = select.select([sys.stdin], [], [], wait_s)
        return bool(readable)


def say(what: str, text: object) -> None:
    """Tell the parent, in one line."""
    sys.stdout.write(f"{what} {' '.join(str(text).split())}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to the whole group; the parent says when to end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(CacheUser(sys.argv[1], float(sys.argv[2])).run())
