"""The scrubber spends its rate and no more, whatever a block costs and however long it was away."""

from kvberth.store.blockstore import Scrubbed
from kvberth.transfer_worker.scrubber import Scrubber

SECOND = 1_000_000_000


class Slots:
    """A store of which every second slot holds a block of 100 bytes."""

    def __init__(self) -> None:
        self.looked = 0

    def scrub(self, count: int) -> Scrubbed:
        assert count == 1
        self.looked += 1
        return Scrubbed(1, 0, more=True, bytes=100) if self.looked % 2 else Scrubbed(0, 0, more=True)


def test_it_reads_at_its_rate_and_owes_what_a_block_cost_more() -> None:
    scrubber = Scrubber(Slots().scrub, 1000, 0)
    for tick in range(1, 201):
        scrubber.tend(tick * SECOND // 20)
    assert 10_000 <= scrubber.bytes <= 10_100


def test_what_was_missed_in_a_long_pause_is_not_made_up_for() -> None:
    scrubber = Scrubber(Slots().scrub, 1000, 0)
    scrubber.tend(3600 * SECOND)
    assert 1000 <= scrubber.bytes <= 1100


def test_it_looks_at_few_slots_at_a_time_and_at_none_without_a_rate() -> None:
    empty, none = Slots(), Slots()
    Scrubber(lambda _: empty.scrub(1) and Scrubbed(0, 0, more=True), 1000, 0).tend(SECOND)
    Scrubber(none.scrub, 0, 0).tend(SECOND)
    assert (empty.looked, none.looked) == (64, 0)
