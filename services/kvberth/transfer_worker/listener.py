"""The worker's socket: packets in, packets and descriptors out, all bounded and none waited for. Knows no meaning."""

import contextlib
import os
import selectors
import socket
from pathlib import Path
from typing import Protocol

from kvberth.store import control
from kvberth.store.control import Message
from kvberth.store.errors import Malformed


class HasFileno(Protocol):
    """What can be waited for."""

    def fileno(self) -> int: ...


MAX_CONNECTIONS = 128
_PACKETS = 16
"""How many packets of one connection are read in one turn: the others come to their turn."""
_REFUSED = 16
"""So many that were refused are kept until they have spoken or left: a connection that is closed with words unread
takes the answer along. One more, and the first of them is closed."""


class Connection:
    """One client's connection; `client` is its id once it has greeted."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.client: bytes | None = None
        self.open = True

    def fileno(self) -> int:
        return self._sock.fileno()

    def receive(self) -> list[Message]:
        """The packets that are there. An end, or what is no message, ends the connection; Malformed says the latter."""
        messages: list[Message] = []
        for _ in range(_PACKETS):
            try:
                packet = self._sock.recv(control.MAX_BYTES + 1)
            except BlockingIOError:
                break
            except OSError:
                packet = b""
            if not packet:
                self.open = False
                break
            messages.append(control.decode(packet))
        return messages

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Sends a packet; a client that does not read what it is sent is not waited for, but cut off."""
        try:
            socket.send_fds(self._sock, [control.encode(message)], list(fds))
        except OSError:
            self.open = False

    def ring(self) -> None:
        """Wakes the client. Where its buffer is full there is enough in it that wakes it."""
        with contextlib.suppress(OSError):
            self._sock.send(control.WAKE)

    def close(self) -> None:
        self.open = False
        self._sock.close()


class Listener:
    """The bound socket and its connections."""

    def __init__(self, path: Path) -> None:
        """Binds; whatever lay at the path is removed, so the caller holds the directory's lock. Raises OSError."""
        self.path = path
        path.unlink(missing_ok=True)
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._sock.setblocking(False)
            self._sock.bind(str(path))
            path.chmod(0o666)  # the directory says who may come
            self._sock.listen(MAX_CONNECTIONS)
        except BaseException:
            self._sock.close()
            raise
        self.connections: set[Connection] = set()
        self._refused: dict[Connection, None] = {}
        self._watched: HasFileno | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._sock, selectors.EVENT_READ)

    def wait(self, timeout_s: float) -> list[Connection]:
        """Waits for so long at most; takes who is new, returns who has said something."""
        ready = []
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._sock:
                self._accept()
            elif isinstance(key.fileobj, Connection) and key.fileobj in self._refused:
                self._let_go(key.fileobj)
            elif isinstance(key.fileobj, Connection) and key.fileobj in self.connections:
                ready.append(key.fileobj)
        return ready

    def watch(self, other: HasFileno | None) -> None:
        """Ends a wait also when something can be read there, which is somebody else's; None: nowhere any more."""
        if other is self._watched:
            return
        if self._watched is not None:
            self._selector.unregister(self._watched)
        if other is not None:
            self._selector.register(other, selectors.EVENT_READ)
        self._watched = other

    def end(self, connection: Connection) -> None:
        """Closes a connection."""
        if connection in self.connections:
            self.connections.discard(connection)
            self._selector.unregister(connection)
            connection.close()

    def close(self) -> None:
        for connection in list(self.connections):
            self.end(connection)
        for connection in list(self._refused):
            self._let_go(connection)
        self._selector.close()
        self._sock.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108 -- whoever binds next does so anyhow

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            sock, _ = self._sock.accept()
            sock.setblocking(False)
            connection = Connection(sock)
            self._selector.register(connection, selectors.EVENT_READ)
            if len(self.connections) < MAX_CONNECTIONS:
                self.connections.add(connection)
                return
            connection.send(control.Refuse("clients", f"{MAX_CONNECTIONS} connections are open already."))
            self._refused[connection] = None
            if len(self._refused) > _REFUSED:
                self._let_go(next(iter(self._refused)))

    def _let_go(self, refused: Connection) -> None:
        """Closes a connection that was refused, once what it said is read."""
        del self._refused[refused]
        self._selector.unregister(refused)
        with contextlib.suppress(Malformed):
            refused.receive()
        refused.close()


def malformed(error: Malformed) -> control.Refuse:
    """What a client hears whose words are no version's."""
    return control.Refuse("malformed", f"The connection ends: {error}."[:1000])
