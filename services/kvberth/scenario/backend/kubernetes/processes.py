"""The processes of containers, as the kernel of a node shows them. Reads /proc; knows no pod and no Kubernetes."""

import os
import re
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

PROC: Final = Path("/proc")
_CONTAINER = re.compile(r"[0-9a-f]{64}")
_SOCKET_VARIABLE: Final = "AIBRIX_LLM_KV_CACHE_SOCKET="
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_BOOTED = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
_MAX_LINKS: Final = 40


@dataclass(frozen=True, slots=True)
class Process:
    """A living process of a container."""

    container: str
    """The container's id."""
    pid: int
    """In the node's own namespace."""
    inner_pid: int
    """In the container's: its first process is 1."""
    started: int
    """In clock ticks since the boot."""
    began: float
    """The same as seconds since the epoch, to a hundredth."""
    state: str
    rss_bytes: int
    argv: tuple[str, ...]
    socket: str | None
    """The cache's socket that its environment names, a path in its own file system."""

    def as_json(self) -> dict[str, Any]:
        """Give it as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Self:
        """Read it back."""
        return cls(**{**raw, "argv": tuple(raw["argv"])})


def in_containers(ids: Collection[str], proc: Path = PROC) -> Iterator[Process]:
    """Give every living process of these containers."""
    for entry in os.scandir(proc):
        if entry.name.isdigit() and (found := _read(Path(entry.path), ids)) is not None:
            yield found


def start_of(pid: int, proc: Path = PROC) -> int | None:
    """Give when a process began, in clock ticks since the boot; None when it has ended."""
    stat = _stat(proc / str(pid))
    return int(stat[19]) if stat else None


def within(root: Path, path: str) -> Path:
    """Give where a path of another file system leads to, seen from here.

    Raises:
        OSError: its links go round in circles.
    """
    done, rest, links = root, list(reversed(PurePosixPath(path).parts)), 0
    while rest:
        part = rest.pop()
        if part == "/":
            done = root
            continue
        if part == "..":
            done = done.parent if done != root else root
            continue
        done = done / part
        if done.is_symlink():
            links += 1
            if links > _MAX_LINKS:
                raise OSError(f"{path} has links that go round in circles")
            rest += reversed(PurePosixPath(done.readlink()).parts)
            done = done.parent
    return done


def _read(folder: Path, ids: Collection[str]) -> Process | None:
    try:
        cgroups = (folder / "cgroup").read_text()
        container = next((found for found in _CONTAINER.findall(cgroups) if found in ids), None)
        if container is None:
            return None
        argv = (folder / "cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
        environ = (folder / "environ").read_bytes().decode(errors="surrogateescape").split("\0")
        status = (folder / "status").read_text()
    except OSError:  # it has ended
        return None
    stat = _stat(folder)
    if stat is None:
        return None
    inner = next(line for line in status.splitlines() if line.startswith("NSpid:"))
    given = (entry for entry in environ if entry.startswith(_SOCKET_VARIABLE))
    return Process(
        container=container,
        pid=int(folder.name),
        inner_pid=int(inner.split()[-1]),
        started=int(stat[19]),
        began=_BOOTED + int(stat[19]) / _TICKS,
        state=stat[0],
        rss_bytes=int(stat[21]) * _PAGE,
        argv=tuple(argv[:-1]),
        socket=next((entry.removeprefix(_SOCKET_VARIABLE) for entry in given), None),
    )


def _stat(folder: Path) -> list[str] | None:
    """Give the fields after the name; None when the process has ended."""
    try:
        stat = (folder / "stat").read_bytes().rpartition(b")")[2].decode().split()
    except OSError:
        return None
    return None if stat[0] in "ZX" else stat
