"""Whether a rank may be let in: only when all ranks of its engine are on this node. Pure.

A block of several shards is there when each rank has brought its own, so one whose other ranks are elsewhere would
never store anything. Who has asked counts as here, for as long as its lock is held: the last one is let in at once, the
others when they ask again.
"""

from collections.abc import Iterable

from kvberth.store.control import Register


def complaint(asked: Register, others: Iterable[Register], places: int) -> str | None:
    """Why not (a sentence), or None; `others` is what other living clients have asked, `places` how many there may be.

    A client without regions only reads, for whoever copies: it is no rank.
    """
    shards = asked.shards
    if asked.shard >= shards:
        return f"Of {shards} shards none has number {asked.shard}: they count from 0."
    if shards > places:
        return f"Blocks of {shards} shards need as many clients, here are places for {places}."
    if shards == 1 or not asked.regions:
        return None
    ranks = [each for each in others if each.regions and (each.fingerprint, each.shards) == (asked.fingerprint, shards)]
    for other in ranks:
        if other.shard == asked.shard and other.regions != asked.regions:
            return f"Another rank has cut shard {asked.shard} of the same blocks into other regions."
    missing = sorted(set(range(shards)) - {asked.shard, *(each.shard for each in ranks)})
    if missing:
        names = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
        return f"Of {shards} shards these have no rank on this node: {names}. Blocks are held where all ranks are."
    return None
