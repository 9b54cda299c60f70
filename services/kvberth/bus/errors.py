"""The errors of the bus; each message is one sentence."""


class BusError(Exception):
    """The bus could not do what was asked; the message says what and why."""


class BusTimeout(BusError):  # noqa: N818 - the name says what it is, as the standard library's do
    """No answer came in time. A publish that timed out is UNKNOWN: it may be stored."""


class NoResponder(BusError):  # noqa: N818 - as above
    """Nobody listens to that subject."""


class BodyTooLong(BusError):  # noqa: N818 - as above
    """A message's body is longer than `MAX_BODY_BYTES`."""


class NotOurs(BusError):  # noqa: N818 - as above
    """A subject lies outside the patterns that a writer or view was made for."""


class SessionLost(BusError):  # noqa: N818 - as above
    """The connection ended while something ran on it."""


class StreamMissing(BusError):  # noqa: N818 - as above
    """The stream is not declared, or its server is not ready."""


class WrongSequence(BusError):  # noqa: N818 - as above
    """The subject's last message is not the expected one (JetStream's error 10071)."""


class ConsumerLost(BusError):  # noqa: N818 - as above
    """A consumer missed messages or its heartbeats, or the server ended it: it must be opened anew."""
