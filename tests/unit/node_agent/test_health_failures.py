"""What failed calls say of a cache: the same words for the same reason."""

import pytest

from kvberth.node_agent.health.failures import seen_in
from kvberth.node_agent.health.verdict import Failed, NoEvidence
from kvberth.vineyard import (
    CannotAsk,
    ConnectionGone,
    NotASocket,
    ObjectMissing,
    ProtocolError,
    RequestRefused,
    SocketStale,
    StoreFull,
    VineyardError,
)

PATH = "/r/default/k/vineyard.sock"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (ObjectMissing, "NotVisible"),
        (ProtocolError, "Protocol"),
        (RequestRefused, "Refused"),
        (ConnectionGone, "Gone"),
        (StoreFull, "Full"),
    ],
)
def test_what_differs_from_proof_to_proof_is_in_the_detail_only(kind, reason):
    one, other = (seen_in(kind(PATH, what)) for what in ("there is no blob 1", "there is no blob 2"))
    assert isinstance(one, Failed)
    assert (one.reason, one.message) == (reason, other.message)
    assert one.message.startswith(f"{PATH}: ")
    assert (one.detail, other.detail) == ("there is no blob 1", "there is no blob 2")


def test_what_is_wrong_with_a_socket_is_told_in_its_own_words():
    for kind, reason in ((SocketStale, "Stale"), (NotASocket, "Missing"), (VineyardError, "Refused")):
        assert seen_in(kind(PATH, "so it is")) == Failed(reason, f"{PATH}: so it is")


def test_every_shortage_of_this_agent_is_told_alike():
    one, other = (seen_in(CannotAsk(PATH, what)) for what in ("no socket", "no memory"))
    assert isinstance(one, NoEvidence)
    assert one.why == other.why
    assert (one.detail, other.detail) == ("no socket", "no memory")
