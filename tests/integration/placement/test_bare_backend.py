"""Wants of earlier lives on a real nats-server: what they mean together, whatever their order says."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from integration.bus.rig import plain
from kvberth.bus import Absent, Bus, BusSettings, BusTimeout
from kvberth.kvcache import GateSpec
from kvberth.placement.apply.bare import BareBackend
from kvberth.placement.reasons import Reason
from kvberth.placement.states import Needs
from kvberth.placement.steps import Claim, Finish, Release, Remove
from kvberth_schemas import subjects
from kvberth_schemas.subjects import WANTS_STREAM, Service, WantKind
from kvberth_schemas.wants import CacheWantV1, DirWantV1, Why
from support.nats import nats_server
from support.waiting import until

pytestmark = pytest.mark.integration

CACHE, DIR = (subjects.want(kind, "a", "default", "kv") for kind in (WantKind.CACHE, WantKind.DIR))
STEP = {"kvcache": "kv", "uid": "u1", "node": "a", "message": "", "cause": None}
STOP = CacheWantV1(
    term=1, state="stop", why=Why.IDLE, namespace="default", kvcache="kv", kvcache_uid="u1", size_bytes=1
)
KEEP = DirWantV1(term=1, state="keep", why=Why.WANTED, namespace="default", kvcache="kv", gate_timeout_s=5)


@pytest.fixture
async def server(tmp_path):
    async with nats_server(tmp_path) as running:
        yield running


@asynccontextmanager
async def life(server, term):
    """A life of placement: its bus, its writer and its backend, none of which has adopted anything."""
    settings = BusSettings(url=server.url, service=Service.PLACEMENT, instance=f"p{term}", term=term)
    wants = [subjects.wants_of(WantKind.CACHE), subjects.wants_of(WantKind.DIR)]
    async with Bus(settings) as bus:
        await bus.declare()
        async with bus.writer(wants, absent=Absent.KEEP) as writer, bus.view(wants) as view:
            await until(lambda: view.complete)
            yield writer, BareBackend(bus, writer, term, lambda: datetime.now(UTC)), view


@asynccontextmanager
async def running(backend):
    task = asyncio.create_task(backend.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def is_removed(server, subject):
    async with plain(server.url) as client:
        info = await client.jsm().stream_info(WANTS_STREAM, subjects_filter=str(subject))
        return not info.state.subjects


async def earlier(server, *said):
    async with life(server, 1) as (writer, _, __):
        writer.ready()
        for subject, message in said:
            writer.put(subject, message)
            assert await writer.flushed(10)


async def test_a_directory_that_was_asked_for_after_the_end_of_a_cache_is_kept(server):
    await earlier(server, (CACHE, STOP), (DIR, KEEP))
    async with life(server, 2) as (_, backend, view):
        (standing,) = await backend.adopt()
        assert (standing.wanted.only_directory, standing.wanted.gate.timeout_s) == (True, 5)
        async with running(backend):
            await until(lambda: is_removed(server, CACHE))
            await until(lambda: view.rows[DIR].term == 2)
        assert view.rows[DIR].message.state == "keep"


async def test_a_directory_that_nobody_came_to_drop_after_its_cache_is_dropped(server):
    await earlier(server, (DIR, KEEP), (CACHE, STOP))
    async with life(server, 2) as (_, backend, view):
        (standing,) = await backend.adopt()
        assert not standing.wanted.only_directory
        await until(lambda: view.rows[DIR].message.state == "drop")
        assert view.rows[CACHE].message.state == "stop"


async def test_a_claim_does_not_spare_the_stop_that_is_to_be_removed(server):
    async with life(server, 1) as (_, backend, view):
        await backend.adopt()
        await backend.take("default", Remove(**STEP, reason=Reason.LINGERED, why=Why.IDLE), "p1")
        await until(lambda: {CACHE, DIR} <= view.rows.keys())
        await backend.take("default", Finish(**STEP, reason=Reason.LINGERED, moved_to=None), "p2")
        claim = Claim(**STEP, reason=Reason.CANNOT_FIT, gate=GateSpec(timeout_s=5), needs=Needs())
        await backend.take("default", claim, "p3")
        async with running(backend):
            await until(lambda: is_removed(server, CACHE))
            await until(lambda: view.rows[DIR].message.state == "keep")


async def test_the_end_of_a_cache_is_told_before_its_wants_are_removed(server, monkeypatch):
    """Whoever dies between the two leaves the wants, so that the next life tells it."""
    async with life(server, 1) as (_, backend, view), running(backend):
        await backend.adopt()
        await backend.take("default", Remove(**STEP, reason=Reason.LINGERED, why=Why.IDLE), "p1")
        await until(lambda: {CACHE, DIR} <= view.rows.keys())

        async def cut(*_):
            raise BusTimeout("nobody answers")

        finish = Finish(**STEP, reason=Reason.LINGERED, moved_to=None)
        with monkeypatch.context() as patched:
            patched.setattr(Bus, "publish_log", cut)
            with pytest.raises(BusTimeout):
                await backend.take("default", finish, "p2")
        standing = await backend.take("default", Release(**STEP, reason=Reason.UNCLAIMED), "p2")
        assert standing.wanted is not None, "nothing was removed, so the next plan has the step again"
        await backend.take("default", finish, "p3")
        await until(lambda: is_removed(server, CACHE))
