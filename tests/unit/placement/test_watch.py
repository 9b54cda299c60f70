"""Whose word placement waits for, and how it says that nobody speaks."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kvberth.placement.memory import Memory
from kvberth.placement.observe import Index
from kvberth.placement.watch import Watch
from kvberth_schemas import subjects
from kvberth_schemas.envelope import Envelope
from kvberth_schemas.events import HealthReason
from kvberth_schemas.subjects import Service
from support.placement_world import World

VIEW = SimpleNamespace(complete=True, rows={}, unreadable={}, generation=1, add_listener=lambda _: None)


def watch(source, speaking, view=VIEW):
    liveness = SimpleNamespace(
        fresh=lambda service, node=None: service in speaking, nodes=lambda service: frozenset(), heard_s=lambda *_: None
    )
    means = SimpleNamespace(backend=SimpleNamespace(blind=lambda: None), source=source)
    return Watch(view, liveness, Index(), means, asyncio.Event())


def freshness(source, speaking):
    return watch(source, speaking).refresh()


@pytest.mark.parametrize("source", [Service.SCHEDULER, Service.POD_WATCHER])
def test_the_backends_own_source_is_named_when_it_is_silent(source):
    other = ({Service.SCHEDULER, Service.POD_WATCHER} - {source}).pop()
    assert freshness(source, {other}).stale == f"the {source} is silent, so pods, nodes and KVCaches are unknown"


def test_nothing_is_stale_while_the_source_speaks():
    assert freshness(Service.POD_WATCHER, {Service.POD_WATCHER}).stale is None


@pytest.mark.parametrize(("source", "nodes"), [(Service.SCHEDULER, {"n"}), (Service.POD_WATCHER, set())])
def test_a_process_that_cannot_be_read_counts_only_where_runners_tell_of_processes(source, nodes):
    scribbled = {subjects.process("n", "default", "kv", "cache"): "no JSON"}
    view = SimpleNamespace(**{**vars(VIEW), "unreadable": scribbled})
    found = watch(source, {source}, view)
    known = {"term": 1, "freshness": found.refresh(), "memory": Memory(), "live": {}, "steady_s": 0.0}
    assert found.index.snapshot("default", **known).unreadable_process_nodes == nodes


async def test_a_cache_that_hangs_does_so_over_a_stream_that_is_away_for_a_moment():
    world = World()
    world.node("a")
    world.health("a", reason=HealthReason.HUNG)
    subject = subjects.health("a", "default", "kv")
    said, cause = world.states[subject]
    row = SimpleNamespace(
        subject=subject,
        message=said,
        envelope=Envelope("1", said.ce_type, "/kvberth/test/1", world.now, str(subject)),
        sequence=cause.sequence,
        term=1,
    )
    view = SimpleNamespace(**{**vars(VIEW), "rows": {subject: row}})
    found = watch(Service.SCHEDULER, {Service.SCHEDULER}, view)
    found.refresh()
    loop = asyncio.get_running_loop()
    found.index.forget_events()
    found.index.take(subject, said, replace(cause, heard_s=loop.time() - 100))
    view.complete = False
    found.refresh()
    view.complete, view.generation = True, 2
    found.refresh()
    known = {"term": 1, "freshness": found.refresh(), "memory": Memory(), "live": {}, "steady_s": 0.0}
    health = found.index.snapshot("default", **known).caches["kv"]["a"].health
    assert 90 < loop.time() - health.cause.heard_s < 96
