"""The blocks that wait for a slot, within a quota of bytes: higher priorities first, then in the order they came. Pure.

Whatever does not fit is refused at once; nothing waits past its deadline.
"""

import heapq

from kvberth.client.tickets import Job


class StoreQueue:
    """Jobs of one size each; `quota` and `bytes` in bytes."""

    def __init__(self) -> None:
        self.quota = 0
        self.slot_bytes = 1
        self._heap: list[tuple[int, int, Job]] = []
        self._came = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def bytes(self) -> int:
        return len(self._heap) * self.slot_bytes

    @property
    def room(self) -> int:
        """How many jobs more fit into the quota."""
        return max(0, self.quota // self.slot_bytes - len(self._heap))

    def add(self, job: Job) -> None:
        """Takes a job; `room` must have been seen."""
        self._came += 1
        heapq.heappush(self._heap, (-job.priority, self._came, job))

    def take(self, most: int) -> list[Job]:
        """The next jobs, which the caller copies or settles."""
        heap = self._heap
        return [heapq.heappop(heap)[2] for _ in range(min(most, len(heap)))]

    def expired(self, now_ns: int) -> list[Job]:
        """Takes the jobs whose time is over."""
        return self._remove([job for _, _, job in self._heap if job.deadline_ns <= now_ns])

    def of_ticket(self, ticket: object) -> list[Job]:
        """Takes the jobs of one ticket."""
        return self._remove([job for _, _, job in self._heap if job.ticket is ticket])

    def all(self) -> list[Job]:
        """Takes all."""
        return self._remove([job for _, _, job in self._heap])

    def _remove(self, going: list[Job]) -> list[Job]:
        gone = {id(job) for job in going}
        if gone:
            self._heap = [entry for entry in self._heap if id(entry[2]) not in gone]
            heapq.heapify(self._heap)
        return going
