"""The records of the three rings between a client and the worker: commits, grants, receipts.

A record's last word is its sequence number plus one: a reader takes the record it waits for or none. What a client
writes is hostile to the worker: `decode_commits` checks every range and says what was wrong. The worker's
service and the client in the engine read and write them; `put` of this library needs none.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from kvberth.store.errors import Malformed
from kvberth.store.layout.geometry import PAGE

RECORDS = 1024
COMMIT_RING_AT = PAGE
GRANT_RING_AT = PAGE
RECEIPT_RING_AT = PAGE + RECORDS * 32
COMMIT_BYTES, GRANT_BYTES, RECEIPT_BYTES = 64, 32, 32
_COMMIT = struct.Struct("=32sQQQQ")
_FOUR = struct.Struct("=QQQQ")
_LENGTH_BITS = 40
_LENGTH_MASK = (1 << _LENGTH_BITS) - 1


class Outcome(IntEnum):
    """What became of a block that was offered: stored, there already, or dropped for a reason. Part of the layout."""

    STORED = 1
    PRESENT = 2
    QUEUE_FULL = 16
    BUDGET = 17
    EXPIRED = 18
    STORE_FULL = 19
    NO_CACHE = 20
    LAYOUT = 21
    CANCELLED = 22
    DEGRADED = 23
    ENGINE_BLOCKS = 24
    SHARD = 25
    BREAK_EVEN = 26
    """Storing it would take longer than it saves."""

    @property
    def dropped(self) -> bool:
        return self >= Outcome.QUEUE_FULL


_OUTCOMES = {int(outcome): outcome for outcome in Outcome}


class Commit(NamedTuple):
    """A client's word that the bytes of a grant are in their slot."""

    key: bytes
    grant: int
    generation: int
    slot: int
    length: int


class Grant(NamedTuple):
    """The worker's word that a client may write into a slot."""

    grant: int
    slot: int
    generation: int


class Receipt(NamedTuple):
    """The worker's word on what became of a commit."""

    grant: int
    outcome: Outcome
    generation: int


def encode_commit(sequence: int, commit: Commit) -> bytes:
    if not (0 <= commit.length < 1 << _LENGTH_BITS and 0 <= commit.slot < 1 << 64 - _LENGTH_BITS):
        raise ValueError(f"slot {commit.slot} and length {commit.length} do not fit into their word")
    where = commit.slot << _LENGTH_BITS | commit.length
    return _COMMIT.pack(commit.key, commit.grant, commit.generation, where, sequence + 1)


def decode_commits(data: bytes | memoryview, sequence: int, slots: int) -> list[Commit]:
    """Reads records, the first of which has that sequence number; raises Malformed where a client wrote nonsense."""
    commits = []
    for key, grant, generation, where, found in _COMMIT.iter_unpack(data):
        if found != sequence + 1:
            raise Malformed(f"record {found - 1} stands where commit {sequence} was announced")
        slot = where >> _LENGTH_BITS
        if slot >= slots:
            raise Malformed(f"commit {sequence} names slot {slot}, the store has {slots}")
        commits.append(Commit(key, grant, generation, slot, where & _LENGTH_MASK))
        sequence += 1
    return commits


def encode_grant(sequence: int, grant: Grant) -> bytes:
    return _FOUR.pack(grant.grant, grant.slot, grant.generation, sequence + 1)


def decode_grants(data: bytes | memoryview, sequence: int) -> list[Grant]:
    """Reads records, the first of which has that sequence number; raises Malformed."""
    records = _in_order(data, sequence, "grant")
    return list(map(Grant._make, records))


def encode_receipt(sequence: int, receipt: Receipt) -> bytes:
    return _FOUR.pack(receipt.grant, receipt.outcome, receipt.generation, sequence + 1)


def decode_receipts(data: bytes | memoryview, sequence: int) -> list[Receipt]:
    """Reads records, the first of which has that sequence number; raises Malformed."""
    records = _in_order(data, sequence, "receipt")
    try:
        return [Receipt(grant, _OUTCOMES[outcome], generation) for grant, outcome, generation in records]
    except KeyError as error:
        raise Malformed(f"a receipt tells outcome {error}, which nobody writes") from None


def _in_order(data: bytes | memoryview, sequence: int, what: str) -> list[tuple[int, int, int]]:
    records = []
    for first, second, third, found in _FOUR.iter_unpack(data):
        if found != sequence + 1:
            raise Malformed(f"record {found - 1} stands where {what} {sequence} was announced")
        records.append((first, second, third))
        sequence += 1
    return records
