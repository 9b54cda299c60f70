"""The lease of a client on a slot: two words, {generation, slot and deadline}; a second word of 0 is no lease.

The generation is written first and the valid word last, and the valid word alone is cleared. Deadlines are ticks of
10 ms on CLOCK_MONOTONIC, modulo 2**24 (46 h): a lease lasts seconds, so half of the circle is the past.
"""

TICK_NS = 10_000_000
TICKS = 1 << 24
LEASE_BYTES = 16
LEASES = 8192
LEASES_AT = 68 * 1024
"""Offset of the leases in a client's page, behind its head words and its commit ring."""


def valid_word(slot: int, deadline_ns: int) -> int:
    """The second word; the tick is rounded up, so a lease never ends before its time."""
    return (slot + 1) << 24 | -(-deadline_ns // TICK_NS) % TICKS


def slot_of(word: int) -> int:
    return (word >> 24) - 1


def expired(word: int, now_ns: int) -> bool:
    """Whether a lease has ended."""
    return (now_ns // TICK_NS - word) % TICKS < TICKS // 2
