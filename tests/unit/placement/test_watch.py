"""Whose word placement waits for, and how it says that nobody speaks."""

import asyncio
from types import SimpleNamespace

import pytest

from kvberth.placement.observe import Index
from kvberth.placement.watch import Watch
from kvberth_schemas.subjects import Service

VIEW = SimpleNamespace(complete=True, rows={}, unreadable={}, generation=1, add_listener=lambda _: None)


def freshness(source, speaking):
    liveness = SimpleNamespace(
        fresh=lambda service, node=None: service in speaking, nodes=lambda service: frozenset(), heard_s=lambda *_: None
    )
    means = SimpleNamespace(backend=SimpleNamespace(blind=lambda: None), source=source)
    return Watch(VIEW, liveness, Index(), means, asyncio.Event()).refresh()


@pytest.mark.parametrize("source", [Service.SCHEDULER, Service.POD_WATCHER])
def test_the_backends_own_source_is_named_when_it_is_silent(source):
    other = ({Service.SCHEDULER, Service.POD_WATCHER} - {source}).pop()
    assert freshness(source, {other}).stale == f"the {source} is silent, so pods, nodes and KVCaches are unknown"


def test_nothing_is_stale_while_the_source_speaks():
    assert freshness(Service.POD_WATCHER, {Service.POD_WATCHER}).stale is None
