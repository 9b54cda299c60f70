"""What a new worker makes of each slot that a killed one left."""

import pytest

from kvberth.store.layout.slots import SlotHeader, SlotState
from kvberth.store.recovery import Repair, repair

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
