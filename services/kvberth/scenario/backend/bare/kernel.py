"""What the kernel says about the processes of a stack. Reads /proc; knows no record of the product.

A process belongs to a stack if its environment carries the stack's mark, or its arguments name the stack's sockets.
"""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kvberth.scenario.facts import Life

MARK: Final = "SCENARIO_STACK"
"""Environment variable of everything that a scenario starts. Engines inherit it, since it is none of kvberth's own."""

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_SETTLED_S: Final = 2.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MODULES: Final = {
    "kvberth.placement": "placement",
    "kvberth.bare.scheduler": "scheduler",
    "kvberth.bare.runner": "runner",
    "kvberth.node_agent": "node_agent",
    "kvberth.bare.engine": "engine",
    "kvberth.transfer_worker": "transfer",
}
_LIVES: Final = {"engine-": "engine", "gate-": "gate"}
"""How the ids of recorded lives begin, of roles that no command line tells."""
_SOCKET_VARIABLE: Final = "AIBRIX_LLM_KV_CACHE_SOCKET"


@dataclass(frozen=True, slots=True)
class Stack:
    """By what the processes of a stack are known."""

    mark: str
    root: Path
    """Below which its sockets lie."""
    strangers: dict[int, int] = field(default_factory=dict, compare=False)
    """Processes that are not the stack's, by pid: their start, so that the next look need not read them again."""


@dataclass(frozen=True, slots=True)
class Found:
    """A process as /proc shows it."""

    pid: int
    parent: int
    leader: bool
    """Of its session."""
    state: str
    started: int
    """In clock ticks since the boot."""
    argv: tuple[str, ...]
    env: Mapping[str, str]
    rss_bytes: int


def processes(stack: Stack) -> list[Found]:
    """Give every living process of the stack, whatever it is."""
    return [found for pid in _pids() if (found := _ours(pid, stack)) is not None]


def lives(stack: Stack) -> list[Life]:
    """Give the processes whose role is known: services, NATS, `up`, engines, caches."""
    found = processes(stack)
    roles = {one.pid: _role(one) for one in found}
    # Between fork and exec a child still looks like its parent.
    return [
        _life(one, role, stack)
        for one in found
        if (role := roles[one.pid]) is not None and roles.get(one.parent) != role
    ]


def is_alive(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    found = _read(pid)
    return found is not None


def environment(pid: int) -> dict[str, str]:
    """Give a process's environment; empty when it is gone."""
    found = _read(pid)
    return dict(found.env) if found else {}


def _pids() -> Iterator[int]:
    for entry in os.scandir(_PROC):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            yield int(entry.name)


def _ours(pid: int, stack: Stack) -> Found | None:
    stat = _stat(pid)
    if stat is None or stack.strangers.get(pid) == int(stat[19]):
        return None
    found = _read(pid)
    if found is None or _belongs(found, stack):
        return found
    # A process that just started may still exec into one of ours.
    if found.started < (time.clock_gettime(time.CLOCK_BOOTTIME) - _SETTLED_S) * _TICKS:
        stack.strangers[pid] = found.started
    return None


def _stat(pid: int) -> list[str] | None:
    """Give the fields after the name; None when it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 (a Path costs more than the read, 100 times a look)
            stat = file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return None
    return None if stat[0] in "ZX" else stat


def _read(pid: int) -> Found | None:
    folder = _PROC / str(pid)
    try:
        argv = (folder / "cmdline").read_bytes().split(b"\0")
        env = (folder / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return None
    stat = _stat(pid)
    if stat is None:
        return None
    pairs = (entry.decode(errors="surrogateescape").partition("=") for entry in env if entry)
    return Found(
        pid=pid,
        parent=int(stat[1]),
        leader=int(stat[3]) == pid,
        state=stat[0],
        started=int(stat[19]),
        argv=tuple(part.decode(errors="surrogateescape") for part in argv),
        env={name: value for name, _, value in pairs},
        rss_bytes=int(stat[21]) * _PAGE,
    )


def _belongs(found: Found, stack: Stack) -> bool:
    root = f"{stack.root}/"
    return found.env.get(MARK) == stack.mark or any(part.startswith(root) for part in found.argv)


def _role(found: Found) -> str | None:
    program = os.path.basename(found.argv[0]) if found.argv else ""  # noqa: PTH119 (a word of a command, no path)
    if program == "nats-server":
        return "nats"
    if program == "vineyardd":
        return "cache"
    module = _after(found.argv, "-m")
    if module == "kvberth.cli":
        return "up" if "up" in found.argv else None
    life = found.env.get("KVBERTH_PROCESS", "") if found.leader else ""
    recorded = next((role for beginning, role in _LIVES.items() if life.startswith(beginning)), None)
    return recorded or _MODULES.get(module or "")


def _life(found: Found, role: str, stack: Stack) -> Life:
    node, namespace, owner = found.env.get("KVBERTH_NODE"), None, ""
    if role == "cache":
        node, namespace, owner = _place(_after(found.argv, "--socket") or "", stack.root)
    elif role == "transfer":
        node, namespace, owner = _place(f"{found.env.get('KVBERTH_DIRECTORY', '')}/kvberth.sock", stack.root)
    return Life(
        role=role,
        pid=found.pid,
        node=node,
        namespace=namespace,
        owner=owner,
        incarnation=_after(found.argv, "--deployment") if role == "cache" else None,
        rss_bytes=found.rss_bytes,
        paused=found.state == "T",
        socket=found.env.get(_SOCKET_VARIABLE) if role == "engine" else None,
    )


def _place(socket: str, root: Path) -> tuple[str | None, str | None, str]:
    try:
        node, namespace, kvcache, _ = Path(socket).relative_to(root).parts
    except ValueError:
        return None, None, socket
    return node, namespace, kvcache


def _after(argv: tuple[str, ...], option: str) -> str | None:
    """Give the argument that follows an option."""
    return argv[argv.index(option) + 1] if option in argv[:-1] else None
