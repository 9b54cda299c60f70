"""Turns an answer of the API server that says no into the error that names it. Pure.

What is not Kubernetes' Status (a proxy's page, say) is quoted shortly and never trusted.
"""

import json
from typing import Any

from kvberth.kube.errors import (
    AlreadyExists,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    ServerTrouble,
    Throttled,
    Unauthorized,
)

_BY_STATUS: dict[int, type[Refused]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    415: Invalid,
    422: Invalid,
    429: Throttled,
}
_QUOTED = 200


def refusal(what: str, status: int, body: bytes, retry_after: str | None = None) -> Refused:
    """The error for an answer; `what` names the request, as ``GET DaemonSet default/cache``."""
    return refusal_of(what, status, _status_object(body), body, retry_after)


def refusal_of(
    what: str, status: int, told: dict[str, Any] | None, body: bytes = b"", retry_after: str | None = None
) -> Refused:
    """The same where the Status is read already, as in a watch's ERROR frame."""
    reason = _text(told, "reason")
    message = _text(told, "message") or _quoted(body) or "no message"
    details = told.get("details") if told else None
    details = details if isinstance(details, dict) else {}
    return _class(status, reason)(
        f"{what} was refused with {status}{f' {reason}' if reason else ''}: {message}",
        status=status,
        reason=reason,
        causes=tuple(_causes(details)),
        retry_after_s=_seconds(retry_after, details),
    )


def _class(status: int, reason: str) -> type[Refused]:
    if reason == "AlreadyExists":
        return AlreadyExists
    return _BY_STATUS.get(status, ServerTrouble if status >= 500 else Refused)


def _status_object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.get("kind") == "Status" else None


def _causes(details: dict[str, Any]) -> list[Cause]:
    causes = details.get("causes")
    if not isinstance(causes, list):
        return []
    return [
        Cause(_text(cause, "reason"), _text(cause, "message"), _text(cause, "field"))
        for cause in causes
        if isinstance(cause, dict)
    ]


def _seconds(header: str | None, details: dict[str, Any]) -> float | None:
    for value in (header, details.get("retryAfterSeconds")):
        try:
            seconds = float(value or 0)
        except (TypeError, ValueError):
            continue  # a date, which proxies may send: our own back-off is good enough
        if seconds > 0:
            return seconds
    return None


def _text(value: dict[str, Any] | None, key: str) -> str:
    found = value.get(key) if value else None
    return found if isinstance(found, str) else ""


def _quoted(body: bytes) -> str:
    text = " ".join(body[: 4 * _QUOTED].decode("utf-8", "replace").split())
    return text[:_QUOTED]
