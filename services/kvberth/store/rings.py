"""The rings between one client and the worker, as each side holds them: commits one way, grants and receipts the other.

Each side writes its own words only. A record is written body first, its last word last, then the ring's tail; a reader
takes the tail, the body, then moves its head. Positions count up for ever; a new session begins at 0. The worker takes
every word of a client for hostile: Malformed means that this client is cut off, and nobody else is touched.
"""

from collections.abc import Iterator

from kvberth.store.errors import Malformed
from kvberth.store.fences import Fence, FenceKind, store_fence
from kvberth.store.layout import pages, rings
from kvberth.store.layout.geometry import PAGE
from kvberth.store.layout.rings import RECORDS, Commit, Grant, Receipt
from kvberth.store.memory import StoreMemory


class _Ring:
    """The records of one ring in the page that holds it."""

    def __init__(self, page: memoryview, at: int, record_bytes: int, fence: Fence) -> None:
        self._data = page[at : at + RECORDS * record_bytes]
        self._words = self._data.cast("Q")
        self._bytes = record_bytes
        self._fence = fence

    def put(self, position: int, record: bytes) -> None:
        at = position % RECORDS * self._bytes
        valid = (at + self._bytes) // 8 - 1
        self._words[valid] = 0
        self._data[at : at + self._bytes - 8] = record[:-8]
        self._fence()
        self._words[valid] = position + 1
        self._fence()

    def get(self, position: int) -> memoryview:
        at = position % RECORDS * self._bytes
        return self._data[at : at + self._bytes]


class _Rings:
    def __init__(self, memory: StoreMemory, client: int) -> None:
        page, mirror = memory.client_page(client), memory.mirror(client)
        fence = store_fence(FenceKind(memory.superblock.fence))
        self.page = page[:PAGE].cast("Q")
        self.mirror = mirror[:PAGE].cast("Q")
        self._commits = _Ring(page, rings.COMMIT_RING_AT, rings.COMMIT_BYTES, fence)
        self._grants = _Ring(mirror, rings.GRANT_RING_AT, rings.GRANT_BYTES, fence)
        self._receipts = _Ring(mirror, rings.RECEIPT_RING_AT, rings.RECEIPT_BYTES, fence)


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

    def commit(self, commit: Commit) -> None:
        """Says that a grant's bytes are in their slot; `room` must have been seen."""
        position = self.page[pages.COMMIT_TAIL]
        self._commits.put(position, rings.encode_commit(position, commit))
        self.page[pages.COMMIT_TAIL] = position + 1

    def grants(self) -> Iterator[Grant]:
        """What was granted since the last call. Raises Malformed."""
        for position in range(self._grant_head, self.mirror[pages.GRANT_TAIL]):
            self._grant_head = position + 1
            yield rings.decode_grant(self._grants.get(position), position)

    def receipts(self) -> Iterator[Receipt]:
        """The words on commits since the last call. Raises Malformed."""
        for position in range(self.page[pages.RECEIPT_HEAD], self.mirror[pages.RECEIPT_TAIL]):
            receipt = rings.decode_receipt(self._receipts.get(position), position)
            self.page[pages.RECEIPT_HEAD] = position + 1
            yield receipt


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
        if not self._commit_head <= tail <= self._commit_head + RECORDS:
            raise Malformed(f"commits up to {tail} are announced after {self._commit_head}, the ring holds {RECORDS}")
        return int(tail - self._commit_head)

    def commits(self) -> Iterator[Commit]:
        """The commits that wait, as many as there is room for receipts. Raises Malformed."""
        head = self.page[pages.RECEIPT_HEAD]
        if not self._receipt_head <= head <= self._receipt_tail:
            raise Malformed(f"receipts up to {head} are called read, {self._receipt_tail} were given")
        self._receipt_head = head
        unanswered = self._commit_head - self._receipt_tail
        room = RECORDS - (self._receipt_tail - head) - unanswered
        for position in range(self._commit_head, self._commit_head + min(self.waiting(), room)):
            commit = rings.decode_commit(self._commits.get(position), position, self._slots)
            self._commit_head = position + 1
            self.mirror[pages.COMMIT_HEAD] = position + 1
            yield commit

    def grant(self, grant: Grant) -> None:
        """Tells of a grant; the worker keeps fewer than the ring holds."""
        self._grants.put(self._grant_tail, rings.encode_grant(self._grant_tail, grant))
        self._grant_tail += 1
        self.mirror[pages.GRANT_TAIL] = self._grant_tail

    def receipt(self, receipt: Receipt) -> None:
        """Tells what became of a commit; `commits` has left room for it."""
        self._receipts.put(self._receipt_tail, rings.encode_receipt(self._receipt_tail, receipt))
        self._receipt_tail += 1
        self.mirror[pages.RECEIPT_TAIL] = self._receipt_tail
