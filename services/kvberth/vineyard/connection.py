"""One Unix stream to a vineyardd: bytes and file descriptors, no meaning.

The socket is watched from the first moment to the last, request or none. So a dead daemon is noticed at once, nobody
but the watcher ever reads (no bytes can be stolen), and descriptors are caught whatever data they travel with.
Deadlines and turns are the caller's business.
"""

import array
import asyncio
import contextlib
import os
import socket
from collections import deque

from kvberth.service.shortage import is_own_shortage
from kvberth.vineyard import wire
from kvberth.vineyard.address import check_path, connect_error, new_socket
from kvberth.vineyard.errors import CannotAsk, ConnectionGone, ProtocolError, VineyardError

_FULL_BACKLOG_RETRY_S = 0.01
_READ_BYTES = 64 * 1024
_INBOX_BYTES = wire.HEADER_BYTES + wire.MAX_FRAME_BYTES + 1
_FD_BYTES = array.array("i").itemsize


class Connection:
    """An open stream and what has arrived on it; once closed it stays closed. Made by `open`."""

    def __init__(self, path: str, sock: socket.socket) -> None:
        self.path = path
        self.closed = asyncio.Event()
        self.ended = False
        """Whether it was the daemon that closed it."""
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._inbox = bytearray()
        self._outbox = bytearray()
        self._fds: deque[int] = deque()
        self._cut_off = False
        self._arrived = asyncio.Event()
        self._expecting = False
        # The class and the words, not an exception: its traceback would keep the caller's views alive.
        self._failure: tuple[type[VineyardError], str] = (ConnectionGone, "the connection is not closed")
        self._loop.add_reader(sock, self._on_readable)

    @classmethod
    async def open(cls, path: str) -> "Connection":
        """Connects; waits without end while the listener's backlog is full, so the caller sets the deadline."""
        check_path(path)
        sock = new_socket(path)
        try:
            sock.setblocking(False)
            await _connect(sock, path)
            return cls(path, sock)
        except BaseException:
            sock.close()
            raise

    def send(self, frame: bytes) -> None:
        """Starts sending a request; what the socket does not take at once goes out while the reply is awaited."""
        self.check_open()
        self.check_silent()
        self._expecting = True
        self._outbox += frame
        self._on_writable()

    async def receive_frame(self) -> bytes:
        """Returns the body of the next frame; raises wire.MalformedError for one of a size that no reply has."""
        length = wire.body_length(await self._take(wire.HEADER_BYTES))
        return await self._take(length)

    async def receive_fd(self) -> int:
        """Returns the descriptor that comes with the next byte; it is the caller's to close."""
        await self._take(1)
        if not self._fds:
            self.raise_if_closed()
            if self._cut_off:
                raise CannotAsk(self.path, "no file descriptor is left here for the memory that the daemon sent")
            raise wire.MalformedError("announced a file descriptor and sent none")
        return self._fds.popleft()

    def check_open(self) -> None:
        """Raises ConnectionGone, with the reason, where the stream is closed."""
        if self.closed.is_set():
            raise ConnectionGone(self.path, f"this connection is closed ({self._failure[1]}), connect again")

    def raise_if_closed(self) -> None:
        """Raises what closed the stream: for a request in flight, which is what it happened to."""
        if self.closed.is_set():
            kind, why = self._failure
            raise kind(self.path, why)

    def finish(self) -> None:
        """Ends the wait for a reply: whatever comes now comes unasked. Raises wire.MalformedError if something did."""
        self.check_silent()
        self._expecting = False

    def check_silent(self) -> None:
        """Raises wire.MalformedError where bytes, descriptors or an unread request are left over."""
        if self._inbox or self._fds or self._outbox:
            raise wire.MalformedError("sent more than the reply, or answered before it had read the request")

    def close(self, kind: type[VineyardError], why: str) -> None:
        """Closes the stream and every descriptor not handed out; the first reason is kept for those who ask later."""
        if self.closed.is_set():
            return
        self._failure = kind, why
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        while self._fds:
            os.close(self._fds.popleft())
        self._outbox.clear()
        self.closed.set()
        self._arrived.set()

    async def _take(self, count: int) -> bytes:
        while len(self._inbox) < count:
            self.raise_if_closed()
            self._arrived.clear()
            await self._arrived.wait()
        taken = bytes(self._inbox[:count])
        del self._inbox[:count]
        return taken

    def _on_readable(self) -> None:
        try:
            data, ancillary, flags, _ = self._sock.recvmsg(
                _READ_BYTES, socket.CMSG_SPACE(_FD_BYTES), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(error)
            return
        fds = _descriptors(ancillary)
        self._fds.extend(fds)
        if flags & socket.MSG_CTRUNC and not fds:  # the kernel had no number for it
            self._cut_off = True
        self._inbox += data
        if not data:
            self.ended = not self.closed.is_set()
            self.close(ConnectionGone, "the daemon closed the connection")
        elif not self._expecting:
            self.close(ProtocolError, f"the daemon sent {len(data)} bytes that nobody asked for")
        elif len(self._inbox) > _INBOX_BYTES or len(self._fds) > 1:
            self.close(ProtocolError, "the daemon sent more than any reply holds")
        self._arrived.set()

    def _on_writable(self) -> None:
        try:
            with contextlib.suppress(BlockingIOError):
                del self._outbox[: self._sock.send(self._outbox)]
        except OSError as error:
            self._lose(error)
            return
        if self._outbox:
            self._loop.add_writer(self._sock, self._on_writable)
        else:
            self._loop.remove_writer(self._sock)

    def _lose(self, error: OSError) -> None:
        if is_own_shortage(error):
            self.close(CannotAsk, f"nobody could be asked here ({error.strerror})")
        else:
            self.ended = not self.closed.is_set()
            self.close(ConnectionGone, f"the daemon is gone ({error.strerror})")


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % _FD_BYTES])
    return fds.tolist()


async def _connect(sock: socket.socket, path: str) -> None:
    while True:
        try:
            sock.connect(path)
        except BlockingIOError:
            # The listener's backlog is full. The kernel has no event for "there is room again" on an unconnected Unix
            # socket (it polls as writable at once, which asyncio's own sock_connect takes for success): so, look again.
            await asyncio.sleep(_FULL_BACKLOG_RETRY_S)
        except OSError as error:
            raise connect_error(path, error) from None
        else:
            return
