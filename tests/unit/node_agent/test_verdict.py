"""What is said about a socket after a row of looks at it."""

import pytest

from kvberth.node_agent.sockets.verdict import Answered, CacheAddress, Failed, Standing, judge
from kvberth_schemas.events import SocketLostReason, SocketLostV1, SocketReadyV1

ADDRESS = CacheAddress("l20-a", "default", "k", "/r/default/k/vineyard.sock")
ONE = Answered("i1", 0, "0.24.2", 0, 1 << 26)
OTHER = Answered("i2", 0, "0.24.2", 0, 1 << 26)
MISSING = Failed(SocketLostReason.MISSING, "no socket")
FILE = Failed(SocketLostReason.MISSING, "a plain file")
STALE = Failed(SocketLostReason.STALE, "nobody listens")
DENIED = Failed(SocketLostReason.DENIED, "denied")
LATE = Failed(SocketLostReason.HUNG, "no answer", certain=False)
CLOSED = Failed(SocketLostReason.HUNG, "closed, no successor")


def said(*outcomes):
    """What is said after each outcome, in short: the incarnation, the reason, or None."""
    standing, words = Standing(), []
    for outcome in outcomes:
        standing, event = judge(ADDRESS, standing, outcome)
        words.append(event.incarnation if isinstance(event, SocketReadyV1) else event and event.reason.value)
    return words


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([ONE], ["i1"]),
        ([MISSING], ["missing"]),
        ([LATE], ["hung"]),
        ([ONE, ONE], ["i1", None]),
        ([ONE, OTHER], ["i1", "i2"]),
        ([ONE, STALE], ["i1", "stale"]),
        ([ONE, CLOSED], ["i1", "hung"]),
        ([ONE, LATE], ["i1", None]),
        ([ONE, LATE, LATE], ["i1", None, "hung"]),
        ([ONE, LATE, ONE, LATE], ["i1", None, None, None]),
        ([ONE, LATE, STALE], ["i1", None, "stale"]),
        ([ONE, LATE, CLOSED], ["i1", None, "hung"]),
        ([ONE, STALE, ONE], ["i1", "stale", "i1"]),
        ([MISSING, MISSING, MISSING], ["missing", None, None]),
        ([MISSING, STALE, ONE], ["missing", None, "i1"]),
        ([MISSING, STALE, STALE, STALE], ["missing", None, "stale", None]),
        ([MISSING, STALE, DENIED, STALE], ["missing", None, None, None]),
        ([MISSING, FILE], ["missing", "missing"]),
        ([STALE, LATE, LATE, LATE], ["stale", None, "hung", None]),
    ],
)
def test_only_news_are_said(outcomes, expected):
    assert said(*outcomes) == expected


def test_memory_in_use_is_no_news():
    fuller = Answered("i1", 0, "0.24.2", 4096, 1 << 26)
    assert said(ONE, fuller) == ["i1", None]


def test_a_lost_socket_names_the_last_daemon_that_answered_there():
    standing, _ = judge(ADDRESS, Standing(), ONE)
    standing, lost = judge(ADDRESS, standing, STALE)
    assert lost.incarnation == "i1"
    standing, _ = judge(ADDRESS, standing, MISSING)
    _, lost = judge(ADDRESS, standing, MISSING)
    assert (lost.reason, lost.incarnation) == (SocketLostReason.MISSING, "i1")


def test_events_say_all_of_what_and_where():
    _, ready = judge(ADDRESS, Standing(), Answered("local", 7, "0.24.2", 5, 6))
    assert ready == SocketReadyV1(
        cache="k",
        namespace="default",
        node="l20-a",
        path=ADDRESS.path,
        incarnation="local",
        instance_id=7,
        version="0.24.2",
        memory_usage=5,
        memory_limit=6,
    )
    _, lost = judge(ADDRESS, Standing(), DENIED)
    assert lost == SocketLostV1(
        cache="k",
        namespace="default",
        node="l20-a",
        path=ADDRESS.path,
        reason=SocketLostReason.DENIED,
        message="denied",
    )
