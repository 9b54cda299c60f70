"""What is pinned is let go before it is unmapped, whatever the driver refuses."""

from kvberth.client import pinning
from kvberth.client.pinning import PIECE_BYTES, Pinning, whole_pages
from kvberth.store.errors import CopyFailed

MIB = 1 << 20


class Driver:
    """Remembers what it was asked for, in order; refuses these addresses."""

    def __init__(self, *refused: int) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.refused = refused

    def register(self, address: int, size: int) -> None:
        self.asked.append(("register", address, size))
        self._judge(address)

    def unregister(self, address: int) -> None:
        self.asked.append(("unregister", address))
        self._judge(-address)

    def _judge(self, address: int) -> None:
        if address in self.refused:
            raise CopyFailed("not enough memory may be locked")


def pinned(driver: Driver) -> Pinning:
    made = Pinning(driver.register, driver.unregister)
    made.begin([(0, 2 * PIECE_BYTES + MIB)])
    while made.step():
        pass
    return made


def test_memory_is_pinned_piece_by_piece_and_let_go_in_the_opposite_order() -> None:
    driver = Driver()
    pinned(driver).end()
    starts = (0, PIECE_BYTES, 2 * PIECE_BYTES)
    assert driver.asked[:3] == [("register", at, min(PIECE_BYTES, 2 * PIECE_BYTES + MIB - at)) for at in starts]
    assert driver.asked[3:] == [("unregister", at) for at in reversed(starts)]


def test_pieces_end_at_multiples_of_their_size_wherever_an_arena_begins() -> None:
    driver = Driver()
    made = Pinning(driver.register, driver.unregister)
    made.begin([(PIECE_BYTES - MIB + 64, PIECE_BYTES)])
    while made.step():
        pass
    first, size = PIECE_BYTES - MIB, PIECE_BYTES - MIB + pinning.PAGE
    assert driver.asked == [("register", first, MIB), ("register", PIECE_BYTES, size)]


def test_where_the_driver_refuses_the_rest_stays_unpinned_and_it_is_said() -> None:
    driver = Driver(PIECE_BYTES)
    made = pinned(driver)
    assert made.complaint == "65 MiB stay unpinned: not enough memory may be locked"
    assert [what for what, *_ in driver.asked] == ["register", "register"]
    made.end()
    assert driver.asked[2:] == [("unregister", 0)], "what was not pinned is not let go"


def test_what_cant_be_let_go_keeps_nothing_else_pinned() -> None:
    driver = Driver(-PIECE_BYTES)
    made = pinned(driver)
    made.end()
    assert len([asked for asked in driver.asked if asked[0] == "unregister"]) == 3
    made.end()
    assert len(driver.asked) == 6, "twice is no error"


def test_the_next_mapping_begins_anew() -> None:
    driver = Driver(PIECE_BYTES)
    made = pinned(driver)
    made.end()
    made.begin([(MIB, MIB)])
    assert made.complaint is None
    assert [made.step(), made.step()] == [True, False]
    assert driver.asked[-1] == ("register", MIB, MIB)


def test_what_was_not_pinned_yet_never_is_once_it_has_ended() -> None:
    driver = Driver()
    made = Pinning(driver.register, driver.unregister)
    made.begin([(0, MIB)])
    made.end()
    assert (made.step(), driver.asked) == (False, [])


def test_pages_that_two_ranges_share_are_pinned_once() -> None:
    page = pinning.PAGE
    assert whole_pages([(64, 100)]) == [(0, page)]
    assert whole_pages([(page + 1, page), (0, page // 2)]) == [(0, 3 * page)]
    assert whole_pages([(0, 10 * page), (page, page), (20 * page, 1)]) == [(0, 10 * page), (20 * page, page)]
    assert whole_pages([]) == []
