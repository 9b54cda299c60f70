"""A living process in the hand: how its end is waited for, and how it is signalled. Finds it again by its record."""

import asyncio
import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass, field

from kvberth.bare.process import procfs
from kvberth.bare.process.record import ProcessRecord
from kvberth.service.shortage import is_own_shortage

SHORTAGE_PAUSE_S = 0.5


@dataclass(slots=True)
class Handle:
    """A living process. `child` is None for an adopted one, whose exit code nobody but its old parent can learn."""

    pid: int
    start_ticks: int | None
    child: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    async def ended(self) -> int | None:
        """Wait until the process has ended; give its exit code where it can be known (128 + n after signal n)."""
        pidfd = await _pidfd_of(self)
        if pidfd is not None:
            try:
                await _readable(pidfd)
            finally:
                os.close(pidfd)
        if self.child is None:
            return None
        code = self.child.wait()  # returns at once: the kernel has just said that it ended
        return 128 - code if code < 0 else code

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process and everything in its group, unless its pid is somebody else's by now.

        Raises OSError when that can't be looked at.
        """
        if procfs.start_ticks(self.pid) == self.start_ticks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)


def known(record: ProcessRecord, boot_id: str) -> Handle | None:
    """Give the process that a record names; None if it names none of this boot."""
    if record.pid is None or record.boot_id != boot_id:
        return None
    return Handle(record.pid, record.start_ticks)


def search(life: str) -> Handle | None:
    """Find a process by the life in its environment; None while it can't be seen (about to exec).

    Looks through all of /proc, so call it off the loop.
    """
    return next((Handle(pid, procfs.start_ticks(pid)) for pid in procfs.bearers(life)), None)


def kill_remains(life: str) -> None:
    """End whatever a process left behind: its children carry its life in their environment. Call it off the loop."""
    for pid in procfs.bearers(life):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def _pidfd_of(handle: Handle) -> int | None:
    """Open a descriptor of the process; while this one has none left, wait for one."""
    while True:
        try:
            return _open_pidfd(handle.pid, handle.start_ticks)
        except OSError as error:
            if not is_own_shortage(error):
                raise
            await asyncio.sleep(SHORTAGE_PAUSE_S)


def _open_pidfd(pid: int, start_ticks: int | None) -> int | None:
    """Give a descriptor of the process; None when it is gone, or its pid is another's."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    try:
        found = procfs.start_ticks(pid)
    except OSError:
        os.close(pidfd)
        raise
    if found == start_ticks:
        return pidfd
    os.close(pidfd)
    return None


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
