"""Leadership on a real API server: one at a time, ended in time, handed over at once when given up."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import pytest

from kube.rig import delete, get, merge
from kvberth.kube.client import Client
from kvberth.kube.election import Election, Leadership, boot_time_s
from kvberth.kube.errors import LeaseHeldByRunaway
from kvberth.kube.resources import LEASES
from kvberth.kube.settings import LeaseSettings
from support.tcp_proxy import TcpProxy, http_answer
from support.waiting import seconds_until, until


def settings(namespace: str, identity: str) -> LeaseSettings:
    return LeaseSettings(
        namespace=namespace,
        name="l",
        identity=identity,
        duration_s=3,
        renew_deadline_s=2.0,
        retry_s=0.2,
        look_s=0.2,
        request_s=0.5,
        stop_s=0.9,
    )


class Candidate:
    """A candidate whose work notes its terms and waits."""

    def __init__(
        self,
        client: Client,
        chosen: LeaseSettings,
        clock: Callable[[], float] = boot_time_s,
        random: Random | None = None,
    ) -> None:
        self.election = Election(client, chosen, clock=clock, random=random)
        self.terms: list[int] = []
        self.cancelled = 0
        self.leadership: Leadership | None = None

    async def work(self, leadership: Leadership) -> None:
        self.terms.append(leadership.term)
        self.leadership = leadership
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1

    @property
    def leads(self) -> bool:
        return self.election.term is not None


@asynccontextmanager
async def running(*candidates: Candidate) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(candidate.election.run(candidate.work)) for candidate in candidates]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_one_leads_and_gives_up_at_once_when_it_is_stopped(client: Client, namespace: str) -> None:
    one, two = (Candidate(client, settings(namespace, name)) for name in ("one", "two"))
    async with running(one) as (first,):
        await until(lambda: one.leads)
        async with running(two):
            await until(lambda: two.election.holder == "one")
            await asyncio.sleep(3.5)  # longer than the Lease lasts: renewals must keep the other out
            assert (one.leads, two.leads) == (True, False)
            first.cancel()
            assert await seconds_until(lambda: two.leads and two.terms) < 1.5, (
                "a Lease that was given up need not run out"
            )
            assert one.cancelled == 1
            assert two.terms == [one.terms[0] + 1]
            stored = await get(client, LEASES, namespace, "l")
            assert stored["spec"]["holderIdentity"] == "two"
            assert stored["spec"]["leaseTransitions"] == two.terms[0]


class Latest(Random):
    """Waits as long as ever, and notes it."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[float] = []

    def uniform(self, a: float, b: float) -> float:
        self.drawn.append(max(a, b))
        return self.drawn[-1]


async def test_who_waits_follows_one_that_stops_at_its_next_look_which_is_at_most_1200_ms_later(
    client: Client, namespace: str
) -> None:
    chosen = [LeaseSettings(namespace=namespace, name="l", identity=name) for name in ("one", "two")]
    waits = Latest()
    one, two = Candidate(client, chosen[0]), Candidate(client, chosen[1], random=waits)
    async with running(one) as (first,):
        await until(lambda: one.leads)
        async with running(two):
            await until(lambda: two.election.holder == "one")
            first.cancel()
            await asyncio.wait([first])  # its Lease is given up
            looked = len(waits.drawn)
            await until(lambda: two.leads)
            assert len(waits.drawn) - looked <= 1, "one look may have been on its way"
            assert chosen[1].look_s * max(waits.drawn) <= 1.2


@pytest.mark.parametrize("fault", ["silence", "refused", "502"])
async def test_a_leader_that_cannot_renew_stops_before_another_begins(
    client: Client, proxied: Client, proxy: TcpProxy, namespace: str, fault: str
) -> None:
    cut, other = Candidate(proxied, settings(namespace, "cut")), Candidate(client, settings(namespace, "other"))
    async with running(cut) as (first,), AsyncExitStack() as stack:
        await until(lambda: cut.leads)
        await stack.enter_async_context(running(other))
        overlap: list[bool] = []
        if fault == "silence":
            proxy.silence()
        elif fault == "refused":
            await proxy.close()
        else:
            proxy.answer("leases", http_answer("502 Bad Gateway", b"<html>", content_type="text/html"), times=10_000)

        def look() -> bool:
            overlap.append(cut.leads and other.leads)
            return other.leads

        took = await seconds_until(look)
        assert not any(overlap)
        assert cut.cancelled == 1
        assert 2.0 <= took < 6.0
        assert not first.done(), "it stays a candidate"
        if fault == "silence":
            proxy.heal()
        elif fault == "refused":
            await proxy.open()
        await asyncio.sleep(0.5)  # the span in which it must not lead again
        assert not cut.leads


async def test_a_short_loss_of_the_server_costs_nobody_the_lead(
    proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    one = Candidate(proxied, settings(namespace, "one"))
    async with running(one):
        await until(lambda: one.leads)
        for _ in range(3):
            await proxy.close()
            await asyncio.sleep(0.7)  # shorter than the deadline
            await proxy.open()
            await until(lambda: one.leadership is not None and one.leadership.left_s > 1.7)
        assert (len(one.terms), one.cancelled) == (1, 0)


async def test_a_stolen_lease_ends_the_work_and_an_annotation_does_not(client: Client, namespace: str) -> None:
    one = Candidate(client, settings(namespace, "one"))
    async with running(one):
        await until(lambda: one.leads)
        await merge(client, LEASES, namespace, "l", {"metadata": {"annotations": {"who": "me"}}})
        await until(lambda: one.leadership is not None and one.leadership.left_s > 1.7)
        assert one.cancelled == 0
        stolen = {"holderIdentity": "thief", "leaseTransitions": one.terms[0] + 5, "leaseDurationSeconds": 1}
        await merge(client, LEASES, namespace, "l", {"spec": stolen})
        await until(lambda: one.cancelled == 1)
        await until(lambda: len(one.terms) == 2)
        assert one.terms[1] == one.terms[0] + 6, "terms only grow"


async def test_a_lease_that_was_touched_meanwhile_is_given_up_all_the_same(client: Client, namespace: str) -> None:
    one = Candidate(client, dataclasses.replace(settings(namespace, "one"), retry_s=1.9))
    async with running(one):
        await until(lambda: one.leads)
        await merge(client, LEASES, namespace, "l", {"metadata": {"annotations": {"who": "me"}}})
    assert (await get(client, LEASES, namespace, "l"))["spec"].get("holderIdentity", "") == ""


async def test_a_deleted_lease_ends_the_work_and_its_next_term_is_higher(client: Client, namespace: str) -> None:
    one = Candidate(client, settings(namespace, "one"))
    async with running(one):
        await until(lambda: one.leads)
        await asyncio.sleep(1.1)  # a first term is made of seconds
        await delete(client, LEASES, namespace, "l")
        await until(lambda: len(one.terms) == 2)
        assert one.cancelled == 1
        assert one.terms[1] > one.terms[0]


@pytest.mark.parametrize("stamp", ["2001-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"])
async def test_the_clock_of_another_machine_neither_opens_nor_closes_a_lease(
    client: Client, namespace: str, stamp: str
) -> None:
    one = Candidate(client, settings(namespace, "one"))
    async with running(one):
        await until(lambda: one.leads)
    skewed = {"holderIdentity": "skewed", "renewTime": stamp, "acquireTime": stamp, "leaseDurationSeconds": 2}
    await merge(client, LEASES, namespace, "l", {"spec": skewed})
    two = Candidate(client, settings(namespace, "two"))
    async with running(two):
        assert 1.9 <= await seconds_until(lambda: two.leads) < 4.0


async def test_work_that_returns_gives_the_lease_up_and_its_error_is_raised(client: Client, namespace: str) -> None:
    done = Election(client, settings(namespace, "one"))

    async def return_at_once(leadership: Leadership) -> None:
        assert leadership.holds

    async with asyncio.timeout(10):
        await done.run(return_at_once)
    assert (await get(client, LEASES, namespace, "l"))["spec"].get("holderIdentity", "") == ""

    async def fail(leadership: Leadership) -> None:
        raise RuntimeError(f"term {leadership.term} went wrong")

    with pytest.raises(RuntimeError, match="went wrong"):
        await Election(client, settings(namespace, "two")).run(fail)
    assert (await get(client, LEASES, namespace, "l"))["spec"].get("holderIdentity", "") == ""


async def test_work_that_does_not_end_is_told_so_that_the_process_ends(
    proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    chosen = dataclasses.replace(settings(namespace, "one"), stop_s=0.3)
    election, free = Election(proxied, chosen), asyncio.Event()

    async def stubborn(leadership: Leadership) -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(election.run(stubborn))
    await until(lambda: election.term is not None)
    proxy.silence()
    with pytest.raises(LeaseHeldByRunaway, match="this process has to end"):
        async with asyncio.timeout(10):
            await task
    free.set()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait([task for task in others if "work under" in task.get_name()])


async def test_a_sleep_of_the_machine_counts_towards_the_deadline(client: Client, namespace: str) -> None:
    slept = 0.0
    one = Candidate(client, settings(namespace, "one"), clock=lambda: boot_time_s() + slept)
    async with running(one):
        await until(lambda: one.leadership is not None)
        held = one.leadership
        slept = 60.0
        assert not held.holds, "no write may follow the wake-up"
        await until(lambda: one.cancelled == 1)
