"""The rings between one client and the worker, as each side holds them: commits one way, grants and receipts the other.

Each side writes its own words only. Records are written first, then the ring's tail, by one word for all of them; a
reader takes the tail, the records up to it, then moves its head. So a turn with a hundred records costs one look at the
tail and one write. Positions count up for ever; a new session begins at 0. The worker takes every word of a client for
hostile: Malformed means that this client is cut off, and nobody else is touched.
"""

from collections.abc import Sequence
from itertools import count

from kvberth.store.errors import Malformed
from kvberth.store.fences import FenceKind, store_fence
from kvberth.store.layout import pages, rings
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.rings import RECORDS, Commit, Grant, Receipt
from kvberth.store.memory import StoreMemory


class _Ring:
    """The records of one ring in the page that holds it."""

    def __init__(self, page: memoryview, at: int, record_bytes: int) -> None:
        self._data = page[at : at + RECORDS * record_bytes]
        self._bytes = record_bytes

    def put(self, position: int, records: list[bytes]) -> None:
        """Writes records, RECORDS at most, one behind the other."""
        at, whole = position % RECORDS * self._bytes, b"".join(records)
        fits = len(self._data) - at
        self._data[at : at + len(whole)] = whole[:fits]
        if len(whole) > fits:
            self._data[: len(whole) - fits] = whole[fits:]

    def get(self, position: int, most: int) -> bytes:
        """So many records, RECORDS at most, as they stand there: copied once, so that nobody changes them later."""
        at = position % RECORDS
        end = min(at + most, RECORDS)
        found = bytes(self._data[at * self._bytes : end * self._bytes])
        rest = most - (end - at)
        return found + bytes(self._data[: rest * self._bytes]) if rest else found


class _Rings:
    def __init__(self, memory: StoreMemory, client: int) -> None:
        page, mirror = memory.client_page(client), memory.mirror(client)
        self._fence = store_fence(FenceKind(memory.superblock.fence))
        self.page = page[:PAGE].cast("Q")
        self.mirror = mirror[:PAGE].cast("Q")
        self._commits = _Ring(page, rings.COMMIT_RING_AT, rings.COMMIT_BYTES)
        self._grants = _Ring(mirror, rings.GRANT_RING_AT, rings.GRANT_BYTES)
        self._receipts = _Ring(mirror, rings.RECEIPT_RING_AT, rings.RECEIPT_BYTES)


class ClientRings(_Rings):
    """The client's side. One thread uses it."""

    def __init__(self, memory: StoreMemory, client: int) -> None:
        super().__init__(memory, client)
        self._grant_head = 0

    def begin(self) -> None:
        """Forgets what was said in an earlier session; call it before the worker is greeted."""
        self._grant_head = 0
        self.page[pages.COMMIT_TAIL] = self.page[pages.RECEIPT_HEAD] = self.page[pages.QUOTA_SEEN] = 0

    def room(self) -> int:
        """How many commits would find a place, each of which will get a receipt."""
        waiting = self.page[pages.COMMIT_TAIL] - self.page[pages.RECEIPT_HEAD]
        return int(RECORDS - waiting)

    def commit(self, commits: Sequence[Commit]) -> None:
        """Says that the bytes of grants are in their slots; `room` must have been seen."""
        position = self.page[pages.COMMIT_TAIL]
        self._commits.put(position, list(map(rings.encode_commit, count(position), commits)))
        self._fence()
        self.page[pages.COMMIT_TAIL] = position + len(commits)

    def grants(self) -> list[Grant]:
        """What was granted since the last call. Raises Malformed."""
        first, tail = self._grant_head, self.mirror[pages.GRANT_TAIL]
        if first == tail:
            return []
        found = rings.decode_grants(self._grants.get(first, _told(tail, first)), first)
        self._grant_head = tail
        return found

    def receipts(self) -> list[Receipt]:
        """The words on commits since the last call. Raises Malformed."""
        first, tail = self.page[pages.RECEIPT_HEAD], self.mirror[pages.RECEIPT_TAIL]
        if first == tail:
            return []
        found = rings.decode_receipts(self._receipts.get(first, _told(tail, first)), first)
        self.page[pages.RECEIPT_HEAD] = tail
        return found

    def told(self, hears: int) -> bool:
        """Whether anything was said, of what `hears` names (pages.SLEEPS), since the last calls."""
        mirror = self.mirror
        answered = hears & pages.HEARS_RECEIPTS and mirror[pages.RECEIPT_TAIL] != self.page[pages.RECEIPT_HEAD]
        granted = hears & pages.HEARS_GRANTS and mirror[pages.GRANT_TAIL] != self._grant_head
        return bool(answered or granted)


class WorkerRings(_Rings):
    """The worker's side."""

    def __init__(self, memory: StoreMemory, client: int) -> None:
        super().__init__(memory, client)
        self._slots = memory.geometry.slots
        self._commit_head = self._grant_tail = self._receipt_tail = 0
        self._receipt_head = 0

    def begin(self, session: int) -> None:
        """Begins a session: nothing was granted or answered yet."""
        for word in (pages.COMMIT_HEAD, pages.GRANT_TAIL, pages.RECEIPT_TAIL, pages.FULL, pages.QUOTA):
            self.mirror[word] = 0
        self.mirror[pages.SESSION] = session

    def waiting(self) -> int:
        """How many commits wait; raises Malformed where a client's words say what cannot be."""
        tail = self.page[pages.COMMIT_TAIL]
        if not self._commit_head <= tail <= self._receipt_head + RECORDS and not self._has_room(tail):
            raise Malformed(
                f"commits up to {tail} are announced after {self._commit_head}, {self._receipt_head} receipts are read,"
                f" and each ring holds {RECORDS}"
            )
        return int(tail - self._commit_head)

    def _has_room(self, tail: int) -> bool:
        """Whether the client had room to hear of so many commits: else they would wait for a place for ever."""
        self._fence()  # the client read receipts before it committed
        read = min(self.page[pages.RECEIPT_HEAD], self._receipt_tail)
        return bool(self._commit_head <= tail <= read + RECORDS)

    def commits(self, most: int = RECORDS) -> list[Commit]:
        """The commits that wait, as many as there is room for receipts. Raises Malformed: then none of them counts."""
        first, waiting = self._commit_head, self.waiting()
        head = self.page[pages.RECEIPT_HEAD]
        if not self._receipt_head <= head <= self._receipt_tail:
            raise Malformed(f"receipts up to {head} are called read, {self._receipt_tail} were given")
        self._receipt_head = head
        unanswered = first - self._receipt_tail
        room = RECORDS - (self._receipt_tail - head) - unanswered
        taken = min(waiting, room, most)
        if taken <= 0:
            return []
        found = rings.decode_commits(self._commits.get(first, taken), first, self._slots)
        self.mirror[pages.COMMIT_HEAD] = self._commit_head = first + taken
        return found

    def grant(self, grants: Sequence[Grant]) -> None:
        """Tells of grants; the worker keeps fewer than the ring holds."""
        self._grants.put(self._grant_tail, list(map(rings.encode_grant, count(self._grant_tail), grants)))
        self._fence()
        self._grant_tail += len(grants)
        self.mirror[pages.GRANT_TAIL] = self._grant_tail

    def receipt(self, receipts: Sequence[Receipt]) -> None:
        """Tells what became of commits; `commits` has left room for it."""
        self._receipts.put(self._receipt_tail, list(map(rings.encode_receipt, count(self._receipt_tail), receipts)))
        self._fence()
        self._receipt_tail += len(receipts)
        self.mirror[pages.RECEIPT_TAIL] = self._receipt_tail


def _told(tail: int, first: int) -> int:
    if not first <= tail <= first + RECORDS:
        raise Malformed(f"records up to {tail} are announced after {first}, the ring holds {RECORDS}")
    return int(tail - first)
