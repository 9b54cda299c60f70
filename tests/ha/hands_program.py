"""Runs in a privileged pod of a node, on Python alone: signals to processes, and links that lead nowhere for one pod.

``python hands_program.py VERB ARGUMENT…`` prints one line of JSON. A pod is cut off by routes in its own network
namespace, so that it works with every network plugin: what it sends goes nowhere, established connections included,
and is sent again by its kernel once the route is taken away.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

PROC = Path("/proc")
_ADD, _DELETE = 0x890B, 0x890C
_UP, _HOST, _REJECT = 0x1, 0x4, 0x200
_CLONE_NEWNET = 0x40000000
EVERYWHERE = ("0.0.0.0/1", "128.0.0.0/1")


def of(what: str) -> Iterator[int]:
    """Give the processes with this in the path of their control group: a container's id, or a pod's uid."""
    spelled = {what, what.replace("-", "_")}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                groups = (entry / "cgroup").read_text()
                if any(one in groups for one in spelled):
                    yield int(entry.name)


def first(container: str) -> int:
    """Give the container's first process. Raises LookupError."""
    for pid in of(container):
        with contextlib.suppress(OSError):
            lines = (PROC / str(pid) / "status").read_text().splitlines()
            if next(line for line in lines if line.startswith("NSpid:")).split()[-1] == "1":
                return pid
    raise LookupError(f"no process of container {container} lives here")


def send(container: str, name: str) -> str:
    """Send a signal; STOP waits until the kernel says that it has stopped."""
    pid = first(container)
    os.kill(pid, signal.Signals[f"SIG{name}"])
    while name == "STOP" and (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "T":
        pass
    return name


def cut(pod: str, *targets: str) -> str:
    """Let nothing of a pod reach these networks, or anybody."""
    return _routes(pod, _ADD, targets or EVERYWHERE)


def heal(pod: str, *targets: str) -> str:
    """Take that back."""
    return _routes(pod, _DELETE, targets or EVERYWHERE)


def unsent(pod: str) -> int:
    """Give how many bytes the kernel holds at most of one connection that the other side has not acknowledged."""
    pid = next(of(pod))
    lines = [line for name in ("tcp", "tcp6") for line in (PROC / str(pid) / "net" / name).read_text().splitlines()[1:]]
    return max((int(line.split()[4].partition(":")[0], 16) for line in lines), default=0)


def directories() -> dict[str, list[str]]:
    """Give what each cache's directory of this node holds, as NAMESPACE/KVCACHE."""
    root = Path("/var/run/vineyard-kubernetes")
    return {
        str(path.relative_to(root)): sorted(one.name for one in path.iterdir())
        for path in root.glob("*/*")
        if path.is_dir()
    }


def _routes(pod: str, request: int, targets: tuple[str, ...]) -> str:
    namespace = os.open(PROC / str(next(of(pod))) / "ns" / "net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for target in targets:
            with contextlib.suppress(FileExistsError, ProcessLookupError):  # it is there already, or gone
                fcntl.ioctl(asked, request, _route(target))
    return ", ".join(targets)


def _route(target: str) -> bytes:
    """Give a struct rtentry for a network that is refused."""
    address, _, bits = target.partition("/")
    prefix = int(bits or 32)
    flags = _UP | _REJECT | (_HOST if prefix == 32 else 0)
    mask = (0xFFFFFFFF << (32 - prefix)) & 0xFFFFFFFF
    addresses = (_inet(socket.inet_aton(address)), _inet(bytes(4)), _inet(struct.pack("!I", mask)))
    return struct.pack("@L16s16s16sH", 0, *addresses, flags) + bytes(64)


def _inet(address: bytes) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, 0, address)


VERBS: dict[str, Callable[..., object]] = {
    "send": send,
    "cut": cut,
    "heal": heal,
    "unsent": unsent,
    "directories": directories,
}

if __name__ == "__main__":
    print(json.dumps(VERBS[sys.argv[1]](*sys.argv[2:])))
