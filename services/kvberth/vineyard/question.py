"""One question to a vineyardd, again and again, without waiting for its answer: who are you?

Whoever has an event loop of its own watches `fileno` and asks when it wants; a connection of its own is kept for it.
An answer on it comes from the very process that was there when it was made.
"""

import time
from typing import Self

from kvberth.vineyard import wire
from kvberth.vineyard.errors import ConnectionGone, DaemonHung, ProtocolError
from kvberth.vineyard.stream import BlockingStream

_ASKED = wire.encode(wire.status_request())


class StandingQuestion:
    """A registered connection on which the daemon says who it is."""

    def __init__(self, stream: BlockingStream, deployment: str) -> None:
        """For `open`."""
        self._stream = stream
        self._taken = b""
        self._asked = False
        self.deployment = deployment
        """By which the daemon's life is known."""

    @classmethod
    def open(cls, path: str, *, timeout_s: float = 1.0) -> Self:
        """Connects, registers and asks once, within the deadline; raises a VineyardError."""
        stream = BlockingStream.open(path, timeout_s)
        stream.until = time.monotonic() + timeout_s
        try:
            _said(stream, wire.register_request(), "register_reply")
            return cls(stream, wire.status(_said(stream, wire.status_request(), "instance_status_reply")).deployment)
        except TimeoutError:
            stream.close()
            raise DaemonHung(path, f"vineyardd gave no answer within {timeout_s:g} s") from None
        except (OSError, wire.MalformedError, wire.RefusedError) as error:
            stream.close()
            raise ConnectionGone(path, f"the daemon is gone ({error})") from None
        except BaseException:
            stream.close()
            raise

    def fileno(self) -> int:
        return self._stream.fileno()

    def ask(self) -> None:
        """Asks; the answer to the question before must have been heard. Raises ConnectionGone."""
        try:
            self._stream.post(_ASKED)
            self._asked = True
        except OSError as error:
            raise ConnectionGone(self._stream.path, f"the daemon is gone ({error})") from None

    def answered(self) -> bool:
        """Whether the whole answer has come; raises ConnectionGone, also where nothing was asked.

        Raises ProtocolError where another one answers, or what comes is no answer, or was not asked for.
        """
        try:
            self._taken += self._stream.take()
            told = self._told()
        except OSError as error:
            raise ConnectionGone(self._stream.path, f"the daemon is gone ({error})") from None
        except (wire.MalformedError, wire.RefusedError) as error:
            raise ProtocolError(self._stream.path, f"what answered {error}") from None
        if told is None:
            return False
        if told.deployment != self.deployment:
            raise ProtocolError(self._stream.path, "what answered is not the daemon that was there before")
        self._taken, self._asked = b"", False
        return True

    def _told(self) -> wire.InstanceStatus | None:
        """What the taken bytes say, None where that is not all yet; raises wire.MalformedError, RefusedError."""
        if self._taken and not self._asked:
            raise wire.MalformedError("sent bytes that nobody asked for")
        if len(self._taken) < wire.HEADER_BYTES:
            return None
        end = wire.HEADER_BYTES + wire.body_length(self._taken[: wire.HEADER_BYTES])
        if len(self._taken) > end:
            raise wire.MalformedError("sent more than the reply")
        if len(self._taken) < end:
            return None
        return wire.status(wire.decode(self._taken[wire.HEADER_BYTES : end], "instance_status_reply"))

    def close(self) -> None:
        self._stream.close()


def _said(stream: BlockingStream, request: wire.Json, reply: str) -> wire.Json:
    stream.send(wire.encode(request))
    return wire.decode(stream.receive(wire.body_length(stream.receive(wire.HEADER_BYTES))), reply)
