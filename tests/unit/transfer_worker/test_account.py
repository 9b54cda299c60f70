"""What the bus is told of blocks: each count once, however often nothing could be said."""

from collections import Counter

from kvberth.store.books import Amount, Books
from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.transfer_worker.account import BLOCKS_EVERY_S, Account, Whose
from kvberth.transfer_worker.moment import Counted, Snapshot

WHOSE = Whose("default", "kv", "a")


def moment(queued: int = 0, **engines: dict[Outcome, int]) -> Snapshot:
    return Snapshot(queued=queued, engines={name: Counted(became, {}, 100) for name, became in engines.items()})


def test_what_became_of_blocks_is_told_once() -> None:
    account = Account(WHOSE, 0.0)
    account.look(moment(e={}), 1.0)
    assert account.transfer() is None
    account.look(moment(e={Outcome.STORED: 3, Outcome.EXPIRED: 1}), 2.0)
    told = account.transfer()
    assert told is not None
    assert (told.engine, told.stored, told.present, told.dropped) == ("e", 3, 0, {"expired": 1})
    assert (told.bytes, told.seconds) == (300, 2.0)
    assert account.transfer() is None


def test_what_could_not_be_told_is_in_the_next_word() -> None:
    account, told = Account(WHOSE, 0.0), Counter[str]()
    for second in range(1, 10):
        account.look(moment(e={Outcome.STORED: 2 * second}), float(second))
        if second % 4 == 0 and (word := account.transfer()) is not None:
            told["stored"] += word.stored
    account.look(moment(e={Outcome.STORED: 18}), 10.0)
    word = account.transfer()
    assert word is not None
    assert told["stored"] + word.stored == 18


def test_engines_take_turns_and_one_that_is_gone_is_told_of_too() -> None:
    account = Account(WHOSE, 0.0)
    account.look(moment(a={Outcome.STORED: 1}, b={Outcome.CANCELLED: 2}), 1.0)
    words = [account.transfer(), account.transfer(), account.transfer()]
    assert {word.engine: (word.stored, word.dropped) for word in words if word} == {
        "a": (1, {}),
        "b": (0, {"cancelled": 2}),
    }
    assert words[2] is None


def test_what_an_earlier_life_of_the_worker_told_is_not_told_again() -> None:
    account = Account(WHOSE, 0.0)
    account.look(Snapshot(engines={"e": Counted({Outcome.STORED: 9}, {Outcome.STORED: 7}, 100)}), 1.0)
    word = account.transfer()
    assert word is not None
    assert word.stored == 2


def test_an_engine_that_comes_back_in_another_epoch_is_known() -> None:
    account = Account(WHOSE, 0.0)
    account.look(moment(e={Outcome.STORED: 5}), 1.0)
    assert account.transfer() is not None
    account.look(Snapshot(complaint="no daemon"), 2.0)
    assert account.transfer() is None
    account.look(moment(e={Outcome.STORED: 6}), 3.0)
    word = account.transfer()
    assert word is not None
    assert word.stored == 1


def test_how_long_a_block_waited_follows_from_what_waited() -> None:
    account = Account(WHOSE, 0.0)
    account.look(moment(queued=200, e={}), 1.0)
    account.look(moment(queued=200, e={Outcome.STORED: 4}), 2.0)
    word = account.transfer()
    assert word is not None
    assert word.queue_s == 400 / 400


def test_what_is_there_is_told_when_it_changes_and_seldom_and_a_complaint_at_once() -> None:
    books = Books({state: Amount() for state in SlotState} | {SlotState.PUBLISHED: Amount(2, 200)}, 0, 0)
    account = Account(WHOSE, 0.0)
    account.look(Snapshot(books=books, data_bytes=1000), 1.0)
    first = account.blocks()
    assert first is not None
    assert (first.blocks, first.bytes, first.capacity_bytes, first.complaint) == (2, 200, 1000, "")
    account.look(Snapshot(books=books, data_bytes=1000, clients=1), 2.0)
    assert account.blocks() is None
    account.look(Snapshot(complaint="Waiting for 1 client.", waiting_for=("e.c",)), 3.0)
    second = account.blocks()
    assert second is not None
    assert (second.blocks, second.complaint, second.waiting_for) == (0, "Waiting for 1 client.", ("e.c",))
    account.look(Snapshot(complaint="Waiting for 1 client.", waiting_for=("e.c",)), 3.0 + 2 * BLOCKS_EVERY_S)
    assert account.blocks() is None


def test_engines_that_are_long_gone_are_forgotten_though_there_is_always_news() -> None:
    account = Account(WHOSE, 0.0)
    for second in range(1000):
        account.look(moment(busy={Outcome.STORED: second + 1}, **{f"e{second}": {Outcome.STORED: 1}}), float(second))
        assert account.transfer() is not None
    assert len(account._told) < 300
