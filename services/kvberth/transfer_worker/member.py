"""One registered client, as the worker knows it: its rings, what it was granted, what its words say.

Every word of the client is checked before it is used; Malformed means that the client is cut off.
"""

from dataclasses import dataclass, field

from kvberth.store.control import Register
from kvberth.store.errors import Malformed
from kvberth.store.layout import pages
from kvberth.store.layout.rings import Outcome
from kvberth.store.memory import StoreMemory
from kvberth.store.rings import WorkerRings
from kvberth.store.shards import WHOLE, Part
from kvberth.transfer_worker.admission import Quota, Use

_MOST = 1 << 48
"""No client offers so many blocks in its life: whoever says so writes nonsense."""


@dataclass(slots=True)
class Member:
    """`held`: its grants that are not settled, by number: (slot, generation). `connected`: somebody listens."""

    client: bytes
    place: int
    rings: WorkerRings
    layout: int = 0
    slot_bytes: int = 0
    session: int = 0
    connected: bool = True
    registered: bool = False
    """Its grants come; until then it may only read."""
    busy_ns: int = 0
    """When it committed last."""
    before: dict[Outcome, int] = field(default_factory=dict)
    """What had become of its blocks when it registered here first: in an earlier life of the worker, or elsewhere."""
    held: dict[int, tuple[int, int]] = field(default_factory=dict)
    asked: Register | None = None
    """What it said of its blocks last, whether it was let in or not."""
    part: Part = WHOLE
    """Which shard its blocks are."""
    waiting: int = 0
    """Its slots that are committed and wait for other shards of their blocks."""

    @property
    def held_bytes(self) -> int:
        return (len(self.held) + self.waiting) * self.slot_bytes

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait by its word, as far as it was ever told that they may."""
        return min(int(self.rings.page[pages.QUEUED]), int(self.rings.mirror[pages.MOST_QUEUED]))

    def use(self, quota: Quota, budget: int) -> Use:
        """What it uses, by its words; raises Malformed where they cannot be.

        More than the budget may wait where an earlier worker had a larger one: it goes with its time.
        """
        queued, obeyed = int(self.rings.page[pages.QUEUED]), int(self.rings.page[pages.QUOTA_SEEN])
        most = int(self.rings.mirror[pages.MOST_QUEUED])
        if queued > most or obeyed > quota.number:
            raise Malformed(
                f"it says that {queued} bytes wait under quota {obeyed}; it was never told more than {most} bytes and"
                f" quota {quota.number}"
            )
        return Use(obeyed, min(queued, budget), self.held_bytes)

    def may_wait(self, budget: int) -> int:
        """Bytes that it lets wait, or may by the quota that it was told last, while it is not registered."""
        return min(budget, max(self.queued_bytes, int(self.rings.mirror[pages.QUEUE_BYTES])))

    def tell(self, quota: Quota) -> None:
        """Writes its quota, the number last."""
        mirror = self.rings.mirror
        mirror[pages.MOST_QUEUED] = max(quota.queued, mirror[pages.MOST_QUEUED])
        mirror[pages.QUEUE_BYTES], mirror[pages.GRANT_BYTES] = quota.queued, quota.granted
        mirror[pages.LEASE_BYTES] = quota.leased
        mirror[pages.QUOTA] = quota.number

    def counts(self) -> tuple[int, dict[Outcome, int]]:
        """Blocks that it says it ever offered, and what became of them; nothing where both cannot be so."""
        words = self.rings.page
        outcomes = {outcome: int(words[pages.OUTCOMES + outcome]) for outcome in Outcome}
        # Read after them: a block is counted as admitted before anything becomes of it.
        admitted = int(words[pages.ADMITTED])
        return (admitted, outcomes) if sum(outcomes.values()) <= admitted < _MOST else (0, {})


class Directory:
    """Who has which client page, written so that the next worker finds it."""

    def __init__(self, memory: StoreMemory) -> None:
        self._memory = memory
        self._records = [memory.directory_words(place) for place in range(memory.geometry.clients)]

    def known(self) -> dict[bytes, int]:
        """The places that are taken, by client."""
        return {
            bytes(words[pages.CLIENT_ID : pages.CLIENT_ID + 2]): place
            for place, words in enumerate(self._records)
            if words[pages.CLIENT_KNOWN]
        }

    def take(self, client: bytes) -> int | None:
        """Gives a client a page of zeros; None: all are taken."""
        for place, words in enumerate(self._records):
            if not words[pages.CLIENT_KNOWN]:
                self._zero(place)
                words[pages.CLIENT_ID : pages.CLIENT_ID + 2] = memoryview(client).cast("Q")
                words[pages.CLIENT_KNOWN] = 1
                return place
        return None

    def give_back(self, place: int) -> None:
        """Nobody has the page any more: leases end first, by their valid words."""
        self._records[place][pages.CLIENT_KNOWN] = 0
        self._zero(place)

    def _zero(self, place: int) -> None:
        leases = self._memory.lease_words(place)
        for word in range(1, len(leases), 2):
            leases[word] = 0
        for page in (self._memory.client_page(place), self._memory.mirror(place)):
            page[:] = bytes(len(page))
