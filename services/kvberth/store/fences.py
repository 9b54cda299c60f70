"""Memory fences for two processes that share memory: what Python lacks, asked from the kernel.

Two steps of the store are a store followed by a load of what the other side stores (lease against eviction, commit
against sleep). There even x86 lets the load overtake the store, and both sides may miss each other. The side that is
seldom (the worker) pays for both: `membarrier` puts a full fence into every registered process that runs at the moment.
Decision 10 says what is relied upon; the litmus test in tests/integration/store shows it. Decides nothing.
"""

import ctypes
import os
import platform
import threading
from collections.abc import Callable
from enum import IntEnum

from kvberth.store.errors import FenceRefused

_SYSCALLS = {"x86_64": 324, "aarch64": 283}
_GLOBAL_EXPEDITED = 1 << 1
_REGISTER_GLOBAL_EXPEDITED = 1 << 2

Fence = Callable[[], None]


class FenceKind(IntEnum):
    """How the processes of one store order their memory; the worker chooses, every client must follow."""

    MEMBARRIER = 1
    """The worker fences for all registered processes; clients on x86-64 pay nothing."""
    LOCKS = 2
    """The kernel refuses membarrier, and this is x86-64: each side fences itself by a locked instruction."""


def choose_fence() -> FenceKind:
    """Finds out, in the worker, what this machine gives; raises FenceRefused where nothing serves."""
    machine = platform.machine()
    refusal = _membarrier(machine, _REGISTER_GLOBAL_EXPEDITED)
    if refusal is None:
        return FenceKind.MEMBARRIER
    if machine == "x86_64":
        return FenceKind.LOCKS
    raise _refused(machine, refusal)


def worker_fence(kind: FenceKind) -> Fence:
    """Returns what the worker calls between its store and its load."""
    return _Membarrier(platform.machine()) if kind is FenceKind.MEMBARRIER else lock_fence()


def store_fence(kind: FenceKind) -> Fence:
    """Returns what a writer calls between a body and its valid word: nothing on x86-64, which keeps stores in order."""
    return no_fence if platform.machine() == "x86_64" else worker_fence(kind)


def client_fence(kind: FenceKind) -> Fence:
    """Registers this process for the worker's fences and returns what it calls itself before each re-read.

    On x86-64 that is nothing; elsewhere a full fence, because there two loads may pass each other, too. A process that
    cannot be registered fences itself, else FenceRefused is raised.
    """
    machine = platform.machine()
    if kind is FenceKind.LOCKS:
        return lock_fence()
    refusal = _membarrier(machine, _REGISTER_GLOBAL_EXPEDITED)
    if machine == "x86_64":
        return no_fence if refusal is None else lock_fence()
    if refusal is not None:
        raise _refused(machine, refusal)
    return _Membarrier(machine)


def no_fence() -> None:
    """Orders nothing."""


def lock_fence() -> Fence:
    """A lock of its own, taken and released at each call: a locked instruction, which orders the caller on x86-64."""
    lock = threading.Lock()

    def fence() -> None:
        with lock:
            pass

    return fence


class _Membarrier:
    """A full fence in this process and in all registered ones; about half a microsecond."""

    __slots__ = ("_call", "_command", "_number")

    def __init__(self, machine: str) -> None:
        self._call = _syscall()
        self._number = ctypes.c_long(_SYSCALLS[machine])
        self._command = ctypes.c_int(_GLOBAL_EXPEDITED)

    def __call__(self) -> None:
        if self._call(self._number, self._command, 0, 0) != 0:
            raise FenceRefused(f"membarrier failed: {os.strerror(ctypes.get_errno())}")


def _syscall() -> "ctypes._NamedFuncPointer":
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return call


def _membarrier(machine: str, command: int) -> str | None:
    """Issues one command; returns why it was refused, or None."""
    number = _SYSCALLS.get(machine)
    if number is None:
        return "its system call number is not known here"
    if _syscall()(ctypes.c_long(number), ctypes.c_int(command), 0, 0) == 0:
        return None
    return os.strerror(ctypes.get_errno())


def _refused(machine: str, refusal: str) -> FenceRefused:
    return FenceRefused(f"this {machine} machine refuses membarrier ({refusal}), and nothing else orders its memory")
