"""What the agent says about real vineyardds, and how soon."""

import asyncio
import socket
import time
from contextlib import AsyncExitStack

import pytest

from integration.node_agent.running_agent import K, running_agent
from kvberth.node_agent.sockets.plan import CacheKey, DirWant
from kvberth.node_agent.sockets.watcher import Pace
from kvberth.vineyard import Client
from support.descriptors import open_descriptors
from support.hostile_peer import hostile_peer
from support.vineyardd import running_vineyardd
from support.waiting import until

pytestmark = pytest.mark.integration

SOON_S = 0.25
"""Ceiling for what takes a few milliseconds, on a machine where other tests run."""


async def test_a_kept_directory_without_a_daemon_is_said_to_miss_its_socket(agent):
    agent.want()
    await agent.heard.until_word("lost missing")
    assert agent.directory.is_dir()
    assert agent.keeper.looked.is_set()


async def test_a_daemon_that_starts_is_said_ready_within_milliseconds_of_its_first_answer(agent):
    cause = agent.want()
    await agent.heard.until_word("lost missing")
    async with running_vineyardd(agent.socket) as daemon:
        answered = time.monotonic()
        event = await agent.heard.until_word(f"ready {daemon.incarnation}")
        assert agent.heard.times[-1] - answered < SOON_S
        assert agent.heard.causes[-1] == (cause, "trace-1")
        async with await Client.connect(agent.socket) as client:
            status = await client.status()
    assert event.path == str(agent.socket)
    assert (event.cache, event.namespace, event.node) == ("k", "default", "l20-a")
    assert (event.instance_id, event.memory_limit) == (status.instance_id, status.memory_limit)
    assert event.version == client.registration.version


async def test_a_daemon_that_answers_long_after_its_socket_appeared_is_caught_when_it_does(root):
    """As with reserved memory: the socket takes connections, the register request is answered seconds later."""
    async with running_agent(root, Pace(answer_s=0.2)) as agent, running_vineyardd(root / "d.sock") as daemon:
        await daemon.freeze()
        agent.want()
        await agent.heard.until_word("lost missing")
        agent.socket.symlink_to(daemon.path)
        await agent.heard.until_word("lost hung")
        daemon.thaw()
        thawed = time.monotonic()
        await agent.heard.until_word(f"ready {daemon.incarnation}")
        assert agent.heard.times[-1] - thawed < SOON_S


async def test_a_killed_daemon_is_lost_at_once_and_a_new_one_ready_under_its_own_incarnation(agent):
    agent.want()
    async with running_vineyardd(agent.socket, incarnation="first") as daemon:
        await agent.heard.until_word("ready first")
        killed = time.monotonic()
        await daemon.kill()
        lost = await agent.heard.until_word("lost stale")
        assert agent.heard.times[-1] - killed < SOON_S
        assert lost.incarnation == "first"
    async with running_vineyardd(agent.socket, incarnation="second"):
        await agent.heard.until_word("ready second")
    assert agent.heard.words[-3:] != ["ready second", "lost stale", "ready second"]


async def test_a_daemon_that_ends_in_order_is_missing_or_stale_as_it_leaves_its_socket(agent):
    """vineyardd removes its socket on SIGTERM most times; now and then it dies before."""
    agent.want()
    async with running_vineyardd(agent.socket) as daemon:
        await agent.heard.until_word(f"ready {daemon.incarnation}")
        daemon.process.terminate()
        await daemon.process.wait()
        await agent.heard.until_word("lost stale" if agent.socket.exists() else "lost missing")


async def test_a_stopped_daemon_is_hung_after_two_missed_answers_and_ready_when_it_goes_on(root):
    async with running_agent(root, Pace(recheck_s=0.2, answer_s=0.3)) as agent:
        agent.want()
        async with running_vineyardd(agent.socket) as daemon:
            await agent.heard.until_word(f"ready {daemon.incarnation}")
            frozen = time.monotonic()
            await daemon.freeze()
            hung = await agent.heard.until_word("lost hung")
            assert 0.6 <= agent.heard.times[-1] - frozen < 2.0
            assert hung.incarnation == daemon.incarnation
            daemon.thaw()
            thawed = time.monotonic()
            await agent.heard.until_word(f"ready {daemon.incarnation}")
            assert agent.heard.times[-1] - thawed < SOON_S
            assert agent.heard.words[-3:] == [f"ready {daemon.incarnation}", "lost hung", f"ready {daemon.incarnation}"]


async def test_a_deadline_missed_by_our_own_lag_is_no_evidence(root):
    lagging = [True]
    async with running_agent(root, Pace(recheck_s=0.05, answer_s=0.1), lagged=lambda _s: lagging[0]) as agent:
        agent.want()
        async with running_vineyardd(agent.socket) as daemon:
            await agent.heard.until_word(f"ready {daemon.incarnation}")
            await daemon.freeze()
            with pytest.raises(AssertionError, match="not said"):
                await agent.heard.until_word("lost hung", seconds=1.0)
            lagging[0] = False
            await agent.heard.until_word("lost hung")


async def test_a_hung_daemon_does_not_keep_others_waiting(root):
    other = CacheKey("default", "other")
    async with AsyncExitStack() as stack:
        agent = await stack.enter_async_context(running_agent(root))
        hung = await stack.enter_async_context(running_vineyardd(agent.socket))
        fine = await stack.enter_async_context(running_vineyardd(root / "default" / "other" / "vineyard.sock"))
        await hung.freeze()
        started = time.monotonic()
        agent.keeper.apply({K: DirWant("1", "keep", 0o700, None), other: DirWant("2", "keep", 0o700, None)})
        await agent.heard.until_word(f"ready {fine.incarnation}")
        assert agent.heard.times[-1] - started < 0.5
        assert not agent.keeper.looked.is_set()
        await agent.heard.until_word("lost hung")
        assert agent.keeper.looked.is_set()


async def test_a_daemon_that_nobody_of_us_started_is_said_as_such(agent):
    agent.want()
    async with running_vineyardd(agent.socket, incarnation="local"):
        await agent.heard.until_word("ready local")


async def test_a_socket_that_is_taken_away_from_a_living_daemon_is_missing(agent):
    agent.want()
    async with running_vineyardd(agent.socket) as daemon:
        await agent.heard.until_word(f"ready {daemon.incarnation}")
        agent.socket.rename(agent.root / "aside")
        await agent.heard.until_word("lost missing", seconds=SOON_S)
        (agent.root / "aside").rename(agent.socket)
        await agent.heard.until_word(f"ready {daemon.incarnation}")


async def test_what_answers_and_is_no_vineyardd_is_said_so(agent):
    async def script(peer):
        await peer.read_request()
        await peer.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    agent.want()
    await agent.heard.until_word("lost missing")
    async with hostile_peer(agent.socket, script):
        await agent.heard.until_word("lost protocol")


async def test_a_peer_that_takes_the_connection_and_closes_it_is_said_to_refuse(agent):
    async def script(peer):
        await peer.read_request()

    agent.want()
    await agent.heard.until_word("lost missing")
    async with hostile_peer(agent.socket, script, leave=True):
        await agent.heard.until_word("lost refused")


async def test_a_stale_socket_file_is_said_stale(agent):
    agent.directory.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(agent.socket))
    agent.want()
    await agent.heard.until_word("lost stale")


async def test_an_agent_that_was_restarted_proves_the_socket_again(root):
    async with running_vineyardd(root / "default" / "k" / "vineyard.sock") as daemon:
        for _ in range(2):
            async with running_agent(root) as agent:
                agent.want()
                await agent.heard.until_word(f"ready {daemon.incarnation}")
                assert agent.heard.words == [f"ready {daemon.incarnation}"]


async def test_a_daemon_that_answers_and_closes_again_and_again_costs_little(agent):
    """The watcher is bounded whatever a peer does."""
    connections = 0

    async def script(peer):
        nonlocal connections
        connections += 1
        await peer.greet()

    agent.want()
    await agent.heard.until_word("lost missing")
    async with hostile_peer(agent.socket, script, leave=True):
        await agent.heard.until_word("lost refused")
        before = connections
        await asyncio.sleep(1.0)  # the measured period itself
        assert connections - before < 250


async def test_nothing_is_left_open_after_the_agent_ends(root):
    before = open_descriptors()
    async with running_agent(root) as agent:
        agent.want()
        async with running_vineyardd(agent.socket) as daemon:
            await agent.heard.until_word(f"ready {daemon.incarnation}")
    await until(lambda: open_descriptors() == before)
