"""One Unix stream to a vineyardd for a thread: bytes and descriptors within a deadline, no meaning."""

import contextlib
import errno
import os
import socket
import struct
import time

from kvberth.vineyard import wire
from kvberth.vineyard.address import check_path, connect_error, new_socket
from kvberth.vineyard.errors import CannotAsk, DaemonHung


class BlockingStream:
    """A connected socket. Every call raises TimeoutError once `until` (monotonic) has passed, OSError at the end."""

    def __init__(self, path: str, sock: socket.socket) -> None:
        self.path = path
        self.until = 0.0
        self._sock = sock

    @classmethod
    def open(cls, path: str, timeout_s: float) -> "BlockingStream":
        """Connects; raises a VineyardError."""
        check_path(path)
        sock = new_socket(path)
        try:
            # The kernel's own deadline: for a Unix socket a full backlog is no state that could be polled for.
            seconds, microseconds = divmod(max(1, int(timeout_s * 1e6)), 1_000_000)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", seconds, microseconds))
            sock.connect(path)
        except OSError as error:
            sock.close()
            if error.errno == errno.EAGAIN:
                raise DaemonHung(path, f"no vineyardd answered here within {timeout_s:g} s") from None
            raise connect_error(path, error) from None
        return cls(path, sock)

    def send(self, frame: bytes) -> None:
        """Sends a request; raises wire.MalformedError where something came that nobody asked for."""
        self._sock.settimeout(0)  # a timeout would have Python wait for something to peek at
        with contextlib.suppress(BlockingIOError):
            if not self._sock.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError(errno.ECONNRESET, "the daemon closed the connection")
            raise wire.MalformedError("sent bytes that nobody asked for")
        self._sock.settimeout(self._left())
        self._sock.sendall(frame)

    def receive(self, count: int) -> bytes:
        """Returns exactly so many bytes. A descriptor that came with them unasked is dropped by the kernel."""
        taken = bytearray()
        while len(taken) < count:
            self._sock.settimeout(self._left())
            data = self._sock.recv(count - len(taken))
            if not data:
                raise ConnectionResetError(errno.ECONNRESET, "the daemon closed the connection")
            taken += data
        return bytes(taken)

    def receive_fd(self) -> int:
        """Returns the descriptor that comes with the next byte; it is the caller's to close. Raises CannotAsk."""
        self._sock.settimeout(self._left())
        data, fds, flags, _ = socket.recv_fds(self._sock, 1, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the daemon closed the connection")
        if flags & socket.MSG_CTRUNC and not fds:  # the kernel had no number for it
            raise CannotAsk(self.path, "no file descriptor is left here for the memory that the daemon sent")
        if len(fds) != 1:
            for fd in fds:
                os.close(fd)
            raise wire.MalformedError("announced a file descriptor and sent none")
        return fds[0]

    def fileno(self) -> int:
        return self._sock.fileno()

    def post(self, frame: bytes) -> None:
        """Sends a request of one frame and waits for nothing."""
        self._sock.settimeout(0)
        if self._sock.send(frame) != len(frame):
            raise ConnectionResetError(errno.ENOBUFS, "the daemon reads nothing")

    def take(self) -> bytes:
        """Returns what has come, or nothing; does not wait."""
        self._sock.settimeout(0)
        try:
            data = self._sock.recv(wire.MAX_FRAME_BYTES)
        except BlockingIOError:
            return b""
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the daemon closed the connection")
        return data

    def shut(self) -> None:
        """Ends the conversation at once, also for a thread that waits in it."""
        with contextlib.suppress(OSError):  # shut before, by either side
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Gives the descriptor back; no call may be under way."""
        self._sock.close()

    def _left(self) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return left
