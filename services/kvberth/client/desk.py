"""What the engine's threads and the client's own thread share, under one lock: the queue, the counts, the memory.

Nothing here waits for another process. The client's own thread waits on `bell`, which rings for it only while it dozes.
The counts are written into this client's page as they change, so that the
worker's books hold at any moment: a block is counted as admitted before anything becomes of it.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from kvberth.client.governor import Governor
from kvberth.client.mapping import Mapping
from kvberth.client.queue import StoreQueue
from kvberth.client.tickets import Job, Ticket
from kvberth.store.errors import StoreError
from kvberth.store.layout import pages
from kvberth.store.layout.rings import Outcome

Settled = Iterable[tuple[Job, Outcome]]
_OUTCOMES = tuple(Outcome)


class Desk:
    """`changed` is the lock, and the word to whoever waits for a ticket, for a connection or for the last copy."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns, *, governed: bool = True) -> None:
        self.changed = threading.Condition()
        self.queue = StoreQueue()
        self.governor = Governor(on=governed)
        self.admitted = 0
        self.outcomes: Counter[Outcome] = Counter()
        self.loading = 0
        self.serial = 0
        """Grows with each memory that is mapped: what was found in an earlier one is void."""
        self.closing = False
        self.bell = -1
        """Readable when something came for the client's thread while it dozed; there is one while the thread lives."""
        self._dozes = False
        self._clock = clock
        self._mapping: Mapping | None = None
        self._leaving: Mapping | None = None
        self._ready = False
        self._open = False
        self._users = 0

    # --- for engines --------------------------------------------------------------------------------------------------

    def offer(self, keys: Sequence[bytes], blocks: Sequence[int], priority: int, within_ns: int) -> Ticket:
        """Takes blocks in, or refuses each with its reason; never waits for a worker."""
        deadline_ns = self._clock() + within_ns
        ticket = Ticket(len(keys), self.changed, self.cancel)
        with self.changed:
            self.admitted += len(keys)
            self._write(pages.ADMITTED, self.admitted)
            why = self.refusal()
            if why is None and self.governor.sheds(len(keys)):
                why = Outcome.BREAK_EVEN
            fitting = min(len(keys), self.queue.room if why is None else 0)
            for at in range(fitting):
                self.queue.add(Job(ticket, at, keys[at], blocks[at], priority, deadline_ns))
            if fitting < len(keys):
                why = why or Outcome.QUEUE_FULL
                ticket.refuse_from(fitting, why)
                self._count(why, len(keys) - fitting)
            if fitting:
                self._write(pages.QUEUED, self.queue.bytes)
                self._ring()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        with self.changed:
            self.finish([(job, Outcome.CANCELLED) for job in self.queue.of_ticket(ticket)])
            self._write(pages.QUEUED, self.queue.bytes)

    def hang_bell(self) -> None:
        """Before the client's thread begins."""
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def take_bell(self) -> None:
        """After the client's thread has ended, and in a child that has none; twice is no error."""
        bell, self.bell = self.bell, -1
        if bell >= 0:
            os.close(bell)

    def close(self) -> None:
        """Has the client's thread end."""
        with self.changed:
            self.closing = True
            self._ring()
            self.changed.notify_all()

    @contextmanager
    def using(self) -> Iterator[tuple[Mapping | None, int]]:
        """The memory and its serial, for as long as the block runs; None: there is none."""
        with self.changed:
            mapping, serial = (self._mapping if self._ready else None), self.serial
            self._users += mapping is not None
        used = mapping is not None
        try:
            yield mapping, serial
        finally:
            del mapping
            if used:
                with self.changed:
                    self._users -= 1
                    if not self._users:
                        self.changed.notify_all()

    @contextmanager
    def load_running(self) -> Iterator[None]:
        """Stores wait for loads, between two of their batches."""
        with self.changed:
            self.loading += 1
        try:
            yield
        finally:
            with self.changed:
                self.loading -= 1
                if not self.loading:
                    self.changed.notify_all()

    def write_leased(self, mapping: Mapping) -> None:
        mapping.rings.page[pages.LEASED] = mapping.reader.leased_bytes

    # --- for the client's own thread ----------------------------------------------------------------------------------

    @property
    def mapping(self) -> Mapping | None:
        return self._mapping

    def attach(self, mapping: Mapping) -> None:
        """From now on lookups find blocks there; `open_for` lets blocks in."""
        with self.changed:
            self._mapping, self._ready = mapping, True
            self.serial += 1
            for outcome, count in self.outcomes.items():
                self._write(pages.OUTCOMES + outcome, count)
            self._write(pages.ADMITTED, self.admitted)

    def open_for(self, slot_bytes: int) -> None:
        """The client is registered: blocks are let in, as many as the quota says."""
        with self.changed:
            self.queue.slot_bytes, self._open = slot_bytes, True
            self._write(pages.QUEUED, self.queue.bytes)

    def detach(self) -> str | None:
        """No lookup or copy begins any more; waits for those that run, then unmaps. Drops all that waits.

        Returns why something stays mapped yet, or None.
        """
        with self.changed:
            self._ready = self._open = False
            self.queue.quota = 0
            self.finish([(job, Outcome.NO_CACHE) for job in self.queue.all()])
            self.changed.notify_all()
            while self._users:
                self.changed.wait(1.0)
            if self._mapping is not None:
                self._leaving, self._mapping = self._mapping, None
        return self.leave()

    def leave(self) -> str | None:
        """Unmaps what was detached and could not be unmapped yet; returns why it still can't be, or None."""
        try:
            if self._leaving is not None:
                self._leaving.close()
        except StoreError as error:
            return str(error)
        self._leaving = None
        return None

    def adopt_quota(self) -> None:
        """Obeys the worker's last word on what may wait and be leased, and says so."""
        mapping = self._mapping
        if mapping is None:
            return
        mirror, page = mapping.rings.mirror, mapping.rings.page
        number = mirror[pages.QUOTA]
        if number == page[pages.QUOTA_SEEN]:
            return
        amounts = mirror[pages.QUEUE_BYTES], mirror[pages.LEASE_BYTES]
        if number != mirror[pages.QUOTA]:
            return  # written anew at this moment: the next turn reads it
        with self.changed:
            self.queue.quota, mapping.reader.quota = amounts
            page[pages.QUOTA_SEEN] = number

    def begin_session(self) -> None:
        """Lets nothing more in until the next worker has said how much; what waits goes on waiting."""
        with self.changed:
            self.queue.quota, self._open = 0, False
        if self._mapping is not None:
            self._mapping.rings.begin()

    def doze(self) -> int:
        """From now on the bell rings when something comes; how many jobs wait already."""
        with self.changed:
            self._dozes = True
            return len(self.queue)

    def wake(self) -> None:
        """Ends a doze."""
        self._dozes = False
        with suppress(BlockingIOError):
            os.eventfd_read(self.bell)

    def take(self, most: int) -> list[Job]:
        """The next jobs that wait."""
        with self.changed:
            jobs = self.queue.take(most)
            if jobs:
                self._write(pages.QUEUED, self.queue.bytes)
        return jobs

    def drop_late(self, why: Outcome) -> None:
        """Drops what has waited too long."""
        with self.changed:
            late = self.queue.expired(self._clock()) if len(self.queue) else []
            if late:
                self.finish([(job, why) for job in late])
                self._write(pages.QUEUED, self.queue.bytes)

    def drop_all(self, why: Outcome) -> None:
        """Drops all that waits."""
        with self.changed:
            self.finish([(job, why) for job in self.queue.all()])
            self._write(pages.QUEUED, 0)

    def released(self, jobs: Sequence[Job], seconds: float) -> None:
        """Their blocks are copied, which took so long: the engine may overwrite them."""
        with self.changed:
            self.governor.stored(len(jobs), seconds)
            last = False
            for job in jobs:
                job.copied = True
                last |= job.ticket.release()
            if last:
                self.changed.notify_all()

    def settle(self, settled: Settled) -> None:
        """The last word on jobs that `take` gave."""
        with self.changed:
            self.finish(settled)

    def finish(self, settled: Settled) -> None:
        """The same, for who holds the lock. Whoever waits for a ticket hears of its last block, not of each."""
        last = False
        became: list[Outcome] = []
        for job, outcome in settled:
            ticket = job.ticket
            if not job.copied:
                last |= ticket.release()
            last |= ticket.settle(job.at, outcome)
            became.append(outcome)
        for outcome in _OUTCOMES if became else ():
            if count := became.count(outcome):
                self._count(outcome, count)
        if last:
            self.changed.notify_all()

    def refusal(self) -> Outcome | None:
        """Why nothing at all is taken in at this moment; for who holds the lock."""
        if not self._open or self._mapping is None or self._mapping.memory.ended:
            return Outcome.NO_CACHE
        return Outcome.BUDGET if self.queue.quota < self.queue.slot_bytes else None

    def may_lease(self) -> bool:
        """Whether the worker has said that this client may lease; for who holds the lock."""
        return self._ready and self._mapping is not None and self._mapping.reader.quota > 0

    def _count(self, outcome: Outcome, count: int) -> None:
        self.outcomes[outcome] += count
        self._write(pages.OUTCOMES + outcome, self.outcomes[outcome])

    def _ring(self) -> None:
        if self._dozes:
            self._dozes = False
            os.eventfd_write(self.bell, 1)

    def _write(self, word: int, value: int) -> None:
        if self._mapping is not None:
            self._mapping.rings.page[word] = value
