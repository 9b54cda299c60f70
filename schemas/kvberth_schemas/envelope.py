"""The CloudEvents envelope in NATS headers, in binary mode: the body is the event's JSON, attributes are headers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, unquote

MESSAGE_ID = "Nats-Msg-Id"
TRACEPARENT = "traceparent"
CAUSE = "kvberth-cause"
TERM = "kvberth-term"
"""Header with the writer's term, on everything that a reconciling writer says."""

MAX_BODY_BYTES = 512 * 1024
"""A longer body is refused by writers, and counted and skipped by readers."""


class EnvelopeError(ValueError):
    """The headers are no envelope of ours."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """Who said something, when, and because of which event.

    ``source`` is ``/kvberth/<service>/<instance>`` and for people only; ``cause`` is the id of the event that led here.
    """

    id: str
    type: str
    source: str
    time: datetime
    subject: str
    cause: str | None = None
    traceparent: str | None = None

    def headers(self) -> dict[str, str]:
        """Spell the headers; a retry reuses the id, so that the stream drops the second copy."""
        headers = {
            "ce-specversion": "1.0",
            "ce-id": quote(self.id),
            "ce-type": quote(self.type),
            "ce-source": quote(self.source),
            "ce-time": self.time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "ce-subject": quote(self.subject, safe="/=-_."),
            "ce-datacontenttype": "application/json",
            MESSAGE_ID: self.id,
        }
        if self.cause is not None:
            headers[CAUSE] = self.cause
        if self.traceparent is not None:
            headers[TRACEPARENT] = self.traceparent
        return headers

    @classmethod
    def from_headers(cls, headers: Mapping[str, str] | None) -> "Envelope":
        """Read the headers.

        Raises:
            EnvelopeError: one is missing or can't be read, with its name.
        """
        headers = headers or {}
        try:
            return cls(
                id=unquote(headers["ce-id"]),
                type=unquote(headers["ce-type"]),
                source=unquote(headers["ce-source"]),
                time=_time(headers["ce-time"]),
                subject=unquote(headers.get("ce-subject", "")),
                cause=headers.get(CAUSE),
                traceparent=headers.get(TRACEPARENT),
            )
        except KeyError as error:
            raise EnvelopeError(f"the header {error.args[0]} is missing; every kvberth message carries it") from error
        except ValueError as error:
            raise EnvelopeError(f"the header ce-time is '{headers['ce-time']}', which is no RFC 3339 time") from error


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(text)
    return time
