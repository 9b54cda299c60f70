"""The address of a vineyardd's socket: whether it can be one, and what a refusal to connect there means.

Opens no connection itself, so that both clients tell the same failures by the same classes.
"""

import errno
import os
import socket
import stat

from kvberth.service.shortage import is_own_shortage
from kvberth.vineyard.errors import (
    CannotAsk,
    NotASocket,
    SocketDenied,
    SocketMissing,
    SocketPathTooLong,
    SocketStale,
    VineyardError,
)

MAX_PATH_BYTES = 107


def check_path(path: str) -> None:
    """Raises SocketPathTooLong or SocketMissing where no socket can have that path."""
    length = len(os.fsencode(path))
    if length > MAX_PATH_BYTES:
        raise SocketPathTooLong(
            path, f"the path of the socket has {length} bytes, at most {MAX_PATH_BYTES} are possible"
        )
    if not path or "\0" in path:  # the kernel would take it for a name in the abstract namespace
        raise SocketMissing(path, "an empty path or one with a zero byte names no socket")


def new_socket(path: str) -> socket.socket:
    """Makes a socket that is connected to nothing; raises CannotAsk where this process can have none."""
    try:
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise CannotAsk(path, f"nobody could be asked here, no socket can be made ({error.strerror})") from None


def connect_error(path: str, error: OSError) -> VineyardError:
    """Gives a failure to connect its class."""
    if is_own_shortage(error):
        return CannotAsk(path, f"nobody could be asked here, connecting failed ({error.strerror})")
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return SocketMissing(path, "there is no socket here, vineyardd has not started on this path")
        case errno.EACCES | errno.EPERM:
            return SocketDenied(path, f"user {os.geteuid()} may not reach this socket")
        case errno.EPROTOTYPE:
            return NotASocket(path, "this is a socket of another kind, vineyardd listens on a stream socket")
        case errno.ECONNREFUSED:
            return _refused_error(path)
        case _:
            return VineyardError(path, f"connecting failed ({error.strerror})")


def _refused_error(path: str) -> VineyardError:
    # The kernel gives one and the same answer for a dead daemon's socket and for what is no socket at all.
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - the path is text for the socket calls, one look needs no Path
    except OSError:
        return SocketMissing(path, "the socket went away while connecting")
    if stat.S_ISSOCK(mode):
        return SocketStale(path, "nobody listens on this socket, its vineyardd is dead")
    kind = "a directory" if stat.S_ISDIR(mode) else "no socket"
    return NotASocket(path, f"this is {kind}, vineyardd's socket should be here")
