"""A state that is said again, long after it was true, changes nothing: versions order what one writer says."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kvberth.placement.observe import Index
from kvberth_schemas import subjects
from kvberth_schemas.events import HealthReason
from support.placement_world import NAMESPACE, World


@pytest.fixture
def moved() -> World:
    """An engine came to `a` and is gone from there; the KVCache was changed once."""
    world = World()
    world.node("a")
    world.kvcache()
    return world


POD = subjects.pod(NAMESPACE, "u1")
SPEC = subjects.spec(NAMESPACE, "kv")


def test_an_old_state_of_a_pod_that_is_gone_brings_it_back_to_no_node(moved):
    moved.engine("u1", "a")
    bound, cause = moved.states[POD]
    moved.engine("u1", "a", deleting=True)
    index = moved.index()
    moved.engine_gone("u1", "a")
    gone, after = moved.states[POD]
    index.take(POD, gone, after)
    index.take(POD, bound, replace(cause, sequence=after.sequence + 1))
    assert moved.snapshot_of(index).engines == ()
    assert index.stale == 1


def test_an_end_tells_the_last_version_to_a_reader_that_knew_nothing_before(moved):
    moved.engine("u1", "a")
    bound, cause = moved.states[POD]
    moved.engine_gone("u1", "a")
    gone, after = moved.states[POD]
    moved.states[POD] = (gone.model_copy(update={"resource_version": bound.resource_version + 1}), after)
    index = moved.index()
    index.take(POD, bound, replace(cause, sequence=after.sequence + 1))
    assert moved.snapshot_of(index).engines == ()
    assert index.stale == 1


def test_an_old_spec_said_again_does_not_replace_the_present_one(moved):
    old, cause = moved.states[SPEC]
    moved.kvcache(memory="8Gi")
    index = moved.index()
    before = moved.snapshot_of(index).kvcaches
    index.take(SPEC, old, replace(cause, sequence=1000))
    assert moved.snapshot_of(index).kvcaches == before
    assert index.stale == 1


def test_the_same_version_a_higher_term_and_another_uid_count(moved):
    old, cause = moved.states[SPEC]
    moved.kvcache(memory="8Gi")
    present, _ = moved.states[SPEC]
    index = moved.index()
    index.take(SPEC, present, replace(cause, sequence=1000))
    index.take(SPEC, old, replace(cause, sequence=1001), term=1)
    index.take(SPEC, replaced(old), replace(cause, sequence=1002))
    index.take(SPEC, old, replace(cause, sequence=1003), term=1)
    assert index.stale == 0


def test_another_stream_has_other_versions(moved):
    old, cause = moved.states[SPEC]
    moved.kvcache(memory="8Gi")
    index = moved.index()
    index.forget_events()
    index.take(SPEC, old, cause)
    assert index.stale == 0
    assert [item.name for item in moved.snapshot_of(index).kvcaches] == ["kv"]


HEALTH = subjects.health("a", NAMESPACE, "kv")


def heard_s(world, index):
    return world.snapshot_of(index).caches["kv"]["a"].health.cause.heard_s


@pytest.mark.parametrize(("unheard_s", "expected"), [(7.0, 17.0), (60.0, 50.0)])
def test_a_verdict_that_is_read_again_stands_since_it_was_heard_less_what_nobody_could_hear(unheard_s, expected):
    world = World()
    world.node("a")
    world.health("a", reason=HealthReason.HUNG)
    said, cause = world.states[HEALTH]
    index = Index()
    index.take(HEALTH, said, replace(cause, heard_s=10.0))
    index.forget_events(unheard_s)
    index.take(HEALTH, said, replace(cause, heard_s=50.0))
    assert heard_s(world, index) == expected
    index.take(HEALTH, said, replace(cause, heard_s=51.0, sequence=cause.sequence + 1))
    assert heard_s(world, index) == expected


def test_another_verdict_than_before_the_stream_was_read_anew_stands_since_now():
    world = World()
    world.node("a")
    world.health("a", reason=HealthReason.HUNG)
    said, cause = world.states[HEALTH]
    index = Index()
    index.take(HEALTH, said, replace(cause, heard_s=10.0))
    index.forget_events(1.0)
    proven = said.model_copy(update={"last_proof": said.last_proof + timedelta(seconds=1)})
    index.take(HEALTH, proven, replace(cause, heard_s=50.0))
    assert heard_s(world, index) == 50.0


def replaced(spec):
    """The same KVCache, deleted and made again."""
    return spec.model_copy(update={"uid": "another", "resource_version": 0})
