"""Whether a rank may be let in: only when all ranks of its engine are on this node. Pure.

A block of several shards is there when each rank has brought its own, so one whose other ranks are elsewhere would
never store anything. Who has asked counts as here, for as long as its lock is held: the last one is let in at once, the
others when they ask again. Who could not be let in whoever else came does not count: else two engines that cut the same
blocks differently would keep each other out.
"""

from collections.abc import Iterable

from kvberth.store.control import Register


def conflict(asked: Register, others: Iterable[Register], places: int) -> str | None:
    """Why not, whoever else comes (a sentence), or None.

    `others` is what other living clients have asked, `places` how many there may be.
    """
    shards = asked.shards
    if asked.shard >= shards:
        return f"Of {shards} shards none has number {asked.shard}: they count from 0."
    if shards > places:
        return f"Blocks of {shards} shards need as many clients, here are places for {places}."
    for other in _ranks(asked, others) if asked.regions else ():
        if other.shard == asked.shard and other.regions != asked.regions:
            return f"Another rank has cut shard {asked.shard} of the same blocks into other regions."
    return None


def missing(asked: Register, others: Iterable[Register]) -> str | None:
    """Why not yet (a sentence), or None."""
    if asked.shards == 1 or not asked.regions:
        return None
    absent = sorted(set(range(asked.shards)) - {asked.shard, *(each.shard for each in _ranks(asked, others))})
    if not absent:
        return None
    names = ", ".join(map(str, absent[:8])) + (", …" if len(absent) > 8 else "")
    return f"Of {asked.shards} shards these have no rank on this node: {names}. Blocks are held where all ranks are."


def weight(asked: Register, others: Iterable[Register]) -> int:
    """For how many ranks that are here a client without regions leases: at least 1, whatever it says itself."""
    return max(1, len({each.shard for each in _ranks(asked, others)}))


def _ranks(asked: Register, others: Iterable[Register]) -> list[Register]:
    """The other ranks of its engine. A client without regions only reads, for whoever copies: it is no rank."""
    if asked.shards == 1:
        return []
    engine = asked.fingerprint, asked.shards
    return [each for each in others if each.regions and (each.fingerprint, each.shards) == engine]
