"""What the kernel says about processes, read from /proc. Changes nothing.

Whatever looks there raises OSError when this process has too few descriptors to look: that is no word about others.
"""

from collections.abc import Iterator
from pathlib import Path

from kvberth.service.shortage import is_own_shortage

PROCESS_VARIABLE = "KVBERTH_PROCESS"
"""Carries the id of its life in the environment of every process that is recorded."""

_PROC = Path("/proc")


def boot_id() -> str:
    """Give the id of this boot; pids and start times of another one mean nothing."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Give when a process started, in clock ticks since the boot; None when there is no such process."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def bearers(life: str) -> list[int]:
    """Give the processes that carry a life's id, leaders of their session first; its children inherit the id."""
    found = [pid for pid in _pids() if _carries(pid, life)]
    return sorted(found, key=lambda pid: (not _leads_session(pid), pid))


def _pids() -> Iterator[int]:
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def _carries(pid: int, life: str) -> bool:
    wanted = f"{PROCESS_VARIABLE}={life}".encode()
    return wanted in _read(_PROC / str(pid) / "environ").split(b"\0")


def _leads_session(pid: int) -> bool:
    fields = _stat(pid)
    return bool(fields) and int(fields[3]) == pid


def _stat(pid: int) -> list[str]:
    """Give the fields after the name (the state is 0); empty when there is no such process."""
    return _read(_PROC / str(pid) / "stat").decode(errors="replace").rpartition(")")[2].split()


def _read(path: Path) -> bytes:
    """Give a file of a process; empty when it ended meanwhile, or is another user's and so not ours."""
    try:
        return path.read_bytes()
    except OSError as error:
        if is_own_shortage(error):
            raise
        return b""


def holders(path: Path) -> list[int]:
    """Give the processes that have a file open, as far as this user may look."""
    return sorted(pid for pid in _pids() if _has_open(pid, path))


def _has_open(pid: int, path: Path) -> bool:
    wanted = str(path.absolute())
    try:
        return any(str(link.readlink()) == wanted for link in (_PROC / str(pid) / "fd").iterdir())
    except OSError as error:  # it ended meanwhile, or closed a file, or is another user's
        if is_own_shortage(error):
            raise
        return False
