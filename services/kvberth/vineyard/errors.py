"""The ways in which talking to a vineyardd fails, one class for each that a caller treats differently. No I/O here."""

# ruff: noqa: N818 - each name says the state that was found; "SocketStaleError" would say no more


class VineyardError(Exception):
    """Something about the vineyardd at `path` failed; the text is one sentence that begins with the path."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path, what)
        self.path = path
        self.what = what

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


class BinaryMissing(VineyardError):
    """The vineyardd program itself is not installed."""


class SocketMissing(VineyardError):
    """There is no socket at the path: no daemon has started there yet, or it ended in order."""


class NotASocket(SocketMissing):
    """A directory, a plain file or another kind of socket is in the place of the daemon's socket."""


class SocketStale(VineyardError):
    """A socket file is there, but nobody listens: its daemon died."""


class SocketDenied(VineyardError):
    """This user may not reach the socket."""


class SocketPathTooLong(VineyardError):
    """The path is longer than the 107 bytes that a Unix socket address holds."""


class DaemonHung(VineyardError):
    """The deadline passed without an answer: stopped, overloaded or still reserving its memory."""


class CannotAsk(VineyardError):
    """This process lacks something itself (file descriptors, memory): says nothing about the daemon."""


class ConnectionGone(VineyardError):
    """The connection is closed, by the daemon's death or after an earlier failure; connect again."""


class ProtocolError(VineyardError):
    """What answered does not speak the protocol; the connection is closed."""


class RequestRefused(VineyardError):
    """The daemon answered with an error that has no class of its own; the connection stays usable."""


class StoreFull(VineyardError):
    """The store has no room for the blob; the connection stays usable."""


class ObjectMissing(VineyardError):
    """The daemon knows no such object; the connection stays usable."""


class ObjectNotSealed(VineyardError):
    """The object is there, but its writer has not sealed it; the connection stays usable."""
