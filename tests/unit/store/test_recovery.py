"""What a new worker makes of each slot that a killed one left."""

import pytest

from kvberth.store.layout.slots import SlotHeader, SlotState
from kvberth.store.recovery import Repair, repair, whole_blocks

IN_USE, FREED = 7, 8


def header(state: SlotState, generation: int) -> SlotHeader:
    return SlotHeader(bytes(32), generation, 1, 0, bytes(16), 1, 1, 0, 1, 0, 0, 0, state)


@pytest.mark.parametrize(
    ("state", "generation", "expected"),
    [
        (SlotState.FREE, FREED, Repair.KEEP),
        (SlotState.FREE, IN_USE, Repair.FREE),
        (SlotState.GRANTED, IN_USE, Repair.QUARANTINE),
        (SlotState.QUARANTINED, IN_USE, Repair.KEEP),
        (SlotState.COMMITTED, IN_USE, Repair.FREE),
        (SlotState.PUBLISHED, IN_USE, Repair.KEEP),
        (SlotState.DYING, IN_USE, Repair.KEEP),
        (SlotState.DYING, FREED, Repair.FREE_STATE),
        (SlotState.QUARANTINED, FREED, Repair.FREE_STATE),
    ],
)
def test_a_slot_is_taken_over(state: SlotState, generation: int, expected: Repair) -> None:
    assert repair(header(state, generation), lent=True) is expected


def test_nonsense_and_slots_of_no_extent_are_freed() -> None:
    assert repair(None, lent=True) is Repair.FREE
    assert repair(header(SlotState.PUBLISHED, IN_USE), lent=False) is Repair.FREE
    assert repair(header(SlotState.FREE, FREED), lent=False) is Repair.KEEP


def shard(number: int, shards: int, after: int | None, key: int = 1) -> SlotHeader:
    """The header of a published shard whose next one is in slot `after`."""
    following = 0 if after is None else after + 1
    return SlotHeader(
        bytes([key]) * 32, IN_USE, 1, 0, bytes(16), 1, 1, number, shards, 0, 0, following, SlotState.PUBLISHED
    )


@pytest.mark.parametrize(
    ("published", "blocks"),
    [
        ({}, []),
        ({4: shard(0, 2, 9), 9: shard(1, 2, None)}, [(4, 9)]),
        (
            {9: shard(1, 2, None), 4: shard(0, 2, 9), 7: shard(0, 3, 8), 8: shard(1, 3, 6), 6: shard(2, 3, None)},
            [(4, 9), (7, 8, 6)],
        ),
        ({9: shard(1, 2, None)}, []),
        ({4: shard(0, 2, 9)}, []),
        ({4: shard(0, 2, None), 9: shard(1, 2, None)}, []),
        ({4: shard(0, 3, 9), 9: shard(1, 3, 4)}, []),
        ({4: shard(0, 2, 9), 9: shard(1, 2, None, key=2)}, []),
        ({4: shard(0, 2, 9), 9: shard(1, 3, None)}, []),
        ({4: shard(0, 2, 4)}, []),
        ({4: shard(0, 0, None)}, []),
        ({4: shard(0, 2**32 - 1, 9), 9: shard(1, 2**32 - 1, None)}, []),
        ({4: shard(0, 2, 9), 5: shard(0, 2, 9), 9: shard(1, 2, None)}, [(4, 9)]),
    ],
)
def test_only_blocks_of_which_every_shard_is_there_are_whole(
    published: dict[int, SlotHeader], blocks: list[tuple[int, ...]]
) -> None:
    assert whole_blocks(published) == blocks
