"""Every failure has its reason."""

import errno

import pytest

from kvberth import vineyard
from kvberth.node_agent.sockets.faults import unanswered, unusable


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (vineyard.SocketMissing, "missing"),
        (vineyard.NotASocket, "missing"),
        (vineyard.SocketPathTooLong, "missing"),
        (vineyard.SocketStale, "stale"),
        (vineyard.SocketDenied, "denied"),
        (vineyard.DaemonHung, "hung"),
        (vineyard.ProtocolError, "protocol"),
        (vineyard.RequestRefused, "refused"),
        (vineyard.ConnectionGone, "refused"),
        (vineyard.VineyardError, "refused"),
    ],
)
def test_failures_of_the_client_are_told_apart(kind, reason):
    failed = unanswered(kind("/r/s", "what it was"))
    assert failed.reason == reason
    assert failed.message == "/r/s: what it was"
    assert failed.certain == (reason != "hung")


@pytest.mark.parametrize(
    ("code", "reason"), [(errno.EACCES, "denied"), (errno.EPERM, "denied"), (errno.EROFS, "missing")]
)
def test_a_directory_that_cannot_be_made_is_denied_or_missing(code, reason):
    failed = unusable("/r/default/k", OSError(code, "words of the kernel"))
    assert failed.reason == reason
    assert failed.message.startswith("/r/default/k: ")
    assert "words of the kernel" in failed.message
