"""What waits for a slot: within its quota, in its order, and not past its deadline."""

import threading

from kvberth.client.queue import StoreQueue
from kvberth.client.tickets import Job, Ticket
from kvberth.store.layout.rings import Outcome


def queue_of(quota: int) -> StoreQueue:
    queue = StoreQueue()
    queue.quota, queue.slot_bytes = quota, 10
    return queue


def ticket_of(blocks: int) -> Ticket:
    return Ticket(blocks, threading.Condition(), lambda _: None)


def job_of(at: int, *, priority: int = 0, deadline_ns: int = 100, ticket: Ticket | None = None) -> Job:
    return Job(ticket or ticket_of(1), at, bytes(32), at, priority, deadline_ns)


def test_jobs_are_taken_up_to_the_quota_and_no_further() -> None:
    queue = queue_of(35)
    assert queue.room == 3
    for at in range(3):
        queue.add(job_of(at))
    assert (len(queue), queue.bytes, queue.room) == (3, 30, 0)
    queue.take(1)
    assert queue.room == 1


def test_higher_priorities_go_first_and_equal_ones_in_their_order() -> None:
    queue = queue_of(100)
    for at, priority in enumerate([0, 5, 0, 5, -1]):
        queue.add(job_of(at, priority=priority))
    assert [job.at for job in queue.take(2) + queue.take(9)] == [1, 3, 0, 2, 4]
    assert queue.take(1) == []


def test_what_is_late_or_cancelled_leaves_at_once_and_makes_room() -> None:
    queue, mine = queue_of(40), ticket_of(2)
    jobs = [job_of(0, deadline_ns=5), job_of(1, ticket=mine), job_of(2, ticket=mine, priority=3), job_of(3)]
    for job in jobs:
        queue.add(job)
    assert queue.expired(5) == [jobs[0]]
    assert {job.at for job in queue.of_ticket(mine)} == {1, 2}
    assert queue.bytes == 10
    assert queue.all() == [jobs[3]]
    assert len(queue) == 0


def test_a_ticket_is_released_before_it_is_settled_and_tells_each_outcome() -> None:
    ticket = ticket_of(2)
    assert not ticket.wait_released(0.0)
    assert [ticket.release(), ticket.release()] == [False, True]
    assert ticket.wait_released(0.0)
    assert not ticket.wait(0.0)
    assert not ticket.settle(1, Outcome.STORED)
    assert ticket.settle(0, Outcome.EXPIRED)
    assert ticket.wait(0.0)
    assert ticket.outcomes == [Outcome.EXPIRED, Outcome.STORED]


def test_what_is_not_taken_in_is_released_and_settled_at_once() -> None:
    ticket = ticket_of(3)
    ticket.refuse_from(1, Outcome.QUEUE_FULL)
    assert not ticket.released
    assert ticket.outcomes == [None, Outcome.QUEUE_FULL, Outcome.QUEUE_FULL]
    ticket.release()
    assert ticket.settle(0, Outcome.STORED)
