"""What a worker makes of a slot that an earlier worker left behind, wherever that one was killed. Pure.

Each header is written body first and state last, and cleared generation first: so header and state tell where it was.
"""

from collections.abc import Mapping
from enum import Enum

from kvberth.store.layout.slots import SlotHeader, SlotState


class Repair(Enum):
    """What to do with a slot that was found."""

    KEEP = "as it is"
    FREE_STATE = "only its state still has to become free"
    FREE = "generation on, then free"
    QUARANTINE = "a client may still write into it"


def repair(header: SlotHeader | None, *, lent: bool) -> Repair:
    """Decides for one slot; None: its header holds nonsense. `lent`: its extent is cut so that it has such a slot."""
    if header is None:
        return Repair.FREE
    used = header.generation % 2 == 1
    if header.state is SlotState.FREE:
        return Repair.FREE if used else Repair.KEEP  # killed in a grant, before anybody heard of it
    if not used:
        return Repair.FREE_STATE  # killed between the new generation and the state
    if not lent:
        return Repair.FREE
    match header.state:
        case SlotState.GRANTED:
            return Repair.QUARANTINE
        case SlotState.COMMITTED:
            return Repair.FREE  # no receipt was given; the client hears "degraded" and has its block still
        case _:
            return Repair.KEEP


def whole_blocks(published: Mapping[int, SlotHeader]) -> list[tuple[int, ...]]:
    """The blocks of several shards that are all there, by their slots, shard 0 first.

    `published` are the published slots of such blocks. What is in none of the blocks was never visible, or was going.
    """
    blocks: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for first, header in published.items():
        if header.shard == 0:
            block = _linked(first, header, published)
            if len(block) == header.shards and taken.isdisjoint(block):
                taken.update(block)
                blocks.append(block)
    return blocks


def _linked(first: int, header: SlotHeader, published: Mapping[int, SlotHeader]) -> tuple[int, ...]:
    """The slots to which the header of shard 0 leads, as far as each is the next shard of its block."""
    block, slot = [first], header.next_slot - 1
    while len(block) < header.shards:
        found = published.get(slot)
        if found is None or (found.key, found.shard, found.shards) != (header.key, len(block), header.shards):
            break
        block.append(slot)
        slot = found.next_slot - 1
    return tuple(block)
