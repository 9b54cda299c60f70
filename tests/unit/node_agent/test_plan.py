"""Which directories are kept and dropped, given the wants."""

import pytest

from kvberth.node_agent.sockets.plan import CacheKey, DirWant, Drop, Keep, Refuse, plan

K = CacheKey("default", "k")
J = CacheKey("default", "j")


def want(id_, state="keep"):
    return DirWant(id_, state, 0o700, None)


@pytest.mark.parametrize(
    ("applied", "wants", "expected"),
    [
        ({}, {}, []),
        ({}, {K: want("1")}, [Keep(K, want("1"))]),
        ({K: "1"}, {K: want("1")}, []),
        ({K: "1"}, {K: want("2")}, [Keep(K, want("2"))]),
        ({K: "1"}, {K: want("2", "drop")}, [Drop(K, want("2", "drop"))]),
        ({}, {K: want("1", "drop")}, [Drop(K, want("1", "drop"))]),
        ({}, {K: want("1"), J: want("2")}, [Keep(J, want("2")), Keep(K, want("1"))]),
    ],
)
def test_each_want_is_applied_once(applied, wants, expected):
    assert plan(applied, wants) == expected


def test_a_want_that_is_not_there_never_means_drop():
    assert plan({K: "1", J: "2"}, {}) == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../etc", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(name):
    for key in (CacheKey("default", name), CacheKey(name, "k")):
        (step,) = plan({}, {key: want("1")})
        assert isinstance(step, Refuse)
        assert "DNS labels" in step.sentence


def test_a_drop_of_such_a_name_is_a_drop():
    key = CacheKey("..", "k")
    assert plan({}, {key: want("1", "drop")}) == [Drop(key, want("1", "drop"))]
