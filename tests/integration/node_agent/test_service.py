"""The agent as a process, between a real NATS and real vineyardds; what it says is read with raw nats-py."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import nats
import psutil
import pytest

from kvberth.bus import Absent, Bus, BusSettings
from kvberth_schemas import names, subjects
from kvberth_schemas.envelope import Envelope
from kvberth_schemas.events import CacheHealthV1, HealthReason, Verdict
from kvberth_schemas.subjects import Entity, Service, WantKind
from kvberth_schemas.wants import DirWantV1, Why
from support.nats import nats_server
from support.vineyardd import running_vineyardd
from support.waiting import until

pytestmark = pytest.mark.integration

NODE = "ip-10-0-0-1.ec2.internal"
SUBJECT = "kvberth.evt.v1.ip-10-0-0-1=2Eec2=2Einternal.default.k.socket"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"
WANT = subjects.want(WantKind.DIR, NODE, "default", "k")


@pytest.fixture
async def server(tmp_path):
    async with nats_server(tmp_path / "nats") as running:
        yield running


@pytest.fixture
async def placement(server):
    """A bus that declares the streams and says wants, as placement does."""
    settings = BusSettings(url=server.url, service=Service.PLACEMENT, instance="test", term=1)
    async with Bus(settings) as bus:
        await bus.declare()
        async with bus.writer([subjects.wants_of(WantKind.DIR)], absent=Absent.KEEP) as writer:
            writer.ready()
            yield writer


def say(writer, state="keep"):
    """Want the directory kept or dropped; the want's event id."""
    want = DirWantV1(term=1, state=state, why=Why.WANTED, namespace="default", kvcache="k")
    return writer.put(WANT, want, traceparent=TRACEPARENT)


class Witness:
    """Reads with nats-py alone."""

    def __init__(self, client, subject=SUBJECT):
        self.client = client
        self.subject = subject

    async def last(self):
        """(type, body, headers) of the last message on the socket's subject; None if there is none."""
        try:
            raw = await self.client.jetstream().get_last_msg("KVBERTH_EVENTS", self.subject)
        except nats.js.errors.NotFoundError:
            return None
        return raw.headers["ce-type"], json.loads(raw.data), raw.headers

    async def until(self, condition, seconds=15.0):
        last = None
        try:
            async with asyncio.timeout(seconds):
                while not ((last := await self.last()) and condition(*last)):  # noqa: ASYNC110 -- a foreign process says it
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"not seen within {seconds} s; the last message is {last}") from None
        return last

    async def until_ready(self, incarnation, seconds=15.0):
        return await self.until(
            lambda ce_type, body, _: ce_type == "kvberth.socket.ready.v1" and body["incarnation"] == incarnation,
            seconds,
        )

    async def until_lost(self, reason, seconds=15.0):
        return await self.until(
            lambda ce_type, body, _: ce_type == "kvberth.socket.lost.v1" and body["reason"] == reason, seconds
        )

    async def next_alive(self, seconds=5.0):
        subscription = await self.client.subscribe("kvberth.alive.v1.*.node_agent.*")
        try:
            return json.loads((await subscription.next_msg(timeout=seconds)).data)
        finally:
            await subscription.unsubscribe()

    async def until_complete(self):
        async with asyncio.timeout(15):
            while not (await self.next_alive())["complete"]:
                pass


@asynccontextmanager
async def witness_of(server):
    client = await nats.connect(server.url)
    try:
        yield Witness(client)
    finally:
        await client.close()


@asynccontextmanager
async def agent_process(server, root, state, stderr=None, **settings):
    clean = {name: value for name, value in os.environ.items() if not name.upper().startswith("KVBERTH_")}
    given = {
        "KVBERTH_NATS_URL": server.url,
        "KVBERTH_NODE": NODE,
        "KVBERTH_ROOT": str(root),
        "KVBERTH_STATE": str(state),
    }
    command = (sys.executable, "-m", "kvberth.node_agent")
    process = await asyncio.create_subprocess_exec(*command, env=clean | given | settings, stderr=stderr)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(20):
                assert await process.wait() == 0


async def test_a_cache_is_followed_from_want_to_ready_to_lost_to_gone(server, placement, root, tmp_path):
    async with agent_process(server, root, tmp_path / "state") as process, witness_of(server) as witness:
        cause = say(placement)
        await witness.until_lost("missing")
        socket = root / "default" / "k" / "vineyard.sock"
        async with running_vineyardd(socket) as daemon:
            answered = time.monotonic()
            _, body, headers = await witness.until_ready(daemon.incarnation)
            assert time.monotonic() - answered < 0.5
            assert body["node"] == NODE
            assert body["path"] == str(socket)
            assert body["memory_limit"] == 64 << 20
            assert headers["kvberth-cause"] == cause
            assert headers["traceparent"].split("-")[1] == TRACE
            await witness.until_complete()
            await daemon.kill()
            killed = time.monotonic()
            _, body, _ = await witness.until_lost("stale")
            assert time.monotonic() - killed < 0.5
            assert body["incarnation"] == daemon.incarnation
        dropped = say(placement, "drop")
        _, _, headers = await witness.until(lambda ce_type, *_: ce_type == "kvberth.socket.gone.v1")
        assert headers["kvberth-cause"] == dropped
        assert psutil.Process(process.pid).memory_info().rss < 100 << 20


async def test_a_cache_is_proven_until_its_directory_is_dropped(server, placement, root, tmp_path):
    async with agent_process(server, root, tmp_path / "state"), witness_of(server) as sockets:
        witness = Witness(sockets.client, SUBJECT.replace(".socket", ".health"))
        say(placement)
        await witness.until(lambda _, body, __: body.get("reason") == "Missing")
        async with running_vineyardd(root / "default" / "k" / "vineyard.sock") as daemon:
            _, body, _ = await witness.until(lambda _, body, __: body.get("verdict") == "healthy")
            assert body["incarnation"] == daemon.incarnation
            assert body["last_proof"]
            await witness.until_complete()
        await witness.until(lambda _, body, __: body.get("verdict") == "failed")
        say(placement, "drop")
        await witness.until(lambda ce_type, *_: ce_type == "kvberth.cache.health-gone.v1")


async def test_the_health_that_an_earlier_life_told_is_gone_with_its_directory(server, placement, root, tmp_path):
    subject = subjects.health(NODE, "default", "k")
    healthy = CacheHealthV1(
        cache="k",
        namespace="default",
        node=NODE,
        incarnation="old",
        verdict=Verdict.HEALTHY,
        reason=HealthReason.PROVEN,
        message="",
    )
    settings = BusSettings(url=server.url, service=Service.NODE_AGENT, instance="earlier", node=NODE)
    async with (
        Bus(settings) as bus,
        bus.writer([subjects.events_of(Entity.HEALTH, NODE)], absent=Absent.KEEP) as writer,
    ):
        writer.ready()
        writer.put(subject, healthy)
        assert await writer.flushed(10)
    async with agent_process(server, root, tmp_path / "state"), witness_of(server) as sockets:
        witness = Witness(sockets.client, str(subject))
        await witness.until(lambda ce_type, *_: ce_type == "kvberth.cache.health-gone.v1")


async def test_an_agent_that_was_away_names_who_hangs_and_tells_when_bytes_last_came_back(
    server, placement, root, tmp_path
):
    path = root / "default" / "k" / "vineyard.sock"
    async with witness_of(server) as sockets, running_vineyardd_in(path) as daemon:
        witness = Witness(sockets.client, SUBJECT.replace(".socket", ".health"))
        say(placement)
        async with agent_process(server, root, tmp_path / "state"):
            _, healthy, _ = await witness.until(lambda _, body, __: body.get("verdict") == "healthy")
        await daemon.freeze()
        async with agent_process(server, root, tmp_path / "state"):
            _, hung, _ = await witness.until(lambda _, body, __: body.get("reason") == "Hung")
            assert (hung["incarnation"], hung["last_proof"]) == (daemon.incarnation, healthy["last_proof"])
        await daemon.kill()
        path.unlink()
        with socket.socket(socket.AF_UNIX) as starting:  # another one, which reserves its memory first
            starting.bind(str(path))
            starting.listen(16)
            async with agent_process(server, root, tmp_path / "state"):
                _, hung, _ = await witness.until(lambda _, body, __: body.get("incarnation") is None)
                assert (hung["reason"], hung["last_proof"]) == ("Hung", healthy["last_proof"])


async def test_a_proof_with_a_time_of_no_zone_ends_no_agent_and_is_overwritten(server, placement, root, tmp_path):
    subject = str(subjects.health(NODE, "default", "k"))
    told = {"cache": "k", "namespace": "default", "node": NODE, "incarnation": "old", "verdict": "failed"}
    told |= {"reason": "Hung", "message": "", "last_proof": "2026-01-01T00:00:00"}
    stranger = Envelope("1", CacheHealthV1.ce_type, "/kvberth/test/1", datetime.now(UTC), subject)
    say(placement)
    assert await placement.flushed(10)  # so that there are streams
    async with witness_of(server) as sockets:
        await sockets.client.jetstream().publish(subject, json.dumps(told).encode(), headers=stranger.headers())
        async with agent_process(server, root, tmp_path / "state"):
            witness = Witness(sockets.client, subject)
            await witness.until(lambda _, body, __: body.get("reason") == "Missing")
            await witness.until_complete()


@asynccontextmanager
async def running_vineyardd_in(path):
    """A daemon in a directory that is there before the agent."""
    path.parent.mkdir(parents=True)
    async with running_vineyardd(path) as daemon:
        yield daemon


async def test_an_agent_that_was_away_proves_its_rows_again(server, placement, root, tmp_path):
    socket = root / "default" / "k" / "vineyard.sock"
    async with witness_of(server) as witness:
        async with agent_process(server, root, tmp_path / "state"):
            say(placement)
            async with running_vineyardd(socket, incarnation="first"):
                await witness.until_ready("first")
        assert (await witness.last())[1].get("incarnation") == "first"
        async with running_vineyardd(socket, incarnation="second"), agent_process(server, root, tmp_path / "state"):
            await witness.until_ready("second")
            await witness.until_complete()


async def test_a_row_without_a_want_is_watched_on_after_a_restart_while_its_directory_is_there(
    server, placement, root, tmp_path
):
    socket = root / "default" / "k" / "vineyard.sock"
    async with witness_of(server) as witness, running_vineyardd(socket, incarnation="first") as daemon:
        async with agent_process(server, root, tmp_path / "state"):
            say(placement)
            await witness.until_ready("first")
        await placement.purge(WANT)
        async with agent_process(server, root, tmp_path / "state"):
            await witness.until_complete()
            assert (await witness.last())[0] == "kvberth.socket.ready.v1"
            await daemon.kill()
            await witness.until_lost("stale")
        shutil.rmtree(socket.parent)  # with the gate.json that the agent kept there
        async with agent_process(server, root, tmp_path / "state"):
            await witness.until(lambda ce_type, *_: ce_type == "kvberth.socket.gone.v1")


async def test_a_wiped_bus_hears_everything_again(server, placement, root, tmp_path):
    async with agent_process(server, root, tmp_path / "state"):
        say(placement)
        async with running_vineyardd(root / "default" / "k" / "vineyard.sock") as daemon:
            async with witness_of(server) as witness:
                await witness.until_ready(daemon.incarnation)
            await server.kill()
            server.wipe()
            await server.start()
            async with witness_of(server) as witness:
                await eventually_declared(witness)
                await witness.until_ready(daemon.incarnation, seconds=20.0)
                await witness.until_complete()


async def test_an_agent_starts_without_a_bus_and_stops_within_its_time(server, root, tmp_path):
    await server.stop()
    async with agent_process(server, root, tmp_path / "state") as process:
        await until(lambda: list((tmp_path / "state" / "services").glob("node_agent*.json")), within_s=15)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert time.monotonic() - began < 3.0


async def test_a_second_agent_of_a_node_is_refused_with_a_sentence(server, root, tmp_path):
    state = tmp_path / "state"
    async with agent_process(server, root, state):
        await until(lambda: list((state / "services").glob("node_agent*.json")), within_s=15)
        async with agent_process(server, root, state, stderr=asyncio.subprocess.PIPE) as second:
            text = await asyncio.wait_for(second.stderr.read(), 15)
            assert await second.wait() == 1
            assert f"Another agent of the node {NODE} (pid ".encode() in text


async def test_an_agent_that_was_taken_over_ends_with_a_sentence(server, placement, root, tmp_path):
    async with (
        witness_of(server) as witness,
        agent_process(server, root, tmp_path / "old", stderr=asyncio.subprocess.PIPE) as old,
    ):
        say(placement)
        await witness.until_lost("missing")
        term = tmp_path / "new" / "node_agent" / names.encode(NODE) / "term"
        term.parent.mkdir(parents=True)
        term.write_text(f"{int(time.time()) + 1000}")
        async with agent_process(server, root, tmp_path / "new"):
            await witness.until_complete()
            ended = asyncio.create_task(old.stderr.read())
            for _ in range(
                10
            ):  # of two that say the same, the one who is second writes nothing: one change may not tell
                async with running_vineyardd(root / "default" / "k" / "vineyard.sock") as daemon:
                    await witness.until_ready(daemon.incarnation)
                await witness.until_lost("stale")
                done, _ = await asyncio.wait({ended}, timeout=0.5)
                if done:
                    break
            text = await asyncio.wait_for(ended, 15)
            assert await old.wait() == 3
            assert b"with a higher term speaks on the bus" in text


async def test_an_agent_without_a_node_or_a_root_says_which_setting_is_missing(tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.upper().startswith("KVBERTH_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kvberth.node_agent", env=clean, stderr=asyncio.subprocess.PIPE
    )
    _, text = await process.communicate()
    assert process.returncode == 2
    assert b"KVBERTH_NODE" in text
    assert b"KVBERTH_ROOT" in text


async def eventually_declared(witness):
    async with asyncio.timeout(15):
        while True:
            try:
                await witness.client.jetstream().stream_info("KVBERTH_EVENTS")
            except nats.errors.Error:
                await asyncio.sleep(0.05)
            else:
                return
