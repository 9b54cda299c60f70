"""The bookkeeping of a writer: what is desired, what was found, and what is not acknowledged yet. No I/O.

Every change gets a number, so that "everything put up to here is acknowledged" is one comparison, however fast further
changes come.
"""

import asyncio
import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from kvberth.bus.reconcile import Case, Found, Statement

_CALM_TROUBLES = 2
_SLACK = 64
_FIRST_WAIT_S = 0.02
_MOST_DOUBLINGS = 8


@dataclass(slots=True)
class Slot:
    """One subject."""

    desired: Statement | None = None
    farewell: Statement | None = None
    """What is said where nothing is desired: the thing's end."""
    found: Found | None = None
    attempted: int | None = None
    """The last sequence that was expected when the statement was last sent; None: it never was."""
    busy: bool = False
    oldest: int | None = None
    """Number of the first change that is not acknowledged."""
    later: int | None = None
    """Number of the first change since the one at work."""
    troubles: int = 0
    """How often it could not be said, or had to be said over somebody else's word, lately."""

    unstored: int = 0
    """How often in a row the server, though connected, gave no word that it stored it."""

    @property
    def case(self) -> Case:
        """What there is to decide."""
        return Case(self.desired or self.farewell, self.found, self.attempted)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to remember."""
        nothing = self.desired is None and self.farewell is None and self.found is None
        return nothing and self.oldest is None and not self.busy

    @property
    def wait_s(self) -> float:
        """Seconds to wait before the next try: none at first, so that a fight with an equal writer is no storm."""
        doublings = min(self.troubles - _CALM_TROUBLES, _MOST_DOUBLINGS)
        return 0.0 if doublings < 0 else _FIRST_WAIT_S * 2.0**doublings


class Slots:
    """All subjects of a writer, and the queue of those with work to do."""

    def __init__(self) -> None:
        """Nothing known."""
        self._slots: dict[str, Slot] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()  # bounded: each subject is in it once at most
        self._queued: set[str] = set()
        self._unacknowledged: dict[str, Slot] = {}
        self._oldest: list[tuple[int, str]] = []  # a heap of what is not acknowledged; what is lies there a while, too
        self._number = 0

    @property
    def number(self) -> int:
        """Number of the newest change."""
        return self._number

    @property
    def acknowledged(self) -> int:
        """Every change up to this number is acknowledged."""
        while self._oldest and not self._waits(*self._oldest[0]):
            heapq.heappop(self._oldest)
        return self._oldest[0][0] - 1 if self._oldest else self._number

    @property
    def outstanding(self) -> int:
        """How many subjects have changes that are not acknowledged."""
        return len(self._unacknowledged)

    def unstored(self, times: int) -> int:
        """How many subjects the server did not store so often in a row."""
        return sum(slot.unstored >= times for slot in self._unacknowledged.values())

    def __getitem__(self, subject: str) -> Slot:
        """Give the slot of a subject, made where it is new."""
        return self._slots.setdefault(subject, Slot())

    def __iter__(self) -> Iterator[str]:
        """Go over the subjects."""
        return iter(list(self._slots))

    def __len__(self) -> int:
        """How many subjects are remembered."""
        return len(self._slots)

    def forget_found(self, *, another_stream: bool) -> None:
        """Nothing is known of the stream; on another one, nothing was ever said."""
        for subject, slot in list(self._slots.items()):
            slot.found, slot.troubles, slot.unstored = None, 0, 0
            if another_stream:
                slot.attempted = None
            if slot.idle:
                del self._slots[subject]

    def mark(self, subject: str) -> None:
        """A subject changed: there is work to do."""
        slot = self[subject]
        self._number += 1
        if slot.busy:
            slot.later = slot.later or self._number
        else:
            self._schedule(subject, slot)
        if slot.oldest is None:
            self._begin(subject, slot, self._number)

    async def take(self) -> tuple[str, Slot]:
        """Wait for a subject with work to do; `done` or `give_back` must follow."""
        while True:
            subject = await self._queue.get()
            self._queued.discard(subject)
            if self.claim(subject):
                return subject, self[subject]

    def claim(self, subject: str) -> bool:
        """Work on a subject now, unless somebody does; `done` or `give_back` must follow."""
        slot = self[subject]
        if slot.busy:
            slot.later = slot.later or slot.oldest
            return False
        slot.busy, slot.later = True, None
        return True

    def done(self, subject: str) -> None:
        """The change that was claimed is acknowledged."""
        slot = self[subject]
        slot.busy = False
        later, slot.oldest, slot.later = slot.later, None, None
        slot.troubles, slot.unstored = max(0, slot.troubles - 1), 0
        if later is not None:
            self._begin(subject, slot, later)
            self._schedule(subject, slot)
            return
        self._unacknowledged.pop(subject, None)
        if slot.idle:
            del self._slots[subject]

    def give_back(self, subject: str) -> None:
        """The change that was claimed could not be made now: try again."""
        slot = self[subject]
        slot.busy, slot.later = False, None
        self._schedule(subject, slot)

    def _begin(self, subject: str, slot: Slot, number: int) -> None:
        slot.oldest = number
        self._unacknowledged[subject] = slot
        heapq.heappush(self._oldest, (number, subject))
        if len(self._oldest) > 2 * len(self._unacknowledged) + _SLACK:
            self._oldest = [entry for entry in self._oldest if self._waits(*entry)]
            heapq.heapify(self._oldest)

    def _waits(self, number: int, subject: str) -> bool:
        slot = self._unacknowledged.get(subject)
        return slot is not None and slot.oldest == number

    def _schedule(self, subject: str, slot: Slot) -> None:
        if slot.wait_s:  # the workers go on with other subjects meanwhile
            asyncio.get_running_loop().call_later(slot.wait_s, self._enqueue, subject)
        else:
            self._enqueue(subject)

    def _enqueue(self, subject: str) -> None:
        if subject not in self._queued:
            self._queued.add(subject)
            self._queue.put_nowait(subject)
