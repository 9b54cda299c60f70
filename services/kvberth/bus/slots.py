"""The bookkeeping of a writer: what is desired, what was found, and what is not acknowledged yet. No I/O.

Every change gets a number, so that "everything put up to here is acknowledged" is one comparison, however fast further
changes come.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from kvberth.bus.reconcile import Found, Statement


@dataclass(slots=True)
class Slot:
    """One subject."""

    desired: Statement | None = None
    farewell: Statement | None = None
    """What is said instead of nothing: the thing's end."""
    found: Found | None = None
    attempted: bool = False
    """Whether `desired` may be stored already, under its id."""
    busy: bool = False
    oldest: int | None = None
    """Number of the first change that is not acknowledged."""
    later: int | None = None
    """Number of the first change since the one at work."""
    overwrites: int = 0
    """How often somebody else's message had to be overwritten lately."""

    def acknowledge(self) -> None:
        """The change at work is done."""
        self.oldest, self.later = self.later, None


class Slots:
    """All subjects of a writer, and the queue of those with work to do."""

    def __init__(self) -> None:
        """Nothing known."""
        self._slots: dict[str, Slot] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()  # bounded: each subject is in it once at most
        self._queued: set[str] = set()
        self._unacknowledged: dict[str, Slot] = {}
        self._number = 0

    @property
    def number(self) -> int:
        """Number of the newest change."""
        return self._number

    @property
    def acknowledged(self) -> int:
        """Every change up to this number is acknowledged."""
        oldest = min((slot.oldest for slot in self._unacknowledged.values() if slot.oldest is not None), default=None)
        return self._number if oldest is None else oldest - 1

    @property
    def outstanding(self) -> int:
        """How many subjects have changes that are not acknowledged."""
        return len(self._unacknowledged)

    def __getitem__(self, subject: str) -> Slot:
        """Give the slot of a subject, made where it is new."""
        return self._slots.setdefault(subject, Slot())

    def __iter__(self) -> Iterator[str]:
        """Go over the subjects."""
        return iter(list(self._slots))

    def mark(self, subject: str) -> None:
        """A subject changed: there is work to do."""
        slot = self[subject]
        self._number += 1
        if slot.busy:
            slot.later = slot.later or self._number
        else:
            self._enqueue(subject)
        slot.oldest = slot.oldest or self._number
        self._unacknowledged[subject] = slot

    async def take(self) -> tuple[str, Slot]:
        """Wait for a subject with work to do; `done` or `give_back` must follow."""
        subject = await self._queue.get()
        self._queued.discard(subject)
        slot = self[subject]
        slot.busy = True
        slot.later = None
        return subject, slot

    def done(self, subject: str) -> None:
        """The change that was taken is acknowledged."""
        slot = self[subject]
        slot.busy = False
        slot.acknowledge()
        if slot.oldest is not None:
            self._enqueue(subject)
            return
        self._unacknowledged.pop(subject, None)
        if slot.desired is None and slot.found is None:
            self._slots.pop(subject, None)

    def give_back(self, subject: str) -> None:
        """The change that was taken could not be made now."""
        slot = self[subject]
        slot.busy = False
        slot.later = None
        self._enqueue(subject)

    def _enqueue(self, subject: str) -> None:
        if subject not in self._queued:
            self._queued.add(subject)
            self._queue.put_nowait(subject)
