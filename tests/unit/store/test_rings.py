"""The rings between a client and the worker: what one writes the other reads, and nonsense is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth.store.errors import Malformed
from kvberth.store.layout import pages
from kvberth.store.layout.rings import RECORDS, Commit, Grant, Outcome, Receipt
from kvberth.store.rings import ClientRings, WorkerRings
from support.store_memory import SMALL, key_of, small_memory


def commit_of(number: int) -> Commit:
    return Commit(key_of(number), number, 2 * number + 1, number % SMALL.slots, 4000)


def both(client: int = 0) -> tuple[ClientRings, WorkerRings]:
    memory = small_memory()
    return ClientRings(memory, client), WorkerRings(memory, client)


def test_what_one_side_says_the_other_hears_once_and_in_order_for_many_rounds_of_the_ring() -> None:
    client, worker = both()
    for start in range(0, 3 * RECORDS, 300):
        numbers = range(start, start + 300)
        worker.grant([Grant(number, 1, 3) for number in numbers])
        assert [grant.grant for grant in client.grants()] == list(numbers)
        client.commit([commit_of(number) for number in numbers])
        assert worker.commits() == [commit_of(number) for number in numbers]
        worker.receipt([Receipt(number, Outcome.STORED, 5) for number in numbers])
        assert [receipt.grant for receipt in client.receipts()] == list(numbers)
        assert client.room() == RECORDS


def test_the_worker_takes_no_more_commits_than_it_can_answer() -> None:
    client, worker = both()
    client.commit([commit_of(number) for number in range(RECORDS)])
    assert client.room() == 0
    assert len(worker.commits()) == RECORDS
    assert worker.commits() == []
    worker.receipt([Receipt(number, Outcome.STORED, 5) for number in range(RECORDS)])
    assert sum(1 for _ in client.receipts()) == RECORDS
    assert client.room() == RECORDS


def test_a_commit_whose_receipt_would_find_no_place_is_refused() -> None:
    client, worker = both()
    client.commit([commit_of(number) for number in range(RECORDS)])
    worker.commits()
    worker.receipt([Receipt(number, Outcome.STORED, 5) for number in range(RECORDS)])
    client.commit([commit_of(RECORDS)])
    for look in (worker.waiting, worker.commits):
        with pytest.raises(Malformed, match="announced"):
            look()


@given(st.lists(st.tuples(st.sampled_from(["commit", "take", "answer", "read"]), st.integers(1, 700)), max_size=40))
def test_a_client_that_looks_for_room_is_never_refused_and_waits_for_no_place(steps: list[tuple[str, int]]) -> None:
    client, worker = both()
    taken: list[Commit] = []
    for step, most in steps:
        match step:
            case "commit":
                client.commit([commit_of(number) for number in range(min(most, client.room()))])
            case "take":
                waited = worker.waiting()
                found = worker.commits(most)
                assert len(found) == min(waited, most)
                taken += found
            case "answer":
                worker.receipt([Receipt(1, Outcome.STORED, 5) for _ in taken[:most]])
                del taken[:most]
            case _:
                client.receipts()


def test_a_new_session_begins_at_nothing() -> None:
    memory = small_memory()
    client, worker = ClientRings(memory, 0), WorkerRings(memory, 0)
    worker.grant([Grant(1, 1, 1)])
    client.commit([commit_of(1)])
    client.begin()
    again = WorkerRings(memory, 0)
    again.begin(2)
    assert client.grants() == []
    assert again.waiting() == 0


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**64 - 1), max_size=8))
def test_whatever_a_client_writes_the_worker_reads_a_bounded_number_or_refuses(
    tail: int, head: int, words: list[int]
) -> None:
    client, worker = both()
    client.page[pages.COMMIT_TAIL] = tail
    client.page[pages.RECEIPT_HEAD] = head
    ring = client._commits._data.cast("Q")
    for at, word in enumerate(words):
        ring[at] = word
    try:
        found = worker.commits()
    except Malformed:
        return
    assert len(found) <= RECORDS


def test_a_tail_behind_the_head_or_too_far_ahead_is_refused() -> None:
    client, worker = both()
    client.page[pages.COMMIT_TAIL] = RECORDS + 1
    with pytest.raises(Malformed, match="announced"):
        worker.commits()
    client.page[pages.COMMIT_TAIL] = 0
    client.page[pages.RECEIPT_HEAD] = 1
    with pytest.raises(Malformed, match="called read"):
        worker.commits()
