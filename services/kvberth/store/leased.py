"""Reads, for the worker, which slots clients have leased: after its fence, before it frees what is dying.

A lease counts where its client's page is, its time has not ended and its generation is the slot's own: any other word
there is old or nonsense, and nonsense of a client can only hold slots back, for as long as a lease may last.
"""

from collections.abc import Iterable

from kvberth.store.layout import leases
from kvberth.store.memory import StoreMemory

MAX_LEASE_NS = 60_000_000_000
"""A lease that claims to last longer is nonsense and is not taken."""
_NONE = memoryview(bytes(leases.LEASES * leases.LEASE_BYTES)).cast("Q")


def leased_slots(memory: StoreMemory, now_ns: int, places: Iterable[int]) -> dict[int, set[int]]:
    """The generations that are leased, by slot, as the pages of the clients in these places say."""
    found: dict[int, set[int]] = {}
    slots = memory.geometry.slots
    for client in places:
        words = memory.lease_words(client)
        if words == _NONE:  # a look at memory, where the list below costs half a millisecond
            continue
        values = words.tolist()
        for generation, valid in zip(values[::2], values[1::2], strict=True):
            if not valid or leases.expired(valid, now_ns):
                continue
            slot = leases.slot_of(valid)
            if slot < slots and leases.expired(valid, now_ns + MAX_LEASE_NS + 2 * leases.TICK_NS):
                found.setdefault(slot, set()).add(generation)
    return found
