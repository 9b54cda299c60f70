"""A rank is let in when all ranks of its engine are on its node."""

import pytest

from kvberth.store.control import Register
from kvberth.transfer_worker.ranks import conflict, missing, weight

MODEL, OTHER = b"m" * 32, b"o" * 32


def rank(shard: int, shards: int = 3, regions: tuple[int, ...] = (64,), model: bytes = MODEL) -> Register:
    return Register(model, regions, shard, shards)


@pytest.mark.parametrize(
    ("asked", "others", "why"),
    [
        (rank(0, 1), [], None),
        (rank(0), [rank(1), rank(2)], None),
        (rank(2), [rank(0, regions=(32,)), rank(1), rank(1)], None),
        (rank(0), [rank(0), rank(1), rank(2)], None),
        (rank(0, regions=()), [], None),
        (rank(0, regions=()), [rank(0), rank(1), rank(2)], None),
        (rank(0), [], "on this node: 1, 2."),
        (rank(1), [rank(1), rank(2)], "on this node: 0."),
        (rank(0), [rank(1), rank(2, model=OTHER)], "on this node: 2."),
        (rank(0), [rank(1), rank(2, shards=4)], "on this node: 2."),
        (rank(0), [rank(1), rank(2, regions=())], "on this node: 2."),
        (rank(0), [rank(0, regions=(32,)), rank(1), rank(2)], "into other regions"),
        (rank(3), [], "none has number 3"),
        (rank(1, 1), [], "none has number 1"),
        (rank(0, 9), [], "places for 8"),
        (rank(0, 9, regions=()), [], "places for 8"),
    ],
)
def test_a_rank_is_let_in_when_all_are_there(asked: Register, others: list[Register], why: str | None) -> None:
    said = conflict(asked, others, 8) or missing(asked, others)
    assert (said is None) if why is None else (why in str(said))


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], 1),
        ([rank(0), rank(1), rank(2)], 3),
        ([rank(0), rank(0), rank(1, model=OTHER), rank(2, shards=4), rank(2, regions=())], 1),
    ],
)
def test_a_scheduler_weighs_as_much_as_the_ranks_that_are_there(others: list[Register], expected: int) -> None:
    assert weight(rank(0, regions=()), others) == expected
    assert weight(rank(0, 1, regions=()), [rank(0, 1), rank(0, 1)]) == 1
