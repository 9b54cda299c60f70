"""The blocks that wait for a slot, within a quota of bytes: higher priorities first, then in the order they came. Pure.

Whatever does not fit is refused at once; nothing waits past its deadline.
"""

import heapq
from dataclasses import dataclass, field

from kvberth.client.tickets import Job


@dataclass(order=True, slots=True)
class _Entry:
    order: tuple[int, int]
    job: Job = field(compare=False)


class StoreQueue:
    """Jobs of one size each; `quota` and `bytes` in bytes."""

    def __init__(self) -> None:
        self.quota = 0
        self.slot_bytes = 1
        self._heap: list[_Entry] = []
        self._came = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def bytes(self) -> int:
        return len(self._heap) * self.slot_bytes

    def offer(self, job: Job) -> bool:
        """Takes a job; False: the quota is used up."""
        if self.bytes + self.slot_bytes > self.quota:
            return False
        self._came += 1
        heapq.heappush(self._heap, _Entry((-job.priority, self._came), job))
        return True

    def take(self) -> Job | None:
        """The next job, which the caller copies or settles."""
        return heapq.heappop(self._heap).job if self._heap else None

    def expired(self, now_ns: int) -> list[Job]:
        """Takes the jobs whose time is over."""
        return self._remove([entry.job for entry in self._heap if entry.job.deadline_ns <= now_ns])

    def of_ticket(self, ticket: object) -> list[Job]:
        """Takes the jobs of one ticket."""
        return self._remove([entry.job for entry in self._heap if entry.job.ticket is ticket])

    def all(self) -> list[Job]:
        """Takes all."""
        return self._remove([entry.job for entry in self._heap])

    def _remove(self, going: list[Job]) -> list[Job]:
        gone = {id(job) for job in going}
        if gone:
            self._heap = [entry for entry in self._heap if id(entry.job) not in gone]
            heapq.heapify(self._heap)
        return going
