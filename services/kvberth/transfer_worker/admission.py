"""Divides the budget of bytes among clients, so that their quotas together are never above it. Pure.

A quota bounds what a client lets wait for slots and what is granted to it. It is lowered at once, and what that frees
is given to others only after the client has said that it obeys and is below it: a client that is stopped keeps what it
had. So the sum of what clients may use, and of what they do use, is at no moment above the budget.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

MAX_GRANTED = 64 << 20
"""No client is granted more bytes ahead: its copies would gain nothing by it."""
LEAST_SLOTS = 2
"""A client has at least so many slots granted, and may let so many blocks wait."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What a client may use, in bytes; the number grows with each change."""

    number: int = 0
    queued: int = 0
    granted: int = 0
    leased: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """What a client's words say, and what the worker itself has granted to it."""

    obeyed: int
    """The number of the quota that it says to obey."""
    queued: int
    granted: int


@dataclass(frozen=True, slots=True)
class _Member:
    slot_bytes: int
    """0: it lets nothing in, and only reads."""
    weight: int = 1
    """Its share of the leases."""
    told: Quota = Quota()
    before: int = 0
    """Bytes that it may still use by quotas which it has not yet given up."""


class Admission:
    """The quotas of all clients of one store."""

    def __init__(self, budget: int, leases: int) -> None:
        """`budget` bounds queued and granted bytes of all clients, `leases` what they have leased."""
        self.budget = budget
        self._leases = leases
        self._members: dict[bytes, _Member] = {}

    def admits(self, slot_bytes: int, elsewhere: int = 0) -> bool:
        """Whether one more client with such slots would find its least share; `elsewhere` bytes are used by others."""
        least = sum(_least(member.slot_bytes) for member in self._members.values())
        return least + _least(slot_bytes) + elsewhere <= self.budget

    def enter(self, client: bytes, slot_bytes: int) -> None:
        """Slots of 0 bytes: it only reads."""
        self._members[client] = _Member(slot_bytes)

    def weigh(self, client: bytes, weight: int) -> None:
        """Who leases for several others has their weight from the next `divide` on."""
        self._members[client] = replace(self._members[client], weight=weight)

    def leave(self, client: bytes) -> None:
        self._members.pop(client, None)

    def quota(self, client: bytes) -> Quota:
        """What this client was told last."""
        return self._members[client].told

    def reserved(self, client: bytes, use: Use) -> int:
        """Bytes that this client uses or may use at this moment."""
        member = self._members[client]
        return _most(member.told, 0 if use.obeyed == member.told.number else self._before(member, use), use)

    def divide(self, uses: Mapping[bytes, Use], elsewhere: int = 0) -> dict[bytes, Quota]:
        """Returns the quotas that change, for every client that is in; `elsewhere` bytes are used by others."""
        changed: dict[bytes, Quota] = {}
        least = sum(_least(member.slot_bytes) for member in self._members.values())
        targets = {client: self._target(member, least) for client, member in self._members.items()}
        for client, target in targets.items():
            told = self._members[client].told
            lower = Quota(0, *(min(pair) for pair in zip(_amounts(told), _amounts(target), strict=True)))
            self._tell(client, lower, uses[client], changed)
        reserved = elsewhere + sum(self.reserved(client, uses[client]) for client in self._members)
        for client, target in targets.items():
            others = reserved - self.reserved(client, uses[client])
            raised = self._fitting(client, target, uses[client], self.budget - others)
            if raised is not None:
                self._tell(client, raised, uses[client], changed)
            reserved = others + self.reserved(client, uses[client])
        return changed

    def _fitting(self, client: bytes, target: Quota, use: Use, left: int) -> Quota | None:
        """The target, or as much of it as others leave at this moment; None: no more than it has, or too little."""
        member = self._members[client]
        before, least = self._before(member, use), LEAST_SLOTS * member.slot_bytes
        granted = min(target.granted, max(least, left // 2))
        quota = Quota(0, max(0, min(target.queued, left - granted)), granted, target.leased)
        enough = quota.queued >= max(least, member.told.queued) and quota.granted >= member.told.granted
        return quota if enough and _most(quota, before, use) <= left else None

    @staticmethod
    def _before(member: _Member, use: Use) -> int:
        """Bytes that a client may let wait until it has heard of the next quota."""
        return member.told.queued if use.obeyed == member.told.number else max(member.before, member.told.queued)

    def _target(self, member: _Member, least: int) -> Quota:
        """A client's fair share; `least` is what all clients have at least."""
        members = self._members.values()
        leased = self._leases * member.weight // sum(each.weight for each in members)
        if not member.slot_bytes:
            return Quota(0, 0, 0, leased)
        spare = (self.budget - least) // sum(each.slot_bytes > 0 for each in members)
        share = max(0, spare) + _least(member.slot_bytes)
        granted = min(share // 2, max(MAX_GRANTED, LEAST_SLOTS * member.slot_bytes))
        return Quota(0, share - granted, granted, leased)

    def _tell(self, client: bytes, quota: Quota, use: Use, changed: dict[bytes, Quota]) -> None:
        member = self._members[client]
        if _amounts(quota) == _amounts(member.told):
            return
        before = self._before(member, use)
        told = replace(quota, number=member.told.number + 1)
        self._members[client] = replace(member, told=told, before=before)
        changed[client] = told


def _most(quota: Quota, before: int, use: Use) -> int:
    return max(quota.granted, use.granted) + max(quota.queued, before, use.queued)


def _least(slot_bytes: int) -> int:
    return 2 * LEAST_SLOTS * slot_bytes


def _amounts(quota: Quota) -> tuple[int, int, int]:
    return quota.queued, quota.granted, quota.leased
