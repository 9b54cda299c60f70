"""The client's own thread: keeps the connection, copies what waits into granted slots, commits, and hears receipts.

It alone writes the commit ring and holds grants. A greeting means that no copy of it runs and no grant is held, which
is so because this one thread both copies and greets.
"""

import select
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kvberth.client.backends import Regions
from kvberth.client.desk import Desk
from kvberth.client.link import EpochOverError, Identity, Link, LinkError
from kvberth.client.mapping import Mapping
from kvberth.client.tickets import Job
from kvberth.store.control import MAX_GRANTS, Bye, Done, Wake
from kvberth.store.errors import Malformed, StoreError
from kvberth.store.layout import pages, slots
from kvberth.store.layout.rings import Commit, Grant, Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.store.memory import ASLEEP

GROUP_BYTES = 16 << 20
"""Blocks of so many bytes are copied and committed at once: the worker looks at them while the next ones are copied."""
_LEAST_BYTES = 8 << 20
"""The last blocks that wait are not cut into smaller groups than this."""
_MOST = 64
_UNTOLD_BYTES = 32 << 20
"""A worker that sleeps is woken for so many bytes of commits, and for what may be the last ones of a batch."""
_BUSY_S = 0.02
"""So long the thread sleeps at most while something is under way; a byte or the bell wakes it."""
_IDLE_S = 0.1
_RETRY_S = 1.0
_IDLE_NS = 5_000_000_000
_TEND_NS = 50_000_000
_YIELD_S = 0.01
"""So long a batch waits at most for loads that run."""
_KEPT = 2
"""Grants that an idle client keeps."""


class _Held(NamedTuple):
    grant: Grant
    use_until_ns: int
    """After this no copy begins: a quarter of the grant's time is left for it."""


class EngineHalf:
    """The thread; `start`, then `close`. `why` says why there is no cache, or None."""

    def __init__(self, who: Identity, regions: Regions, desk: Desk) -> None:
        self.why: str | None = "the client has just started"
        self._end = "the client is closed"
        """What is said once the thread has ended."""
        self._who = who
        self._regions = regions
        self._desk = desk
        self._link: Link | None = None
        self._held: deque[_Held] = deque()
        self._flying: dict[int, tuple[Job, Grant]] = {}
        self._untold = 0
        """Blocks that are committed since the worker was last seen awake, or woken."""
        self._busy_ns = self._tended_ns = 0
        self._thread = threading.Thread(target=self._run, name="kvberth client", daemon=True)

    def start(self) -> None:
        self._desk.hang_bell()
        self._thread.start()

    def give_up(self, why: str) -> None:
        """Ends the thread for good: there is no cache any more, and `why` says so."""
        self.why = self._end = why
        self._desk.close()

    def close(self, timeout_s: float) -> bool:
        """Ends the thread and unmaps; what waits is dropped. False: not yet, ask again."""
        self._desk.close()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self._desk.take_bell()
        return self._desk.leave() is None

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._desk.closing:
                self._step()
            if self._link is not None:
                self._desk.drop_all(Outcome.CANCELLED)
                self._link.say(Bye())
        except BaseException as error:  # noqa: BLE001 -- the engine goes on without a cache, and is told why
            # words only: the error's frames hold views of what `detach` unmaps
            self._end = f"the client's thread has failed: {type(error).__name__}: {error}"
        finally:
            self._lose(self._end)
            self._settle_flying(Outcome.NO_CACHE)
            self.why = self._desk.detach() or self.why

    def _step(self) -> None:
        stays = self._desk.leave()
        if stays is not None:
            self.why = stays
            with self._desk.changed:
                self._desk.changed.wait_for(lambda: self._desk.closing, _IDLE_S)
            return
        mapping = self._desk.mapping
        if mapping is not None and mapping.memory.ended:
            del mapping
            self._leave("the cache's daemon has ended")
            return
        if self._link is None:
            self._connect()
            return
        worked = self._turn(self._link)
        if not worked and self._link is not None:
            self._wait(self._link)

    def _wait(self, link: Link) -> None:
        """Sleeps until an engine offers something, the worker says something, or some time has passed."""
        if not self._flying and (link.mapping.warm() or self._regions.prepare()):
            return
        waiting = self._desk.doze()
        rings = link.mapping.rings
        if not (waiting and self._held and rings.room()) and not self._desk.closing:
            hears = pages.HEARS_RECEIPTS * bool(self._flying) | pages.HEARS_GRANTS * bool(waiting and not self._held)
            rings.page[pages.SLEEPS] = hears
            link.mapping.fence()  # between this word and the look at the rings' tails; the worker has one between its
            if not rings.told(hears):
                self._poll(link, _BUSY_S if hears else _IDLE_S)
            rings.page[pages.SLEEPS] = 0
        self._desk.wake()

    def _poll(self, link: Link, timeout_s: float) -> None:
        poll = select.poll()
        poll.register(link, select.POLLIN)
        poll.register(self._desk.bell, select.POLLIN)
        if any(fd == link.fileno() for fd, _ in poll.poll(timeout_s * 1e3)):
            self._tended_ns = 0  # reads what has come

    def _connect(self) -> None:
        """Greets the worker, after all that an earlier session left is settled or can be settled by the headers."""
        self._hear_receipts()
        self._held.clear()
        self._untold = 0
        self._desk.begin_session()
        try:
            self._link = Link.open(self._who, self._desk.mapping, self._take)
        except EpochOverError as error:
            why = str(error)  # the error's frames hold views of what is to be unmapped
        except (LinkError, StoreError) as error:
            self.why = str(error)
            with self._desk.changed:
                self._desk.changed.wait_for(lambda: self._desk.closing, getattr(error, "retry_s", _RETRY_S))
            self._desk.drop_late(Outcome.NO_CACHE)
            return
        else:
            self.why = None
            self._busy_ns = time.monotonic_ns()
            self._desk.open_for(self._link.layout.slot_bytes)
            return
        self._leave(why)

    def _take(self, mapping: Mapping) -> None:
        """The worker is there, whether it registers this client or not."""
        if mapping is not self._desk.mapping:
            mapping.rings.begin()
            self._regions.adopt(mapping)
            self._desk.attach(mapping)
        self._settle_by_headers()

    def _leave(self, why: str) -> None:
        """The epoch is over: whatever was not answered is no cache, and nothing of it stays mapped."""
        self._lose(why)
        self._settle_flying(Outcome.NO_CACHE)
        self.why = self._desk.detach() or self.why

    def _turn(self, link: Link) -> bool:
        """Hears, copies one batch, commits it. Returns whether there was anything."""
        now = time.monotonic_ns()
        if now - self._tended_ns >= _TEND_NS:
            self._tended_ns = now
            self._tend(link, now)
            if self._link is None:
                return True
        self._desk.adopt_quota()
        heard = self._hear_receipts()
        if self._link is None:
            return True  # what can't be read is the end of this session: nobody hears of what would be committed
        try:
            grants = link.mapping.rings.grants()
            if grants:  # the first one's time is the first to end
                deadline = link.mapping.memory.word(grants[0].slot, slots.DEADLINE)
                until = deadline - (deadline - now) // 4
                self._held.extend([_Held(grant, until) for grant in grants])
        except Malformed as error:
            self._lose(str(error))
            return True
        return self._store(link, now) or heard

    def _tend(self, link: Link, now: int) -> None:
        lost = link.lost()
        if lost is not None:
            self._lose(lost)
            return
        full = link.mapping.rings.mirror[pages.FULL]
        self._desk.drop_late(Outcome.STORE_FULL if full else Outcome.EXPIRED)
        idle = now - self._busy_ns > _IDLE_NS
        old = [held for held in self._held if held.use_until_ns <= now]
        more = list(self._held)[_KEPT:] if idle else []
        back = dict.fromkeys(held.grant.grant for held in [*old, *more][:MAX_GRANTS])
        if back:
            self._held = deque(held for held in self._held if held.grant.grant not in back)
            link.say(Done(tuple(back)))

    def _store(self, link: Link, now: int) -> bool:
        """Copies and commits one group."""
        group = self._group(link, now)
        if not group:
            self._tell(link)
            return False
        self._let_loads_pass()
        mapping, length = link.mapping, self._regions.block_bytes
        jobs = [job for job, _ in group]
        self._flying.update((grant.grant, (job, grant)) for job, grant in group)
        self._regions.wait_marked()
        places = [mapping.place_of(grant.slot, link.layout.slot_bytes) for _, grant in group]
        if mapping.memory.ended:
            return True  # the next step settles what flies
        begin = time.perf_counter()
        self._regions.store([job.block for job in jobs], mapping.arenas, places)
        took = time.perf_counter() - begin
        mapping.rings.commit(
            [Commit(job.key, grant.grant, grant.generation, grant.slot, length) for job, grant in group]
        )
        self._untold += len(group)
        if self._untold >= min(len(self._desk.queue), len(self._held), _UNTOLD_BYTES // link.layout.slot_bytes):
            self._tell(link)
        self._desk.released(jobs, took)
        self._busy_ns = now
        return True

    def _tell(self, link: Link) -> None:
        """Wakes the worker for what is committed, where it sleeps. Done seldom: a wake-up costs both sides."""
        if self._untold:
            self._untold = 0
            link.mapping.fence()
            if link.mapping.memory.worker_words[ASLEEP]:
                link.say(Wake())

    def _group(self, link: Link, now: int) -> list[tuple[Job, Grant]]:
        """Jobs with a slot for each; blocks that are there already need none."""
        held = self._held
        if held and held[0].use_until_ns <= now:
            self._tended_ns = 0  # gives it back
            return []
        size = self._group_size(link.layout.slot_bytes)
        jobs = self._desk.take(min(size, link.mapping.rings.room(), len(held)))
        reader, part, layout = link.mapping.reader, self._who.part, link.layout.layout
        present: Callable[[bytes], bool]
        present = reader.present if part.shards == 1 else partial(reader.present_shard, part=part, layout=layout)
        group: list[tuple[Job, Grant]] = []
        over: list[tuple[Job, Outcome]] = []
        for job in jobs:
            if job.deadline_ns <= now:
                over.append((job, Outcome.EXPIRED))
            elif present(job.key):
                over.append((job, Outcome.PRESENT))
            else:
                group.append((job, held.popleft().grant))
        if over:
            self._desk.settle(over)
        return group

    def _group_size(self, slot_bytes: int) -> int:
        """Half of what waits: so the last groups are small, and little is left to do after the last copy."""
        most = max(1, min(_MOST, GROUP_BYTES // slot_bytes))
        return max(1, min(most, max(_LEAST_BYTES // slot_bytes, len(self._desk.queue) // 2)))

    def _let_loads_pass(self) -> None:
        with self._desk.changed:
            if self._desk.loading:
                self._desk.changed.wait_for(lambda: not self._desk.loading, _YIELD_S)

    def _hear_receipts(self) -> bool:
        mapping = self._desk.mapping
        if mapping is None or not self._flying:
            return False
        settled = []
        try:
            for receipt in mapping.rings.receipts():
                job, _ = self._flying.pop(receipt.grant)
                settled.append((job, receipt.outcome))
        except (Malformed, KeyError) as error:
            self._lose(f"the worker's receipts can't be read: {error}")
        if settled:
            self._desk.settle(settled)
        return bool(settled)

    def _settle_by_headers(self) -> None:
        """After a new worker has repaired all headers they say what became of commits that were never answered."""
        mapping = self._desk.mapping
        if mapping is None:
            return
        memory = mapping.memory
        settled = []
        for job, grant in self._flying.values():
            stored = (
                memory.word(grant.slot, slots.STATE) == SlotState.PUBLISHED
                and memory.word(grant.slot, slots.GENERATION) == grant.generation
            )
            settled.append((job, Outcome.STORED if stored else Outcome.DEGRADED))
        self._flying.clear()
        self._desk.settle(settled)

    def _settle_flying(self, outcome: Outcome) -> None:
        flying, self._flying = self._flying, {}
        self._desk.settle([(job, outcome) for job, _ in flying.values()])

    def _lose(self, why: str) -> None:
        """Nobody listens any more; what is mapped stays so, and hits are still read."""
        self.why = why
        self._held.clear()
        if self._link is not None:
            self._link.close()
            self._link = None
