"""What `kvberth status` says below a KVCache, of what placement really says: each cause is one line."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from kvberth.cli.overview import Overview
from kvberth.cli.told import MOVE_IS_NEWS_FOR, told_lines
from kvberth.vineyard import SocketStale
from kvberth_schemas.events import HealthReason
from support.placement_world import MODEL, NAMESPACE, World

MOUNTS = ("kv",)
LACKS = "node a lacks disk=fast of spec.placement.nodeSelector"
NEVER_FITS = "cannot fit: needs 72Gi, node a has 10Gi in all, so it never will; lower spec.cacheSpec.memory"
SILENT = "a: its node agent is silent; bytes last came back at 2026-11-30T12:00:00Z"
DEAD = "a: it is Stale; bytes last came back at 2026-11-30T12:00:00Z"


def serving() -> World:
    world = World()
    world.node("a")
    world.kvcache()
    world.engine("u1", "a", mounts=MOUNTS)
    world.act()
    world.cache_runs("a")
    return world


def unserved(free: float = 500, **options) -> World:
    world = World()
    world.node("a", free=free)
    world.kvcache(**options)
    world.engine("u1", "a", mounts=MOUNTS)
    return world


def without_an_engine() -> World:
    world = World()
    world.kvcache()
    return world


def silent() -> World:
    world = serving()
    world.silent_agents.add("a")
    return world


def ended() -> World:
    world = serving()
    world.cache_ended("a", dropped=False)
    return world


def with_blocks() -> World:
    """Two nodes with a store of blocks each, and both serve."""
    world = World()
    world.kvcache(spec={"blockStore": {"size": "32Gi"}})
    for node in ("a", "b"):
        world.node(node)
        world.engine(f"e-{node}", node, mounts=MOUNTS)
    world.act()
    for node in ("a", "b"):
        world.cache_runs(node)
        world.health(node, blocks="")
    return world


def silent_with_blocks() -> World:
    world = with_blocks()
    world.silent_agents.add("a")
    return world


def dead_with_blocks() -> World:
    """One daemon is dead, as its agent says and its worker, which has another path."""
    world = with_blocks()
    error = SocketStale("/cache/vineyard.sock", "nobody listens on this socket, its vineyardd is dead")
    world.health("a", reason=HealthReason.STALE, blocks=f"There is no store: {error}.")
    return world


def lines(world: World) -> list[str]:
    for _ in range(2):
        world.act()
    overview = Overview(kvcaches=((None, world.status()),))
    return [line.removeprefix(f"{NAMESPACE}/kv: ") for line in told_lines(overview, world.now)]


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (serving, []),
        (lambda: unserved(free=10), [NEVER_FITS]),
        (lambda: unserved(spec={"placement": {"nodeSelector": {"disk": "fast"}}}), [LACKS]),
        (lambda: unserved(paused=True), ["paused: no cache is placed on a"]),
        (
            lambda: unserved(spec={"replicaz": 3}),
            [
                "spec.replicaz: is no field of a KVCache, in any generation; write spec.replicas",
                "nothing is added or removed until the manifest is accepted",
            ],
        ),
        (unserved, ["a: its cache has not answered yet"]),
        (silent, [SILENT]),
        (ended, ["a: the process ended"]),
        (with_blocks, []),
        (silent_with_blocks, [SILENT]),
        (dead_with_blocks, [DEAD]),
        (without_an_engine, [f"no engine with label model.aibrix.ai/name={MODEL} in namespace default"]),
    ],
)
def test_a_cause_is_told_once(made: Callable[[], World], told: list[str]) -> None:
    assert lines(made()) == told


def test_a_cache_that_does_not_answer_is_told_beside_one_that_was_not_placed() -> None:
    world = unserved(free=10)
    world.node("b")
    world.engine("u2", "b", mounts=MOUNTS)
    assert lines(world) == [NEVER_FITS, "b: its cache has not answered yet"]


def test_a_worker_that_does_not_serve_is_told_beside_a_daemon_that_is_dead() -> None:
    world = dead_with_blocks()
    world.health("b", blocks="Waiting for 1 client that maps an earlier store.")
    assert lines(world) == [DEAD, "b: Waiting for 1 client that maps an earlier store"]


def test_a_store_that_can_not_be_made_is_told_where_its_daemon_answers() -> None:
    world = with_blocks()
    world.health("a", reason=HealthReason.FULL, blocks="There is no store: it does not fit.")
    told = lines(world)
    assert told[0].startswith("a: it is Full")
    assert told[1:] == ["a: There is no store: it does not fit"]


def test_a_move_is_told_as_long_as_it_is_news() -> None:
    world = serving()
    world.act()
    moved = world.status().model_copy(update={"moved": "relocated from b to a", "moved_at": world.now})
    overview = Overview(kvcaches=((None, moved),))
    just_before = world.now + MOVE_IS_NEWS_FOR - timedelta(seconds=1)
    assert told_lines(overview, just_before) == [f"{NAMESPACE}/kv: relocated from b to a"]
    assert told_lines(overview, world.now + MOVE_IS_NEWS_FOR) == []
