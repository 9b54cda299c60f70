"""What can go wrong between us and an API server, as errors whose message is one sentence.

A `Refused` is the server's own answer; `Unreachable` is everything that kept an answer from us, and says nothing about
whether a write took place.
"""

from dataclasses import dataclass


class KubeError(Exception):
    """The API server could not be asked, or did not do what was asked; the message says what and why."""


class KubeSettingsError(KubeError):
    """No way to an API server is configured, or the configuration can't be read."""


class Unreachable(KubeError):  # noqa: N818 - the name says what it is, as the standard library's do
    """No usable answer: refused connection, reset, garbage, a proxy's page. A write may or may not have taken place."""


class DeadlinePassed(Unreachable):
    """No complete answer within the deadline."""


class LeaseHeldByRunaway(KubeError):  # noqa: N818 - as above
    """Leadership was lost and its work did not end when cancelled: the process must end."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One of the causes that the server lists in a refusal."""

    reason: str
    message: str
    field: str = ""


class Refused(KubeError):  # noqa: N818 - as above
    """The server's answer is no. `status` is the HTTP code, `reason` Kubernetes' word for it."""

    def __init__(
        self,
        sentence: str,
        *,
        status: int,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        """`retry_after_s`: how long the server asks us to wait, where it does."""
        super().__init__(sentence)
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after_s = retry_after_s


class Unauthorized(Refused):
    """401: the credentials are not accepted (a token that expired)."""


class Forbidden(Refused):
    """403: not allowed, by RBAC, by an admission policy or by a quota."""


class NotFound(Refused):
    """404: no such object, or no such kind."""


class AlreadyExists(Refused):
    """409: a create found an object of that name."""


class Conflict(Refused):
    """409: uid or resourceVersion differ from those planned from, or another manager owns a field."""


class Expired(Refused):
    """410: the resourceVersion or the continue token is too old; list anew."""


class Invalid(Refused):
    """400, 415 or 422: the server understood the object and found faults in it."""


class Throttled(Refused):
    """429: too many requests, or an eviction that a disruption budget refuses."""


class ServerTrouble(Refused):
    """5xx: the server, or a proxy before it, is in trouble."""
