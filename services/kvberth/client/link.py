"""The client's connection to the worker: connects, greets, maps, registers, and tells what the socket says.

Every step has a deadline; what fails is one sentence in `LinkError` and is tried again by the thread.
"""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvberth.client.mapping import Mapping
from kvberth.store import control
from kvberth.store.control import Hello, Layout, Message, Refuse, Register, Wait, Welcome
from kvberth.store.errors import Malformed, mapping_clients
from kvberth.store.shards import WHOLE, Part

_ANSWER_S = 2.0
_MAX_FDS = 250
_REFUSED_S = 2.0
"""A refusal may be taken back (the budget is another one then), but not soon."""
_RANKS_S = 0.5
"""The same for a rank: it is let in when all of its engine have asked."""


class LinkError(Exception):
    """There is no worker to talk to at this moment; the text says why, `retry_s` when to ask again."""

    def __init__(self, words: str, retry_s: float = 0.2) -> None:
        super().__init__(words)
        self.retry_s = retry_s


class EpochOverError(LinkError):
    """The worker has another store than the one that is mapped here, or waits until that is unmapped."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who greets where, and with what blocks."""

    directory: Path
    client: bytes
    fingerprint: bytes
    regions: Sequence[int]
    part: Part = WHOLE
    """Which shard its blocks are."""
    lingers: bool = False
    """Whether a device may copy for a moment still when this process is dead."""


class Link:
    """One connection, greeted and registered."""

    def __init__(self, sock: socket.socket, layout: Layout, mapping: Mapping) -> None:
        self._sock = sock
        self.layout = layout
        self.mapping = mapping
        """The one that was given, or a new one."""

    @classmethod
    def open(cls, who: Identity, mapping: Mapping | None, took: Callable[[Mapping], None]) -> "Link":
        """Greets the worker. `mapping` is what is mapped; `took` gets it, or the new one, before it is registered.

        By then the worker has repaired all headers. Raises LinkError (EpochOverError: leave `mapping`), StoreError.
        """
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.settimeout(_ANSWER_S)
            _connect(sock, who.directory / control.SOCKET_NAME)
            sock.send(control.encode(Hello(who.client, mapping.epoch if mapping else bytes(16))))
            mapping = _welcomed(sock, who, mapping, took)
            register = Register(who.fingerprint, tuple(who.regions), *who.part)
            sock.send(control.encode(register))
            layout = _registered(sock, _REFUSED_S if who.part.shards == 1 else _RANKS_S)
            sock.setblocking(False)
            return cls(sock, layout, mapping)
        except OSError as error:
            sock.close()
            raise LinkError(f"the worker does not answer ({error.strerror or error})") from None
        except BaseException:
            sock.close()
            raise

    def say(self, message: Message) -> None:
        """Sends a packet; where it can't be sent `lost` will say so."""
        with contextlib.suppress(OSError):
            self._sock.send(control.encode(message))

    def fileno(self) -> int:
        return self._sock.fileno()

    def lost(self) -> str | None:
        """Why the connection has ended, or None. Reads what has come."""
        try:
            while packet := self._sock.recv(control.MAX_BYTES + 1):
                message = control.decode(packet)
                if isinstance(message, Refuse):
                    return message.words
        except BlockingIOError:
            return None
        except (OSError, Malformed) as error:
            return f"the connection to the worker has ended ({error})"
        return "the worker has closed the connection"

    def close(self) -> None:
        self._sock.close()


def _connect(sock: socket.socket, path: Path) -> None:
    try:
        sock.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        raise LinkError(f"no transfer worker listens on {path}") from None


def _welcomed(sock: socket.socket, who: Identity, mapping: Mapping | None, took: Callable[[Mapping], None]) -> Mapping:
    welcome, fds = _answer(sock)
    try:
        if not isinstance(welcome, Welcome):
            if isinstance(welcome, Wait) and mapping is not None and mapping.name in welcome.clients:
                raise EpochOverError("the worker waits until the store is unmapped that is mapped here")
            raise _said(welcome)
        if mapping is None:
            mapping = Mapping(who.directory, who.client, welcome, fds, lingers=who.lingers)
        elif not mapping.is_of(welcome):
            raise EpochOverError("the worker has another store than the one that is mapped here")
        took(mapping)
        return mapping
    finally:
        for fd in fds:
            os.close(fd)


def _registered(sock: socket.socket, refused_s: float) -> Layout:
    answer, _ = _answer(sock)
    if not isinstance(answer, Layout):
        raise _said(answer, refused_s)
    return answer


def _answer(sock: socket.socket) -> tuple[Message, list[int]]:
    """The next packet, which must come soon, and the descriptors that came with it; raises LinkError."""
    until = time.monotonic() + _ANSWER_S
    while time.monotonic() < until:
        packet, fds, _, _ = socket.recv_fds(sock, control.MAX_BYTES + 1, _MAX_FDS, socket.MSG_CMSG_CLOEXEC)
        if not packet:
            raise LinkError("the worker has closed the connection")
        try:
            message = control.decode(packet)
        except Malformed as error:
            for fd in fds:
                os.close(fd)
            raise LinkError(f"the worker says what can't be read: {error}") from None
        if not isinstance(message, control.Wake):
            return message, fds
    raise LinkError(f"the worker gave no answer within {_ANSWER_S:g} s")


def _said(message: Message, refused_s: float = _REFUSED_S) -> LinkError:
    match message:
        case Refuse(reason, words):
            return LinkError(f"{words} ({reason})", refused_s)
        case Wait(clients) if clients:
            return LinkError(f"the worker waits for {mapping_clients(len(clients))} an earlier store")
        case Wait():
            return LinkError("the worker has no store at this moment")
        case _:
            return LinkError(f"the worker says {type(message).__name__}, which is no answer", _REFUSED_S)
